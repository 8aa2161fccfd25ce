"""What the broker's rules deny a component or a command is said: in the log, on /healthz, in its status."""

import json
import logging
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.secured import owner_of, secured_broker
from components.cli.connection import Session
from components.cli.errors import CliError
from components.cli.forget import forget_node, release
from components.shell import shell
from schemas.codec import Cleared
from schemas.resources import NodeCapacity
from schemas.topics import Role
from tests.security.running import running, settings_for
from tests.security.secured import OBSERVER, Foreign, Secured, secured, until


@pytest.fixture
def broker() -> Iterator[Secured]:
    components = ["monitoring_server", "policy_manager", "resource_manager"]
    with secured(["node_agent/a", "node_agent/b", "cli/alice", "admin/bob", *components]) as started:
        yield started


@pytest.fixture
def observer(broker: Secured) -> Iterator[Foreign]:
    with broker.client(OBSERVER) as client:
        client.subscribe("#")
        yield client


def change_rules(broker: Secured, drop: str | None = None, *, add: str = "") -> None:
    """Take a line out of the rules, or add some, and let the broker read them again."""
    acl = broker.folder / "broker" / "acl"
    text = acl.read_text()
    if drop is not None:
        assert f"\n{drop}\n" in text
        text = text.replace(f"\n{drop}\n", "\n")
    acl.write_text(text + add)
    mark = f"mark/{os.urandom(4).hex()}"
    with acl.open("a") as opened:
        opened.write(f"\nuser {OBSERVER}\ntopic deny {mark}\n")
    broker.reload(signal.SIGHUP)
    with broker.client(OBSERVER) as client:
        until(lambda: bool(client.publish_all([mark], b"")), "the broker reads its rules again")


def state_of(observer: Foreign, topic: str) -> str:
    said = [one.payload for one in observer.heard if one.topic == topic and one.payload]
    found = re.search(rb"init|ready|disconnected|lost", said[-1]) if said else None
    return found.group().decode() if found else ""


