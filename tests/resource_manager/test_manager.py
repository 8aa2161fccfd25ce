"""The component as the bus sees it: what it hears, what it repeats, and how it treats the topics it retains."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.component import Component
from schemas.codec import Cleared, pack
from schemas.enums import ConnectionState, Reason, ReconcileCause, SyncState, Verdict
from schemas.message import Message, Wire
from schemas.node import NodeInfo, StatusRequest
from schemas.operations import ComponentStatus
from schemas.resources import (
    ActualReply,
    DesiredReply,
    NodeCapacity,
    Reconcile,
    ResourceState,
    ValidateReply,
)
from schemas.topics import TOPICS, Role
from tests.resource_manager.bench import NODE, Bench, container

CAM, NAV = container("cam"), container("nav", 3000, 2048)
STATE_OF_CAM = Cleared(ResourceState, {"node": NODE, "workload_id": "cam"})
INFO = Cleared(NodeInfo, {"node": NODE})


def test_it_hears_what_the_registry_says_it_reads(bench: Bench) -> None:
    component: Component = bench.manager
    expected = {topic.filter() for topic in TOPICS if Role.RESOURCE_MANAGER in topic.readers}
    expected -= {"component/+/+"}
    expected |= {"component/node_agent/+", "resources/state/+/+"}

    assert {one.filter for one in component.subscriptions()} == expected
    assert (component.role, component.instance, component.persistent) == (Role.RESOURCE_MANAGER, "main", True)
    assert component.problem is None
    assert component.start(bench.now) == []


VALIDATE, DESIRED, ACTUAL = "resources/validate", "resources/desired", "resources/actual"
REPLIES: dict[str, type[Message]] = {VALIDATE: ValidateReply, DESIRED: DesiredReply, ACTUAL: ActualReply}


@pytest.mark.parametrize("wire", [Wire.JSON, Wire.MSGPACK])
@pytest.mark.parametrize(
    ("case", "topic", "body", "reason"),
    [
        ("no number", VALIDATE, {"requested_cpu": "much"}, Reason.INVALID_TARGET),
        ("nothing", VALIDATE, {"requested_memory": 0}, Reason.INVALID_TARGET),
        ("a limit nobody can set", VALIDATE, {"requested_hugepages": 4}, Reason.UNSUPPORTED),
        ("no operation", DESIRED, {"operation": "DELETE"}, Reason.INVALID_TARGET),
        ("a target nobody can set", DESIRED, {"operation": "RECORD", "target": {"numa": 1}}, Reason.UNSUPPORTED),
        ("no result", ACTUAL, {"generation": 1, "result": "MAYBE"}, Reason.INVALID_TARGET),
    ],
)
def test_a_request_with_a_bad_value_is_answered_in_words(
    bench: Bench, case: str, topic: str, body: dict[str, Any], reason: Reason, *, wire: Wire
) -> None:
    sound = {"id": "bad-1", "node": NODE, "workload_id": "cam", "action_id": "a-1"}
    bench.hear_bytes(topic, pack({**sound, **body}, wire))

    reply: Any = bench.only(REPLIES[topic])
    assert (reply.in_reply_to, reply.reason, reply.wire) == ("bad-1", reason, wire), case
    assert reply.message
    assert bench.said == [reply]
    if isinstance(reply, ValidateReply):
        assert not reply.allowed
        assert reply.available == bench.capacity().available
        assert (reply.node, reply.workload_id) == (NODE, "cam")
    elif isinstance(reply, DesiredReply):
        assert not reply.success
    else:
        assert reply.verdict is Verdict.FAILED


def test_on_every_connection_all_is_said_again_and_every_agent_is_asked(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    bench.snapshot(container("cam", 700, 1024), NAV)
    sent = bench.only(Reconcile)

    said = bench.manager.connected(bench.now)

    states = {message.workload_id: message for message in said if isinstance(message, ResourceState)}
    assert states.keys() == {"cam", "nav"}
    assert states["cam"].sync_state is SyncState.DRIFT_DETECTED
    assert [message.allocated.cpu for message in said if isinstance(message, NodeCapacity)] == [5500]
    assert [message.id for message in said if isinstance(message, Reconcile)] == [sent.id]
    assert [(message.node, message.workload_id) for message in said if isinstance(message, StatusRequest)] == [
        (NODE, None)
    ]


def test_what_was_let_go_is_not_said_on_a_connection(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    bench.snapshot(NAV)
    bench.snapshot(NAV)
    bench.after(301)

    states = [m.workload_id for m in bench.manager.connected(bench.now) if isinstance(m, ResourceState)]
    assert states == ["nav"]


def test_at_its_start_it_judges_what_agents_retained(kept: Bench) -> None:
    kept.scaled(cpu_limit=2500)
    kept.manager.close()
    kept.seq += 1
    kept.manager = kept._open()
    kept.snapshot(container("cam", 700, 1024), NAV)

    assert kept.only(Reconcile).cause is ReconcileCause.STARTUP


def test_what_was_asked_while_it_was_away_is_judged_by_the_ledger_not_refused(kept: Bench) -> None:
    kept.manager.close()
    kept.manager = kept._open()

    assert kept.validate(cpu=2500).allowed


REPEATS: dict[str, Callable[[Bench], Message | Cleared]] = {
    "a snapshot": lambda bench: bench.retained[f"node/{NODE}/actual"],
    "an info": lambda bench: bench.retained[f"node/{NODE}/info"],
    "a presence": lambda bench: ComponentStatus(
        id="c", component="node_agent", instance=NODE, state=ConnectionState.READY, boot_id=100
    ),
    "its own state": lambda bench: bench.state(),
    "a deletion of a ghost": lambda bench: Cleared(ResourceState, {"node": NODE, "workload_id": "ghost"}),
    "a deletion of an info of a node that is there": lambda bench: INFO,
}


@pytest.mark.parametrize("what", REPEATS)
def test_a_repeated_message_changes_nothing(bench: Bench, what: str) -> None:
    bench.agent_is(ConnectionState.READY)
    bench.scaled("a-1", cpu_limit=2500)
    bench.recorded("a-2", "nav", cpu_limit=3100)
    before = (dict(bench.manager.ledger.workloads), bench.capacity(), bench.manager.ledger.row("a-2"))

    for _ in range(3):
        bench.hear(REPEATS[what](bench))
        assert bench.said == []

    after = (dict(bench.manager.ledger.workloads), bench.capacity(), bench.manager.ledger.row("a-2"))
    assert after == before


def test_two_nodes_are_counted_apart(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ledger.sqlite3")
    bench.info()
    bench.snapshot(CAM, NAV)
    bench.info(node="hpc-2", cpu=4000)
    bench.snapshot(container("cam", 1000, 512), node="hpc-2", seq=1)

    assert bench.capacity().allocated.cpu == 5000
    assert bench.capacity("hpc-2").allocated.cpu == 1000
    assert bench.validate("a-1", cpu=3001, node="hpc-2").reason is Reason.INFEASIBLE
    assert bench.validate("a-2", cpu=3000, node="hpc-2").allowed
    assert bench.capacity().allocated.cpu == 5000
    assert bench.capacity("hpc-2").allocated.cpu == 3000
    bench.manager.close()


def asked_all(bench: Bench, seconds: float) -> list[str]:
    said = bench.after(seconds)
    return [message.id for message in said if isinstance(message, StatusRequest) and message.workload_id is None]


def test_what_runs_is_asked_again_until_the_agent_answers(bench: Bench) -> None:
    (first,) = [m for m in bench.manager.connected(bench.now) if isinstance(m, StatusRequest)]

    assert asked_all(bench, 4.0) == [first.id, first.id], "after a second, and after two more"
    bench.agent_says(first.id, success=False, reason=Reason.OVERLOADED, message="ask again")
    assert asked_all(bench, 4.0) == [first.id]
    bench.agent_says(first.id, CAM, NAV)
    assert asked_all(bench, 60.0) == []


def test_what_runs_is_not_asked_of_an_agent_that_is_away(bench: Bench) -> None:
    bench.manager.connected(bench.now)
    bench.agent_is(ConnectionState.LOST)

    assert asked_all(bench, 60.0) == []
    assert not [m for m in bench.manager.connected(bench.now) if isinstance(m, StatusRequest)]
