"""The picture of the whole system: what is kept, what is news, what is forgotten, and in what bounds."""

import pytest

from components.monitoring_server.fleet import SILENT_S
from components.overview import overview as module
from components.overview.events import Level
from components.overview.newest import SILENT_MS
from components.overview.overview import HEARD, RETAINED, Overview
from schemas.codec import Cleared
from schemas.enums import (
    ActionOutcome,
    ConnectionState,
    EventOutcome,
    Phase,
    Reason,
    SnapshotTrigger,
    SyncState,
    TaskState,
)
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse, NodeMetrics
from schemas.node import ContainerReport, NodeInfo, NodeSnapshot
from schemas.operations import ComponentStatus, DeadLetter, RejectReason
from schemas.performance import Indicator, PerfDegraded, PerfOutcome, PerfRecovered
from schemas.resources import NodeCapacity, ResourceState
from schemas.scaling import ScalingAction, ScalingControl, ScalingStatus
from schemas.topics import topic_of

ONE = Amount(cpu=1, memory=1)
CAM = ("hpc-1", "cam")


def state(sync_state: SyncState, name: str = "cam", revision: int = 0) -> ResourceState:
    return ResourceState(node="hpc-1", workload_id=name, sync_state=sync_state, revision=revision)


def agent(state: ConnectionState = ConnectionState.READY, boot_id: int = 1) -> ComponentStatus:
    return ComponentStatus(component="node_agent", instance="hpc-1", state=state, boot_id=boot_id)


def capacity() -> NodeCapacity:
    return NodeCapacity(node="hpc-1", total=ONE, allocated=ONE, reserved=ONE, available=ONE)


def info() -> NodeInfo:
    return NodeInfo(node="hpc-1", boot_id=1, total=ONE)


def use(cpu: int) -> ContainerMetrics:
    return ContainerMetrics(
        node="hpc-1", containers=(ContainerUse(workload_id="cam", usage=Amount(cpu=cpu, memory=64)),)
    )


def final(outcome: ActionOutcome = ActionOutcome.COMPLETED, reason: Reason | None = None) -> ScalingStatus:
    return ScalingStatus(
        action_id="a-1",
        node="hpc-1",
        workload_id="cam",
        state=TaskState.SUCCEEDED,
        phase=Phase.DONE,
        outcome=outcome,
        reason=reason,
        actual=Limits(cpu_limit=2000),
    )


def told(*messages: Message, retained: bool = False) -> list[str]:
    """What is worth a line of all these."""
    seen = Overview()
    events = [seen.hear(message, number, retained=retained) for number, message in enumerate(messages)]
    return [event.text for event in events if event is not None]


def test_what_is_retained_is_enough_for_nodes_workloads_use_and_components() -> None:
    report = ContainerReport(workload_id="cam", usage=Amount(cpu=200, memory=64))
    snapshot = NodeSnapshot(node="hpc-1", boot_id=1, seq=1, trigger=SnapshotTrigger.START, containers=(report,))
    seen = Overview()
    for message in (capacity(), info(), snapshot, state(SyncState.SYNCHRONIZED), agent()):
        assert type(message) in RETAINED
        assert seen.hear(message, 7, retained=True) is None

    assert seen.nodes["hpc-1"] == capacity()
    assert seen.measures.uses[CAM].amount.cpu == 200
    assert {name: len(part) for name, part in seen.document().items()} == {
        "nodes": 1,
        "workloads": 1,
        "actions": 0,
        "components": 1,
    }


def test_retained_topics_are_those_that_the_registry_says_are_retained() -> None:
    assert {topic_of(message).retained for message in RETAINED} == {True}
    assert {message for message in HEARD if topic_of(message).retained} == set(RETAINED)


def test_measures_that_come_are_the_use_shown_and_no_old_snapshot_replaces_them() -> None:
    seen = Overview()
    seen.hear(use(300), 1)
    report = ContainerReport(workload_id="cam", usage=Amount(cpu=5, memory=5))
    seen.hear(NodeSnapshot(node="hpc-1", boot_id=1, seq=1, trigger="PERIODIC", containers=(report,)), 2)

    assert (seen.measures.uses[CAM].amount.cpu, seen.measures.uses[CAM].at_ms) == (300, 1)