def test_a_component_that_may_not_publish_says_so_everywhere_and_heals_when_it_may(
    broker: Secured,
    observer: Foreign,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(shell, "DENIED_AGAIN_S", 0.5)
    change_rules(broker, "topic write node/a/info")

    with running(Role.NODE_AGENT, settings_for(broker, tmp_path)) as agent:
        until(lambda: any("does not let it publish" in text for text in agent.problems()), "unhealthy")
        assert agent.problems() == [
            "node_agent/a: the broker does not let it publish on node/a/info: Not authorized"
        ]
        until(lambda: state_of(observer, "component/node_agent/a") == "init", "it does not call itself ready")
        assert sum("not ready:" in text for text in caplog.messages) == 1, "said once"
        assert (
            "the broker does not let piriscale-node_agent-a publish on node/a/info: Not authorized" in caplog.text
        )

        change_rules(broker, add="\nuser node_agent/a\ntopic write node/a/info\n")
        until(lambda: not agent.problems(), "well again, without a restart")
        until(lambda: state_of(observer, "component/node_agent/a") == "ready", "and says so")
        until(
            lambda: bool([one for one in observer.heard if one.topic == "node/a/info"]), "what was denied is said"
        )


def test_a_component_that_may_not_even_say_who_it_is_ends_with_the_reason(
    broker: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # The certificate of another node: a mix-up that must not pass for a healthy agent.
    own = broker.certificates / "node_agent" / "b"
    tls = {"cert_file": own / "cert.pem", "key_file": own / "key.pem"}
    with running(Role.NODE_AGENT, settings_for(broker, tmp_path, tls=tls)) as agent:
        why = agent.wait()
    assert why is not None
    assert "does not let node_agent/a publish on component/node_agent/a: Not authorized" in why
    assert "the certificate or user is another's" in why
    assert why.partition(": ")[2] in caplog.text


def test_a_broker_that_withholds_messages_is_noticed_although_it_grants_the_subscription(
    broker: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shell, "ECHO_WITHIN_S", 0.5)
    change_rules(broker, "topic read component/+/+")
    with running(Role.NODE_AGENT, settings_for(broker, tmp_path)) as agent:
        until(lambda: any("withholds component/node_agent/a" in text for text in agent.problems()), "unhealthy")
        until(lambda: "it may not read" in caplog.text, "and logged")


def test_nothing_is_denied_a_component_with_the_rules_as_they_are_made(
    broker: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shell, "ECHO_WITHIN_S", 0.5)
    caplog.set_level(logging.WARNING)
    settings = settings_for(broker, tmp_path)
    with (
        running(Role.RESOURCE_MANAGER, settings) as manager,
        running(Role.NODE_AGENT, settings) as agent,
        broker.client(OBSERVER) as observer,
    ):
        observer.subscribe("resources/capacity/+")
        until(lambda: bool(observer.heard), "the manager heard of the node")
        until(lambda: not manager.problems() and not agent.problems(), "both are well")
    assert [text for text in caplog.messages if "not let" in text or "withholds" in text] == []


@pytest.mark.parametrize("partition", ["1/1", "1/2", "2/2"])
def test_a_monitoring_server_works_under_one_certificate_whichever_part_of_the_nodes_is_its_own(
    partition: str, broker: Secured, observer: Foreign, tmp_path: Path
) -> None:
    settings = settings_for(broker, tmp_path)
    monitoring = settings.monitoring.model_copy(update={"partition": partition})
    instance = {"1/1": "main", "1/2": "1-of-2", "2/2": "2-of-2"}[partition]
    with running(Role.MONITORING_SERVER, settings.model_copy(update={"monitoring": monitoring})) as server:
        topic = f"component/monitoring_server/{instance}"
        until(lambda: state_of(observer, topic) == "ready", "it is ready under its own name")
        assert server.problems() == []


def test_who_is_taken_out_of_the_rules_may_do_nothing_more_even_on_his_open_connection(
    broker: Secured, observer: Foreign
) -> None:
    with broker.client("node_agent/b") as node:
        node.subscribe("node/b/update")
        assert node.publish_all(["node/b/info"], b"before") == set()
        shutil.rmtree(broker.certificates / "node_agent" / "b")
        into = broker.folder / "broker"
        without = secured_broker(
            broker.certificates,
            into=into,
            port=broker.port,
            guests_port=broker.guests_port,
            owner=owner_of(into),
        )
        without.write(broker.certificates)
        change_rules(broker, add=f"\nuser {OBSERVER}\ntopic readwrite #\n")

        assert node.publish_all(["node/b/info"], b"after") == {"node/b/info"}
        observer.publish_all(["node/b/update"], b"command")
        node.subscribe("round/trip")
    assert not node.heard
    assert "node/b/info" not in observer.topics(b"after")


class TestCommands:
    @pytest.fixture
    def alice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIRISCALE_IDENTITY", "cli/alice")

    def test_what_an_engineer_may_not_delete_is_refused_at_once(
        self, broker: Secured, observer: Foreign, tmp_path: Path, alice: None
    ) -> None:
        state = {
            "generation": 3,
            "revision": 1,
            "sync_state": "SYNCHRONIZED",
            "since": 1,
            "desired": {"cpu_limit": 500},
        }
        info = {"boot_id": 1, "total": {"cpu": 1000, "memory": 1000}, "simulated": True, "capabilities": {}}
        info |= {"podman_version": "", "cgroup_version": 1, "rootless": False}
        observer.publish_all(["resources/state/a/nav"], json.dumps(state).encode(), retain=True)
        observer.publish_all(["node/a/info"], json.dumps(info).encode(), retain=True)
        settings = settings_for(broker, tmp_path)

        with pytest.raises(
            CliError, match=r"not let this identity publish on resources/state/a/nav: .*admin/NAME"
        ):
            release(settings, "nav", "a")
        with pytest.raises(CliError, match=r"not let this identity publish on node/a/info"):
            forget_node(settings, "a", force=True)

    def test_an_admin_may(
        self, broker: Secured, observer: Foreign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PIRISCALE_IDENTITY", "admin/bob")
        observer.publish_all(["resources/capacity/a"], b"{}", retain=True)
        with Session(settings_for(broker, tmp_path).broker, ()) as session:
            session.clear(Cleared(NodeCapacity, {"node": "a"}))
        until(lambda: [one.payload for one in observer.heard if one.topic == "resources/capacity/a"][-1:] == [b""])

    def test_an_identity_that_may_not_command_is_told(
        self, broker: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from components.cli.scale import Wanted, scale

        monkeypatch.setenv("PIRISCALE_IDENTITY", "node_agent/a")
        wanted = Wanted(workload="nav", node="a", cpu="2", dry_run=False, wait="30s", on_shortage="reject")
        with pytest.raises(CliError, match="not let this identity publish on scaling/action: Not authorized"):
            scale(settings_for(broker, tmp_path), wanted, as_json=True)
