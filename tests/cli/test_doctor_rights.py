"""`doctor` on what the broker lets us say and hear: real brokers, with the rules that deny."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.access import COMPONENTS, Principal, acl_text
from broker.certificates import BenchAuthority
from broker.configuration import MosquittoConfiguration, ServerTls
from components.cli.assembly import ROLES
from components.cli.doctor.broker import check_connection
from components.cli.doctor.finding import Finding, Level
from components.cli.doctor.rights import (
    PROBE_BODY,
    Need,
    accounts_of,
    ask,
    identity_of,
    judge,
    need_of,
    present_identity,
)
from components.settings import BrokerSettings, NodeAgentSettings, Settings, TlsSettings, load_settings
from schemas.codec import Malformed, decode
from schemas.topics import TOPICS, Role
from tests.cli.findings import all_ok, only_wrong
from tests.fixtures.broker import RunningBroker, running_broker
from tests.fixtures.watch import watching
from tests.requirements import require


@contextmanager
def broker_with(rights: str) -> Iterator[RunningBroker]:
    """Mosquitto with this ACL file; it asks nobody for a password, and believes every name."""
    with running_broker() as place:
        file = place.directory / "rights"
        file.write_text(rights)
        file.chmod(0o644)
        with running_broker(MosquittoConfiguration(acl_file=file)) as running:
            yield running


def settings_of(broker: RunningBroker, username: str | None = None, prefix: str = "") -> Settings:
    return Settings(
        broker=BrokerSettings(url=f"mqtt://127.0.0.1:{broker.port}", username=username, topic_prefix=prefix),
        node_agent=NodeAgentSettings(node="hpc-1"),
    )


def check(settings: Settings) -> list[Finding]:
    return check_as(settings)


def check_as(settings: Settings, *roles: Role) -> list[Finding]:
    ((account,), missing) = accounts_of(settings, roles)
    assert not missing
    return judge(account, settings.broker.topic_prefix, ask(account.options, account.need))


def test_a_broker_that_allows_everything_is_fine(broker: RunningBroker) -> None:
    assert all_ok(check(settings_of(broker)))


RIGHTS_OF_POLICY_MANAGER = """
user policy_manager
topic write scaling/action
topic write component/policy_manager/main
topic write deadletter/policy_manager
"""


def test_what_a_component_may_not_publish_is_named_with_the_line_that_allows_it() -> None:
    with broker_with(RIGHTS_OF_POLICY_MANAGER) as broker:
        found = only_wrong(check(settings_of(broker, "policy_manager")))

    assert found.text == "user policy_manager may not do what policy_manager must: publish perf/outcome"
    assert "for user policy_manager: topic write perf/outcome" in found.remedy
    assert "\n" not in found.remedy


def test_nobody_hears_that_rights_are_looked_at() -> None:
    """Else a look would release workloads, or send commands to agents."""
    with broker_with("topic readwrite #\n") as broker, watching(broker) as watch:
        assert all_ok(check(settings_of(broker)))
        watch.settle()

    assert watch.topics == []


def test_where_they_are_heard_after_all_they_are_no_message_to_anybody() -> None:
    """A broker may hand on what was not released: then it ends in the dead letters, whatever the topic."""
    names = dict.fromkeys(("node", "workload_id", "component", "instance"), "x")
    for topic in TOPICS:
        assert isinstance(decode(topic.address(names), PROBE_BODY), Malformed), topic.template


def test_an_agent_needs_the_topics_of_its_own_node_only() -> None:
    rights = (
        "user node_agent_hpc-1\n"
        "topic readwrite node/hpc-1/#\n"
        "topic write metrics/hpc-1/#\n"
        "topic readwrite component/node_agent/hpc-1\n"
        "topic write deadletter/node_agent\n"
    )
    with broker_with(rights) as broker:
        allowed = check(settings_of(broker, "node_agent_hpc-1"))
        other = settings_of(broker, "node_agent_hpc-1").model_copy(
            update={"node_agent": NodeAgentSettings(node="hpc-2")}
        )
        denied = only_wrong(check(other))

    assert all_ok(allowed)
    assert "publish metrics/hpc-2/node" in denied.text


def test_one_user_for_everything_is_told_what_each_component_lacks() -> None:
    rights = "".join(f"topic write {topic.filter()}\n" for topic in TOPICS if topic.template != "scaling/status")
    with broker_with(rights + "topic write debug/#\ntopic write debug2/#\n") as broker:
        found = only_wrong(check(settings_of(broker)))

    assert found.text == "an anonymous client may not do what action_controller must: publish scaling/status"


def test_many_lacks_make_one_short_line() -> None:
    with broker_with("user nobody\ntopic read #\n") as broker:
        findings = check(settings_of(broker, "control-plane"))

    assert len(findings) == len((*ROLES, Role.CLI))
    agent = next(one for one in findings if "node_agent" in one.text)
    assert "and " in agent.text and " more" in agent.text
    assert len(agent.remedy) < 500


def test_the_remedy_has_the_topics_as_the_broker_knows_them() -> None:
    with broker_with("user policy_manager\ntopic write fleet/v7/scaling/action\n") as broker:
        found = only_wrong(check(settings_of(broker, "policy_manager", prefix="fleet/v7")))

    assert "topic write fleet/v7/perf/outcome" in found.remedy
    assert "scaling/action" not in found.text


def test_a_subscription_that_is_refused_is_named() -> None:
    plugin = next(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"), None)
    require(plugin is not None, "mosquitto's dynamic security plugin")
    with running_broker() as place:
        rules = place.directory / "rules.json"
        access = {"publishClientSend": True, "publishClientReceive": True, "subscribe": False}
        everybody = {"anonymousGroup": "all", "groups": [{"groupname": "all"}], "roles": [], "clients": []}
        rules.write_text(json.dumps({"defaultACLAccess": access, **everybody}))
        rules.chmod(0o644)
        lines = (f"plugin {plugin}", f"plugin_opt_config_file {rules}")
        with running_broker(MosquittoConfiguration(extra=lines)) as guarded:
            settings = settings_of(guarded)
            found = only_wrong(check_as(settings, Role.MONITORING_SERVER))

    assert "monitoring_server must: subscribe to metrics/+/node" in found.text
    assert "topic read metrics/+/node" in found.remedy


def test_a_broker_without_qos_2_cannot_be_asked_and_that_is_said() -> None:
    with running_broker(MosquittoConfiguration(extra=("max_qos 1",))) as broker:
        (found,) = check(settings_of(broker))

    assert found.level is Level.NOTE
    assert "no QoS 2" in found.text


def named(username: str) -> Need:
    return need_of(username, "here")


def test_a_user_is_taken_for_the_component_it_is_named_after() -> None:
    assert named("resource-manager") == Need((Role.RESOURCE_MANAGER,), "here")
    assert named("node_agent/hpc-7") == Need((Role.NODE_AGENT,), "hpc-7")
    assert named("node-agent-hpc-7") == Need((Role.NODE_AGENT,), "here")
    assert named("admin/alice") == named("cli/bob") == Need((Role.CLI,), "here")
    assert named("bridge/v7").roles == named("application/hpc-1").roles == ()
    assert named("control-plane") == named("") == Need((*ROLES, Role.CLI), "here")


IDENTITIES = (*COMPONENTS, "node_agent/hpc-1", "cli/alice", "admin/bob")


@pytest.mark.parametrize("identity", IDENTITIES)
def test_no_identity_is_reproached_under_the_rights_that_we_give_it(rules: RunningBroker, identity: str) -> None:
    assert all_ok(check(settings_of(rules, identity)))


@pytest.fixture(scope="module")
def rules() -> Iterator[RunningBroker]:
    """A broker with the ACL of `piriscale broker-config`, for every kind of identity."""
    with broker_with(acl_text(Principal.parse(identity) for identity in IDENTITIES)) as running:
        yield running


def test_an_identity_is_reproached_for_what_it_needs_of_another(rules: RunningBroker) -> None:
    found = only_wrong(check_as(settings_of(rules, "cli/alice"), Role.POLICY_MANAGER))

    assert "user cli/alice may not do what policy_manager must: publish perf/outcome" in found.text


SECURED = """
[broker]
url = "mqtts://127.0.0.1:{port}"
[broker.tls]
ca_file = "{folder}/{{identity}}/ca.pem"
cert_file = "{folder}/{{identity}}/cert.pem"
key_file = "{folder}/{{identity}}/key.pem"
[node_agent]
node = "hpc-1"
"""


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A broker that knows certificates only, whose ACL forgot what policy_manager must be able to say."""
    folder = tmp_path / "certificates"
    authority = BenchAuthority(folder)
    principals = [Principal.parse(name) for name in ("policy_manager", "node_agent/hpc-1", "cli/alice")]
    for principal in principals:
        authority.issue(principal)
    authority.issue_broker(["127.0.0.1"])
    monkeypatch.setenv("PIRISCALE_IDENTITY", "cli/alice")
    with running_broker() as place:
        acl = acl_text(principals).replace("topic write perf/outcome\n", "")
        (place.directory / "acl").write_text(acl)
        for name in ("ca.pem", "cert.pem", "key.pem"):
            shutil.copy(folder / "broker" / name, place.directory)
            (place.directory / name).chmod(0o644)
        (place.directory / "acl").chmod(0o644)
        ca_file, cert_file, key_file = (place.directory / name for name in ("ca.pem", "cert.pem", "key.pem"))
        tls = ServerTls(ca_file, cert_file, key_file, require_certificate=True)
        with running_broker(MosquittoConfiguration(acl_file=place.directory / "acl", tls=tls)) as broker:
            path = tmp_path / "piriscale.toml"
            path.write_text(SECURED.format(port=broker.port, folder=folder))
            yield load_settings(path)