def test_loads_and_measures_are_kept() -> None:
    seen = Overview()
    seen.hear(NodeMetrics(node="hpc-1", cpu_usage=50, cpu_count=8, used_memory=1, total_memory=2))
    seen.hear(AppMetrics(node="hpc-1", workload_id="cam", latency_ms=12))

    assert seen.measures.loads["hpc-1"].cpu_usage == 50
    assert seen.measures.apps[CAM].latency_ms == 12


FULL_ID = "f" * 64


def containers(**ids: str) -> NodeSnapshot:
    reports = tuple(ContainerReport(workload_id=name, runtime_id=runtime_id) for name, runtime_id in ids.items())
    return NodeSnapshot(node="hpc-1", boot_id=1, seq=1, trigger=SnapshotTrigger.START, containers=reports)


def test_what_an_application_measures_under_its_container_id_is_shown_under_its_name() -> None:
    seen = Overview()
    seen.hear(containers(cam=FULL_ID), retained=True)
    seen.hear(AppMetrics(node="hpc-1", workload_id=FULL_ID, latency_ms=12))

    assert set(seen.measures.apps) == {CAM}
    seen.hear(Cleared(NodeInfo, {"node": "hpc-1"}))
    seen.hear(AppMetrics(node="hpc-1", workload_id=FULL_ID, latency_ms=12))
    assert set(seen.measures.apps) == {CAM, ("hpc-1", FULL_ID)}, "nobody knows this node any more"


def test_measures_that_do_not_come_anew_are_not_shown_for_ever() -> None:
    """The application hangs, or its agent does; what else is measured stays."""
    seen = Overview()
    load = NodeMetrics(node="hpc-1", cpu_usage=50, cpu_count=8, used_memory=1, total_memory=2)
    for message in (load, use(300), AppMetrics(node="hpc-1", workload_id="cam", latency_ms=12)):
        seen.hear(message, 1_000)
    seen.hear(use(300), SILENT_MS)
    assert seen.measures.apps

    seen.hear(use(300), SILENT_MS + 10_000)

    assert not seen.measures.apps
    assert not seen.measures.loads
    assert CAM in seen.measures.uses


def test_a_change_of_state_is_news_once() -> None:
    said = (
        state(SyncState.APPLYING),
        state(SyncState.APPLYING, revision=2),
        state(SyncState.SYNCHRONIZED),
        state(SyncState.SYNCHRONIZED),
    )

    assert told(*said) == ["APPLYING", "SYNCHRONIZED"]


def test_repeats_of_events_actions_and_endings_are_told_once() -> None:
    about = {"event_id": "e", "node": "hpc-1", "workload_id": "cam"}
    over = (Indicator(metric="latency_ms", value=450, threshold=300),)
    target = Limits(cpu_limit=2000)
    said: tuple[Message, ...] = (
        PerfDegraded(episode_id="p", indicators=over, **about),
        ScalingAction(action_id="a-1", node="hpc-1", workload_id="cam", target=target),
        final(),
        PerfOutcome(action_id="a-1", outcome=EventOutcome.COMPLETED, **about),
        PerfRecovered(episode_id="p", **{**about, "event_id": "e2"}),
    )

    assert told(*said, *said) == [
        "degraded: latency_ms 450 (threshold 300)",
        "is to have 2000m CPU (EXTERNAL)",
        "COMPLETED; in force: 2000m CPU, unlimited memory",
        "recovered:",
    ]


def test_the_reason_of_every_refusal_is_told() -> None:
    refused = PerfOutcome(
        event_id="e",
        node="hpc-1",
        workload_id="cam",
        outcome=EventOutcome.NOT_REQUIRED,
        reason=Reason.AT_MAXIMUM,
        message="4000m is the maximum",
    )

    assert told(refused) == ["no scaling: AT_MAXIMUM 4000m is the maximum"]
    assert told(final(ActionOutcome.REJECTED, Reason.INFEASIBLE)) == ["REJECTED INFEASIBLE"]


