"""`status`, `pause`, `resume`, `release`, `forget-node`, `history` on a running system."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.bus import Identity
from broker.client import MqttBus
from broker.options import BrokerOptions
from broker.plain import PlainClient
from schemas.codec import Frame, decode, encode
from schemas.enums import ConnectionState, SyncState
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.node import NodeInfo, NodeSnapshot
from schemas.operations import ComponentStatus
from schemas.resources import NodeCapacity, ResourceState
from schemas.scaling import ScalingControl
from tests.cli.system import NODE, Configuration, configuration, status, until, workload
from tests.fixtures.broker import RunningBroker


@contextmanager
def listening(port: int, pattern: str) -> Iterator[dict[str, bytes]]:
    """The latest payload by topic."""
    latest: dict[str, bytes] = {}

    def take(topic: str, payload: bytes, _retained: bool) -> None:
        latest[topic] = payload

    with PlainClient("127.0.0.1", port, f"listener-{pattern.replace('/', '-')}", take, (pattern,)):
        yield latest


def container_id(system: Configuration, name: str) -> str:
    """The full id of a container, as its agent says it."""
    topic = f"node/{NODE}/actual"
    with listening(system.broker_port, topic) as latest:
        until(lambda: topic in latest, "retained")
        said = decode(topic, latest[topic])
    assert isinstance(said, NodeSnapshot)
    return next(one.runtime_id for one in said.containers if one.workload_id == name)


def test_status_as_json_has_nodes_workloads_actions_and_components(system: Configuration) -> None:
    document = status(system)

    assert set(document) == {"nodes", "workloads", "actions", "components"}
    (node,) = document["nodes"]
    assert node["node"] == NODE
    assert node["available"]["cpu"] > 0
    assert {state["workload_id"] for state in document["workloads"]} == {"sim-1", "sim-2", "sim-3"}
    ready = {(one["component"], one["state"]) for one in document["components"]}
    assert {("resource_manager", "ready"), ("node_agent", "ready"), ("debug_tap", "ready")} <= ready


def test_status_says_at_a_glance_that_all_is_well(system: Configuration) -> None:
    result = system.cli("status")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "✓ all is well"
    assert "sim-1" in result.stdout
    assert "\x1b[" not in result.stdout, "colours are for terminals"


def test_pause_and_resume_are_kept_by_the_broker_and_seen_in_status(system: Configuration) -> None:
    paused = system.cli("pause", "--node", NODE)
    shown = system.cli("status").stdout
    resumed = system.cli("resume", "--node", NODE)

    assert (paused.exit_code, resumed.exit_code) == (0, 0)
    assert paused.stdout == f"automatic scaling is paused on node {NODE}\n"
    assert f"paused on {NODE}" in shown
    assert "paused" not in system.cli("status").stdout
    with listening(system.broker_port, "control/scaling") as latest:
        until(lambda: "control/scaling" in latest, "retained")
        said = decode("control/scaling", latest["control/scaling"])
    assert isinstance(said, ScalingControl)
    assert (said.paused, said.node) == (False, NODE)


def test_pause_says_when_nobody_is_there_to_heed_it(alone: Configuration, broker: RunningBroker) -> None:
    result = alone.cli("pause", "--workload", "cam")

    assert result.exit_code == 0
    assert "policy_manager is not ready now" in result.stdout
    _clear(broker.port, "control/scaling")


def test_release_forgets_what_was_desired_and_leaves_what_is_in_force(system: Configuration) -> None:
    assert system.cli("scale", "sim-3", "--memory", "333Mi").exit_code == 0
    assert workload(system, "sim-3")["desired"] == {"memory_limit": 333}

    result = system.cli("release", "sim-3")

    assert result.exit_code == 0, result.stderr
    assert "in force stays" in result.stdout
    assert "333Mi" in result.stdout
    state = workload(system, "sim-3")
    assert "desired" not in state
    assert state["actual"]["memory_limit"] == 333
    assert "nothing to release" in system.cli("release", "sim-3", "--node", NODE).stdout


def test_release_takes_the_full_id_of_a_container_for_its_name(system: Configuration) -> None:
    assert system.cli("scale", "sim-2", "--memory", "222Mi").exit_code == 0

    result = system.cli("release", container_id(system, "sim-2"))

    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"sim-2 on {NODE} is released"), "and says whose it was"
    assert "desired" not in workload(system, "sim-2")


def test_release_of_an_id_that_no_container_has_any_more_asks_for_the_name(system: Configuration) -> None:
    result = system.cli("release", "a" * 64)

    assert result.exit_code == 1
    assert f"{'a' * 64} is neither a workload on {NODE} nor the full id of a container there" in result.stderr
    assert "name" in result.stderr


def test_release_of_what_is_not_known_is_refused(system: Configuration) -> None:
    result = system.cli("release", "no-such")

    assert result.exit_code == 1
    assert "no-such" in result.stderr


def test_forget_node_refuses_while_the_agent_runs(system: Configuration) -> None:
    result = system.cli("forget-node", NODE)

    assert result.exit_code == 1
    assert "--force" in result.stderr
    assert len(status(system)["nodes"]) == 1


def test_forget_node_of_a_node_nobody_knows_is_refused(system: Configuration) -> None:
    result = system.cli("forget-node", "hpc-9")

    assert result.exit_code == 1
    assert "nothing is known of hpc-9" in result.stderr


def test_forget_node_leaves_nothing_of_a_dead_node_and_everything_of_the_others(
    alone: Configuration, broker: RunningBroker
) -> None:
    for node in ("dead", "other"):
        for message in _retained_of(node):
            frame = encode(message)
            _publish(broker.port, frame.topic, frame.payload)

    result = alone.cli("forget-node", "dead")

    assert result.exit_code == 0, result.stderr
    with listening(broker.port, "#") as latest:
        until(lambda: len(latest) >= len(_retained_of("other")), "retained messages")
        topics = set(latest)
    assert not [topic for topic in topics if "dead" in topic]
    for message in _retained_of("other"):
        _clear(broker.port, encode(message).topic)


def test_a_forgotten_node_stays_forgotten_by_resource_manager(tmp_path: Path, broker: RunningBroker) -> None:
    settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{broker.port}", containers=2)
    with settings.child("run", "resource-manager"):
        with settings.child("run", "node_agent") as agent:
            until(lambda: len(status(settings)["workloads"]) == 2, "the node is known")
            agent.end()
        assert "disconnected" in settings.cli("status").stdout

        result = settings.cli("forget-node", NODE)

        assert result.exit_code == 0, result.stderr
        document = status(settings)
        assert document["nodes"] == document["workloads"] == []
    _clear(broker.port, "component/resource_manager/main")


def test_history_tells_how_scalings_ended_the_latest_first(system: Configuration) -> None:
    assert system.cli("scale", "sim-1", "--cpu", "500", "--json").exit_code == 3
    assert system.cli("scale", "sim-1", "--cpu", "700m").exit_code == 0

    result = system.cli("history", "--json", "--limit", "2")

    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert [one["outcome"] for one in document["actions"]] == ["COMPLETED", "REJECTED"]
    assert document["actions"][0]["at_ms"] >= document["actions"][1]["at_ms"] > 1_600_000_000_000
    assert document["decisions"] == []
    shown = system.cli("history").stdout
    assert "INFEASIBLE" in shown
    assert "700m CPU" in shown


def test_history_where_there_is_no_journal_says_where_to_look(alone: Configuration) -> None:
    result = alone.cli("history")

    assert result.exit_code == 1
    assert "run this where they do" in result.stderr


def _retained_of(node: str) -> list[Message]:
    one = Amount(cpu=1, memory=1)
    return [
        NodeInfo(node=node, boot_id=1, total=one),
        NodeSnapshot(node=node, boot_id=1, seq=1, trigger="START"),
        NodeCapacity(node=node, total=one, allocated=one, reserved=one, available=one),
        ResourceState(node=node, workload_id="cam", sync_state=SyncState.UNKNOWN, actual=Limits(cpu_limit=5)),
        ResourceState(node=node, workload_id="nav", sync_state=SyncState.UNKNOWN),
        ComponentStatus(component="node_agent", instance=node, state=ConnectionState.LOST),
    ]


def _publish(port: int, topic: str, payload: bytes) -> None:
    """Retain a message, and see that the broker has it."""
    bus = MqttBus(BrokerOptions(port=port), Identity("publisher"), lambda _: True)
    bus.start()
    bus.publish(Frame(topic, payload, retain=True))
    bus.stop()
    assert bus.counts.published == 1


def _clear(port: int, topic: str) -> None:
    _publish(port, topic, b"")
