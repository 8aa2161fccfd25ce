"""Identities and the ACL's text; what Mosquitto makes of it is in test_matrix.py."""

from pathlib import Path

import pytest

from broker.access import COMPONENTS, Person, Principal, acl_text, component_identity, rights_of
from broker.frames import matches
from components.cli.assembly import ROLES, builder_of
from components.settings import Settings
from schemas.topics import Role
from tests.fixtures.broker import free_port

NODE = "hpc-1"


def settings(folder: Path) -> Settings:
    database = {"database": folder / "database.sqlite3"}
    return Settings.model_validate(
        {
            "node_agent": {"node": NODE, "runtime": "simulated", "state_dir": folder / "agent"},
            "dashboard": {"port": free_port()},
            **dict.fromkeys(("policy_manager", "resource_manager", "action_controller"), database),
        }
    )


@pytest.mark.parametrize("role", ROLES)
def test_a_component_may_hear_all_that_it_subscribes_to(role: Role, tmp_path: Path) -> None:
    component = builder_of(role, settings(tmp_path))(lambda _: None)
    wanted = [one.filter for one in component.subscriptions()]
    component.close()
    allowed = rights_of(Principal.parse(component_identity(role, component.instance))).subscribe

    assert [one for one in wanted if not any(matches(rule, one.replace("+", "x")) for rule in allowed)] == []


def test_every_component_is_an_identity_and_an_agent_is_one_with_its_node() -> None:
    assert {component_identity(role, "main") for role in ROLES} == {*map(str, COMPONENTS), "node_agent/main"}
    assert str(Principal.parse("node_agent/hpc-1")) == component_identity(Role.NODE_AGENT, "hpc-1")
    assert Principal.parse("admin/bob").kind is Person.ADMIN


@pytest.mark.parametrize(
    "name",
    [
        "",
        "somebody",
        "anyone",
        "node_agent",
        "node_agent/",
        "node_agent/a/b",
        "node_agent/+",
        "node_agent/#",
        "application",
        "application/a/b/c",
        "resource_manager/a",
        "cli/al ice",
        "cli/a\nuser b",
    ],
)
def test_what_is_no_identity_gets_no_rights(name: str) -> None:
    with pytest.raises(ValueError, match=r"is no identity|is no name"):
        Principal.parse(name)


def test_the_prefix_of_a_vehicle_goes_before_every_topic_but_the_brokers_own() -> None:
    text = acl_text([Principal.parse("cli/alice")], ["fleet/car-7"])
    topics = [line.split(" ", 2)[2] for line in text.splitlines() if line.startswith("topic")]
    assert {topic.partition("/car-7/")[0] for topic in topics} == {"fleet", "$SYS/#"}


def test_at_a_fleets_broker_everybody_has_rights_below_each_vehicle_and_a_bridge_below_its_own_name_alone() -> (
    None
):
    text = acl_text(map(Principal.parse, ("bridge/vehicle-7", "cli/alice")), ["vehicle-7", "vehicle-8"])
    bridge, alice = (part.splitlines()[1:] for part in text.split("user ")[1:])

    assert list(filter(None, bridge)) == ["topic readwrite vehicle-7/#"]
    assert {"topic read vehicle-7/scaling/status", "topic read vehicle-8/scaling/status"} <= set(alice)
    assert "topic read scaling/status" not in alice
    assert len(alice) == len(set(alice)), "what has no prefix is there once"


def test_the_acl_does_not_depend_on_the_order_in_which_identities_are_named() -> None:
    one, two = Principal.parse("cli/alice"), Principal.parse("node_agent/a")
    assert acl_text([one, two]) == acl_text([two, one, two])