def test_every_component_is_asked_for_under_its_own_certificate(secured: Settings) -> None:
    accounts, missing = accounts_of(secured)
    found = [judge(account, "", ask(account.options, account.need)) for account in accounts]

    assert not missing
    assert {account.name for account in accounts} == {"policy_manager", "node_agent/hpc-1", "cli/alice"}
    assert "user policy_manager may not" in only_wrong([one for each in found for one in each]).text


def test_a_certificate_that_is_asked_for_and_not_there(secured: Settings) -> None:
    accounts, missing = accounts_of(secured, [Role.RESOURCE_MANAGER])

    assert accounts == []
    assert "piriscale certs" in only_wrong(missing).remedy


def test_on_a_node_without_a_certificate_of_the_person_the_agent_s_is_used(
    secured: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIRISCALE_IDENTITY", "cli/nobody")

    name = present_identity(secured)

    assert name in {"node_agent/hpc-1", "policy_manager"}
    assert identity_of(secured.broker.of(name)) == name
    assert all_ok(check_connection(secured.broker.of(name)))


def test_a_certificate_of_another_authority_is_no_password_and_no_broker_that_is_down(
    secured: Settings, tmp_path: Path
) -> None:
    stranger = BenchAuthority(tmp_path / "others").issue(Principal.parse("cli/alice"))
    ours = secured.broker.of("cli/alice")
    tls = (ours.tls or TlsSettings(ca_file=Path())).model_copy(
        update={"cert_file": stranger.folder / "cert.pem", "key_file": stranger.folder / "key.pem"}
    )

    found = only_wrong(check_connection(ours.model_copy(update={"tls": tls})))

    assert "piriscale certs" in found.remedy
    assert "systemctl" not in found.remedy


def test_the_name_in_a_certificate_is_the_identity(secured: Settings) -> None:
    assert identity_of(secured.broker.of("cli/alice")) == "cli/alice"
