"""Nodes go and come back; what their agents said in an earlier life is not believed."""

from typing import Any

from schemas.enums import ConnectionState, Reason, SnapshotTrigger, SyncState, UpdateResult, Verdict
from schemas.limits import Limits
from schemas.node import StatusRequest
from schemas.resources import Reconcile
from tests.resource_manager.bench import NODE, Bench, container

CAM, NAV = container("cam"), container("nav", 3000, 2048)
HOLD_S = 300.0
SYNC_S = 30.0


def vanish(bench: Bench) -> None:
    """Cam goes, and its NodeAgent says so at once."""
    bench.snapshot(NAV, trigger=SnapshotTrigger.CONTAINER)


def test_a_node_that_is_lost_makes_its_workloads_fail_and_heals_with_news(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    bench.scaled(cpu_limit=2500)

    bench.agent_is(ConnectionState.LOST)
    state = bench.state()
    assert (state.sync_state, state.reason) == (SyncState.FAILED, Reason.NODE_UNAVAILABLE)
    assert state.actual is None
    assert bench.state("nav").actual is None
    assert bench.validate("a-2", cpu=2600).reason is Reason.NODE_UNAVAILABLE
    assert bench.capacity().allocated.cpu == 5500

    bench.agent_is(ConnectionState.READY)
    assert bench.only(StatusRequest).workload_id is None
    assert bench.state().reason is Reason.NODE_UNAVAILABLE
    bench.agent_says(bench.only(StatusRequest).id, container("cam", 2500, 1024), NAV)
    assert (bench.state().sync_state, bench.state().reason) == (SyncState.SYNCHRONIZED, None)
    assert bench.state("nav").actual == Limits(cpu_limit=3000, memory_limit=2048)


def test_a_node_that_returns_with_other_limits_is_reconciled(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    bench.scaled(cpu_limit=2500)
    bench.agent_is(ConnectionState.DISCONNECTED)
    bench.agent_is(ConnectionState.READY, boot_id=101)
    bench.agent_restarts(container("cam", 2000, 1024), NAV)

    sent = bench.only(Reconcile)
    assert (sent.desired, sent.boot_id) == (Limits(cpu_limit=2500), 101)
    assert bench.state().sync_state is SyncState.FAILED, "until the reconcile ends, the last cause stands"
    bench.reconciled(sent)
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_an_action_under_way_is_not_failed_by_the_loss_of_its_node(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    recorded = bench.recorded(cpu_limit=2500)
    bench.agent_is(ConnectionState.LOST)
    assert bench.state().sync_state is SyncState.APPLYING

    reply = bench.fails(generation=recorded.generation, reason=Reason.NODE_UNAVAILABLE)
    assert reply.verdict is Verdict.RETRY


def test_the_will_of_an_earlier_life_is_ignored(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY, boot_id=101)

    bench.agent_is(ConnectionState.LOST, boot_id=100)

    assert bench.validate(cpu=2100).allowed


def test_a_node_away_holds_the_room_of_its_containers(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    vanish(bench)
    bench.after(10)
    bench.agent_is(ConnectionState.LOST)

    bench.after(3 * HOLD_S)
    assert bench.capacity().allocated.cpu == 5000
    bench.agent_is(ConnectionState.READY)
    for _ in range(int(HOLD_S / SYNC_S)):
        bench.after(SYNC_S - 0.25)
        bench.snapshot(NAV)
    assert bench.capacity().allocated.cpu == 5000, "its containers have the whole hold to come back with it"
    bench.after(3)
    assert bench.capacity().allocated.cpu == 3000


def test_nothing_of_an_earlier_life_of_an_agent_is_believed(bench: Bench) -> None:
    bench.agent_restarts(CAM, NAV)
    bench.boot_id = 100

    bench.info(cpu=2000)
    bench.snapshot(container("cam", 100, 100), seq=99, trigger=SnapshotTrigger.CONTAINER)
    bench.agent_says("anything", container("cam", 100, 100), seq=100)
    bench.report("ghost", generation=1, actual=Limits(cpu_limit=100), seq=101)

    assert bench.capacity().total.cpu == 8000
    assert bench.capacity().allocated.cpu == 5000
    assert bench.state().actual == Limits(cpu_limit=2000, memory_limit=1024)


def test_a_report_from_an_earlier_life_is_not_news_though_the_new_life_has_not_shown_its_containers(
    bench: Bench,
) -> None:
    bench.boot_id = 101
    bench.info()

    bench.report("ghost", generation=1, actual=Limits(cpu_limit=100), boot_id=100, seq=99)

    assert bench.state().actual == Limits(cpu_limit=2000, memory_limit=1024)


def test_an_answer_from_an_earlier_life_does_not_bring_back_a_container_that_is_gone(bench: Bench) -> None:
    bench.agent_restarts(CAM, NAV)

    bench.agent_says("anything", container("radar"), boot_id=100, seq=50)

    assert bench.said == []
    assert bench.validate(workload="radar", cpu=100).reason is Reason.UNKNOWN_WORKLOAD


def test_the_answer_to_a_question_is_news_like_a_snapshot(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)

    bench.agent_says("all", container("cam", 700, 1024))

    assert bench.only(Reconcile).desired == Limits(cpu_limit=2500)


def test_a_failed_answer_changes_nothing(bench: Bench) -> None:
    bench.agent_says("all", container("cam", 700, 1024), success=False, reason=Reason.QUERY_FAILED)

    assert bench.state().actual == Limits(cpu_limit=2000, memory_limit=1024)


def test_a_reconcile_that_failed_on_a_lost_node_tells_so_and_waits(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    bench.scaled(cpu_limit=2500)
    bench.snapshot(container("cam", 700, 1024), NAV)
    sent = bench.only(Reconcile)
    bench.agent_is(ConnectionState.LOST)
    failed: dict[str, Any] = {"result": UpdateResult.FAILED, "reason": Reason.NODE_UNAVAILABLE, "actual": None}
    for attempt in range(4):
        bench.reconciled(sent, attempt=sent.attempt + attempt, **failed)

    assert (bench.state().sync_state, bench.state().reason) == (SyncState.FAILED, Reason.NODE_UNAVAILABLE)
    bench.after(400)
    assert bench.heard(Reconcile) == []
    bench.agent_is(ConnectionState.READY)
    bench.snapshot(container("cam", 700, 1024), NAV)
    assert bench.only(Reconcile).desired == Limits(cpu_limit=2500)


def test_an_agent_of_an_earlier_boot_is_told_of_the_later_one(bench: Bench) -> None:
    """It lost its state directory and its clock went back: what it says would be ignored for ever."""
    later = bench.boot_id
    bench.boot_id = 7

    bench.info()
    asked = bench.only(StatusRequest)
    assert (asked.node, asked.boot_id) == (NODE, later)
    bench.snapshot(container("cam"), seq=1)
    bench.agent_says(asked.id, container("cam"))
    bench.after(1)
    assert bench.only(StatusRequest) == asked, "until it answers as a later one"

    bench.boot_id = later + 1
    bench.agent_says(asked.id, container("cam"))
    bench.after(60)
    assert [question for question in bench.heard(StatusRequest) if question.id == asked.id] == []
    assert bench.validate("a-1", cpu=2100).allowed


def test_a_boot_that_no_agent_can_have_is_not_believed(bench: Bench) -> None:
    known = bench.boot_id
    bench.boot_id = 2**53
    bench.info()
    bench.snapshot(container("cam", 100, 1024), seq=1)

    bench.boot_id = known
    bench.snapshot(container("cam", 2100, 1024), container("nav", 3000, 2048))
    assert bench.state().actual == Limits(cpu_limit=2100, memory_limit=1024)
