"""The kernel is kept at the desired state; drift is judged only where nobody of ours can be the cause."""

from typing import Any

import pytest

from schemas.enums import (
    Reason,
    ReconcileCause,
    SnapshotTrigger,
    SyncState,
    UpdateResult,
    Verdict,
)
from schemas.limits import Limits
from schemas.resources import Fence, Reconcile, ResourceState
from tests.resource_manager.bench import NODE, Bench, container, settings

NAV = container("nav", 3000, 2048)


@pytest.fixture
def scaled(bench: Bench) -> Bench:
    """One action has been carried out: cam is synchronized at 2500m."""
    bench.scaled("a-1", cpu_limit=2500)
    return bench


def drifting(mode: str) -> Bench:
    """As `scaled`, with another treatment of drift."""
    bench = Bench(rules=settings(drift=mode))
    bench.info()
    bench.snapshot(container("cam"), NAV)
    bench.scaled("a-1", cpu_limit=2500)
    return bench


def test_a_difference_is_drift_and_is_sent_back(scaled: Bench) -> None:
    generation = scaled.state().generation
    scaled.snapshot(container("cam", 700, 1024), NAV)

    state = scaled.only(ResourceState)
    assert state.sync_state is SyncState.DRIFT_DETECTED
    assert state.message == "cpu_limit 2500 desired, 700 in force"
    sent = scaled.only(Reconcile)
    assert (sent.node, sent.workload_id, sent.desired) == (NODE, "cam", Limits(cpu_limit=2500))
    assert (sent.generation, sent.boot_id, sent.runtime_id) == (generation, 100, "cam-id-1")
    assert sent.attempt == 2
    assert sent.cause is ReconcileCause.PERIODIC


def test_a_reconcile_that_worked_ends_synchronized_in_the_same_generation(scaled: Bench) -> None:
    before = scaled.state()
    scaled.snapshot(container("cam", 700, 1024), NAV)

    reply = scaled.reconciled(scaled.only(Reconcile))

    assert reply.verdict is Verdict.SYNCHRONIZED
    assert scaled.state().sync_state is SyncState.SYNCHRONIZED
    assert scaled.state().generation == before.generation
    assert scaled.state().message is None


@pytest.mark.parametrize(
    ("case", "seen"),
    [
        ("within the kernel's rounding", container("cam", 2490, 1024)),
        ("in a limit nobody asked for", container("cam", 2500, 512)),
        ("of a busy container", container("cam", 700, 1024, busy=True)),
    ],
)
def test_no_drift_is_seen(scaled: Bench, case: str, seen: Any) -> None:
    scaled.snapshot(seen, NAV)

    assert scaled.heard(Reconcile) == [], case
    assert scaled.state().sync_state is SyncState.SYNCHRONIZED


def test_no_drift_is_seen_in_what_is_older_than_the_confirmation(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=2500)
    bench.report(generation=recorded.generation, actual=Limits(cpu_limit=2500), seq=40)

    bench.snapshot(container("cam", 2000, 1024), NAV, seq=39)
    bench.snapshot(container("cam", 2000, 1024), NAV, seq=40)

    assert bench.heard(Reconcile) == []
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_no_drift_is_seen_while_an_action_is_under_way(scaled: Bench) -> None:
    scaled.validate("a-2", cpu=2600)
    scaled.snapshot(container("cam", 700, 1024), NAV)
    assert scaled.heard(Reconcile) == []
    assert scaled.state().sync_state is SyncState.SYNCHRONIZED

    scaled.record("a-2", cpu_limit=2600)
    scaled.snapshot(container("cam", 700, 1024), NAV)
    assert scaled.heard(Reconcile) == []
    assert scaled.state().sync_state is SyncState.APPLYING


def test_unmanaged_containers_never_drift(bench: Bench) -> None:
    bench.snapshot(container("cam", 100, 100), NAV)
    assert bench.heard(Reconcile) == []
    assert bench.state().sync_state is SyncState.UNKNOWN
    assert (bench.state().generation, bench.state().desired) == (0, None)