def test_components_that_come_and_go_are_news_but_a_late_will_is_not() -> None:
    lost = agent(ConnectionState.LOST, boot_id=0)

    assert told(agent(), agent(), lost, agent(ConnectionState.DISCONNECTED)) == [
        "node_agent hpc-1 is ready",
        "node_agent hpc-1 is disconnected",
    ]


def test_measures_are_of_the_past_when_monitoring_server_holds_them_so() -> None:
    """Else the page shows what Prometheus does not, or the other way round."""
    assert SILENT_MS == SILENT_S * 1000


def test_how_things_are_at_the_start_is_no_news() -> None:
    assert told(agent(), state(SyncState.FAILED), ScalingControl(paused=True), retained=True) == []


def test_what_changed_while_the_connection_was_lost_is_news() -> None:
    seen = Overview()
    seen.hear(state(SyncState.SYNCHRONIZED), retained=True)
    seen.reconnected(10)

    event = seen.hear(state(SyncState.FAILED), 11, retained=True)

    assert event is not None
    assert (event.text, event.level) == ("FAILED", Level.BAD)


def test_what_was_deleted_while_the_connection_was_lost_is_forgotten() -> None:
    seen = Overview()
    for message in (state(SyncState.SYNCHRONIZED), state(SyncState.SYNCHRONIZED, "gone"), capacity(), agent()):
        seen.hear(message, retained=True)
    seen.reconnected(1_000)
    for message in (state(SyncState.SYNCHRONIZED), capacity()):
        seen.hear(message, 1_001, retained=True)
    assert ("hpc-1", "gone") in seen.workloads, "it may still come"

    seen.hear(use(1), 5_000)

    assert list(seen.workloads) == [CAM]
    assert list(seen.nodes) == ["hpc-1"]
    assert seen.components == {}


def test_what_is_cleared_is_forgotten_with_its_measures() -> None:
    seen = Overview()
    for message in (state(SyncState.SYNCHRONIZED), use(1), info(), capacity(), agent()):
        seen.hear(message)
    seen.hear(Cleared(ResourceState, {"node": "hpc-1", "workload_id": "cam"}))
    seen.hear(Cleared(NodeInfo, {"node": "hpc-1"}))
    seen.hear(Cleared(NodeCapacity, {"node": "hpc-1"}))
    seen.hear(Cleared(ComponentStatus, {"component": "node_agent", "instance": "hpc-1"}))

    assert not (seen.workloads or seen.measures.uses or seen.infos or seen.nodes or seen.components)


def test_a_dead_letter_is_counted_and_told() -> None:
    letter = DeadLetter(
        component="policy_manager", topic="perf/degraded", reason=RejectReason.INVALID, message="no id"
    )
    seen = Overview()
    seen.hear(letter, 1)
    seen.hear(letter, 2)

    assert seen.dead_letters["policy_manager"].count == 2
    assert seen.events[-1].text == "policy_manager could not use perf/degraded: invalid no id"


def test_pauses_are_told_for_a_workload() -> None:
    seen = Overview()
    seen.hear(ScalingControl(paused=True))
    seen.hear(ScalingControl(paused=False, workload="cam"))

    assert seen.pause_of(CAM) is None
    assert str(seen.pause_of(("hpc-1", "nav"))) == "everywhere"


def test_what_there_is_no_room_for_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKLOADS_MAX", 2)
    seen = Overview()
    for name in ("a", "b", "c", "d", "a"):
        seen.hear(state(SyncState.UNKNOWN, name))

    assert sorted(name for _, name in seen.workloads) == ["a", "b"]
    assert seen.left_out == 2


def test_events_and_marks_of_repeats_are_bounded() -> None:
    seen = Overview()
    for number in range(20_000):
        seen.hear(PerfRecovered(event_id=str(number), episode_id="p", node="n", workload_id="w"), number)

    assert len(seen.events) == module.EVENTS_MAX
    assert seen.events[-1].at_ms == 19_999
    assert len(seen._said) == module._SAID_MAX