def test_only_one_reconcile_is_out_at_a_time(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    scaled.snapshot(container("cam", 600, 1024), NAV)

    assert scaled.heard(Reconcile) == []


def test_a_reconcile_is_repeated_until_it_is_reported(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)

    scaled.after(7.25)
    assert scaled.heard(Reconcile) == [sent, sent, sent]
    scaled.reconciled(sent)
    scaled.after(60)
    assert scaled.heard(Reconcile) == []


def test_a_failed_reconcile_is_tried_three_times_more_by_its_controller(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)

    verdicts = [
        scaled.reconciled(
            sent, attempt=sent.attempt + k, result=UpdateResult.FAILED, reason=Reason.RUNTIME_ERROR, actual=None
        ).verdict
        for k in range(4)
    ]

    assert verdicts == [Verdict.RETRY, Verdict.RETRY, Verdict.RETRY, Verdict.FAILED]
    assert (scaled.state().sync_state, scaled.state().reason) == (SyncState.FAILED, Reason.RUNTIME_ERROR)
    assert scaled.validate("a-2", cpu=2600).allowed


def test_a_late_copy_of_a_reconciles_report_is_answered_and_counts_once(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)
    failed: dict[str, Any] = {"result": UpdateResult.FAILED, "reason": Reason.RUNTIME_ERROR, "actual": None}

    for _ in range(6):
        assert scaled.reconciled(sent, **failed).verdict is Verdict.RETRY
    assert scaled.reconciled(sent, attempt=sent.attempt + 1).verdict is Verdict.SYNCHRONIZED
    assert scaled.reconciled(sent, **failed).verdict is Verdict.SYNCHRONIZED


def test_the_next_attempt_is_sent_again_should_the_controller_lose_it(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)
    scaled.reconciled(sent, result=UpdateResult.FAILED, reason=Reason.RUNTIME_ERROR, actual=None)

    scaled.after(19)
    assert scaled.heard(Reconcile) == []
    scaled.after(1.25)
    again = scaled.only(Reconcile)
    assert (again.action_id, again.attempt) == (sent.action_id, sent.attempt + 1)


def test_a_failed_workload_is_tried_further_and_further_apart_until_it_heals(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    waits = []
    for _ in range(3):
        sent = scaled.heard(Reconcile)[-1]
        for k in range(4):
            scaled.reconciled(
                sent,
                attempt=sent.attempt + k,
                result=UpdateResult.FAILED,
                reason=Reason.RUNTIME_ERROR,
                actual=None,
            )
        began = scaled.seconds
        while not scaled.heard(Reconcile):
            scaled.snapshot(container("cam", 700, 1024), NAV)
            if not scaled.heard(Reconcile):
                scaled.after(0.25)
        waits.append(scaled.seconds - began)
    assert waits == [10.0, 20.0, 40.0]
    assert scaled.state().sync_state is SyncState.FAILED

    scaled.reconciled(scaled.only(Reconcile))
    assert scaled.state().sync_state is SyncState.SYNCHRONIZED


def test_an_expired_reconcile_ends_and_is_sent_again_for_the_present_boot(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)
    scaled.reconciled(sent, result=UpdateResult.FAILED, reason=Reason.EXPIRED, actual=None)
    assert scaled.state().sync_state is SyncState.DRIFT_DETECTED

    scaled.after(1)
    again = scaled.heard(Reconcile)[0]
    assert again.action_id != sent.action_id
    assert again.attempt == sent.attempt + 1
    assert again.generation == sent.generation


@pytest.mark.parametrize("reason", [Reason.EXPIRED, Reason.SUPERSEDED, Reason.UNKNOWN_WORKLOAD])
def test_reconciles_that_come_out_of_step_each_time_follow_further_and_further_apart(
    scaled: Bench, reason: Reason
) -> None:
    """Else a node with a second master, or a clock gone wrong, is sent one each second for ever."""
    scaled.snapshot(container("cam", 700, 1024), NAV)
    for wait in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0):
        scaled.reconciled(scaled.only(Reconcile), result=UpdateResult.FAILED, reason=reason, actual=None)
        scaled.seconds += wait - 0.5
        scaled.after()
        scaled.snapshot(container("cam", 700, 1024), NAV)
        assert scaled.heard(Reconcile) == [], f"not before {wait} s"
        scaled.after()

    scaled.reconciled(scaled.only(Reconcile))
    scaled.snapshot(container("cam", 700, 1024), NAV)
    scaled.reconciled(scaled.only(Reconcile), result=UpdateResult.FAILED, reason=reason, actual=None)
    scaled.after(1)
    assert scaled.heard(Reconcile), "after one that succeeded the next is soon tried again"


def test_an_agents_restart_ends_the_reconcile_and_judges_anew(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)

    scaled.agent_restarts(container("cam", 700, 1024), NAV)

    again = scaled.only(Reconcile)
    assert again.action_id != sent.action_id
    assert (again.boot_id, again.cause) == (101, ReconcileCause.AGENT_START)
    late = scaled.reconciled(sent, result=UpdateResult.FAILED, reason=Reason.EXPIRED, actual=None)
    assert late.verdict is Verdict.FAILED
    scaled.reconciled(again)
    assert scaled.state().sync_state is SyncState.SYNCHRONIZED


def test_an_agents_restart_without_a_difference_sends_nothing(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)

    scaled.agent_restarts(container("cam", 2500, 1024), NAV)

    assert scaled.heard(Reconcile) == []
    assert scaled.state().sync_state is SyncState.SYNCHRONIZED


def test_drift_that_went_away_by_itself_heals_when_it_is_seen(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    scaled.reconciled(scaled.only(Reconcile), result=UpdateResult.FAILED, reason=Reason.EXPIRED, actual=None)
    assert scaled.state().sync_state is SyncState.DRIFT_DETECTED

    scaled.snapshot(container("cam", 2500, 1024), NAV)
    assert scaled.state().sync_state is SyncState.SYNCHRONIZED
    assert scaled.state().message is None
    scaled.after(5)
    assert scaled.heard(Reconcile) == []


def test_an_action_that_arrives_ends_the_reconcile(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)

    recorded = scaled.recorded("a-2", cpu_limit=2600)
    assert scaled.reconciled(sent).verdict is Verdict.FAILED
    assert scaled.state().sync_state is SyncState.APPLYING
    scaled.after(30)
    assert scaled.heard(Reconcile) == []
    scaled.report("a-2", generation=recorded.generation, actual=Limits(cpu_limit=2600))
    assert scaled.state().sync_state is SyncState.SYNCHRONIZED


def test_a_refused_action_does_not_end_the_reconcile(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)

    assert not scaled.validate("a-2", cpu=6900).allowed

    assert scaled.reconciled(sent).verdict is Verdict.SYNCHRONIZED


def test_a_reconcile_attempts_above_the_fence_of_the_agent(scaled: Bench) -> None:
    generation = scaled.state().generation
    scaled.snapshot(container("cam", 700, 1024, fence=(generation, 9)), NAV)

    assert scaled.only(Reconcile).attempt == 10


def test_a_fence_of_an_earlier_generation_does_not_raise_the_attempt(scaled: Bench) -> None:
    generation = scaled.state().generation
    scaled.snapshot(container("cam", 700, 1024, fence=(generation - 1, 9)), NAV)

    assert scaled.only(Reconcile).attempt == 2


def test_an_agent_that_was_sent_a_generation_above_ours_is_sent_a_newer_one(scaled: Bench) -> None:
    """Else it would refuse every reconcile as SUPERSEDED for ever: the ledger is an old copy."""
    ahead = scaled.state().generation + 40
    scaled.snapshot(container("cam", 700, 1024, fence=(ahead, 1)), NAV)

    sent = scaled.only(Reconcile)
    assert sent.generation == ahead + 1
    assert scaled.state().generation == ahead + 1
    scaled.reconciled(sent)
    assert scaled.state().sync_state is SyncState.SYNCHRONIZED


@pytest.mark.parametrize(
    ("trigger", "cause"),
    [
        (SnapshotTrigger.PERIODIC, ReconcileCause.PERIODIC),
        (SnapshotTrigger.UPDATE, ReconcileCause.UPDATE),
        (SnapshotTrigger.CONTAINER, ReconcileCause.CONTAINER_START),
        (SnapshotTrigger.START, ReconcileCause.AGENT_START),
    ],
)
def test_a_reconcile_tells_what_made_it_necessary(
    scaled: Bench, trigger: SnapshotTrigger, cause: ReconcileCause
) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV, trigger=trigger)

    assert scaled.only(Reconcile).cause is cause


def test_a_lower_attempt_than_the_one_under_way_counts_nothing(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)
    fence = Fence(generation=sent.generation, attempt=sent.attempt)

    reply = scaled.reconciled(
        sent, attempt=1, result=UpdateResult.FAILED, reason=Reason.RUNTIME_ERROR, actual=None, fence=fence
    )

    assert reply.verdict is Verdict.RETRY
    assert scaled.reconciled(sent).verdict is Verdict.SYNCHRONIZED


def test_a_report_of_a_reconcile_for_an_older_state_ends_it(scaled: Bench) -> None:
    scaled.snapshot(container("cam", 700, 1024), NAV)
    sent = scaled.only(Reconcile)

    reply = scaled.reconciled(sent, generation=sent.generation - 1)

    assert (reply.verdict, reply.reason) == (Verdict.FAILED, Reason.SUPERSEDED)
