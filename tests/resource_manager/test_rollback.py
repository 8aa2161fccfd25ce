"""A failed action never leaves its target in force: its rollback is always sent, and confirmed."""

import pytest

from schemas.enums import (
    ConnectionState,
    Reason,
    ReconcileCause,
    SnapshotTrigger,
    SyncState,
    UpdateResult,
    Verdict,
)
from schemas.limits import Amount, Limits
from schemas.resources import ActualReply, Fence, Reconcile
from tests.resource_manager.bench import Bench, container


def fail(bench: Bench, action_id: str = "a-1", reason: Reason = Reason.PARENT_LIMIT, **target: int) -> ActualReply:
    """An action that is recorded and then refused by the agent."""
    recorded = bench.recorded(action_id, "cam", **target)
    return bench.fails(action_id, generation=recorded.generation, reason=reason, message="the pod allows less")


def rollback_sent(bench: Bench) -> Reconcile:
    bench.after()
    return bench.only(Reconcile)


def test_the_workload_is_failed_with_the_reason_until_the_rollback_is_confirmed(bench: Bench) -> None:
    reply = fail(bench, cpu_limit=4000)

    state = bench.state()
    assert reply.verdict is Verdict.FAILED
    assert (state.sync_state, state.reason, state.message) == (
        SyncState.FAILED,
        Reason.PARENT_LIMIT,
        "the pod allows less",
    )
    assert state.last_failure is not None
    assert (state.last_failure.reason, state.last_failure.action_id) == (Reason.PARENT_LIMIT, "a-1")
    assert state.last_failure.ts == bench.now.epoch_ms

    bench.reconciled(rollback_sent(bench))
    state = bench.state()
    assert (state.sync_state, state.reason, state.message) == (SyncState.SYNCHRONIZED, None, None)
    assert state.last_failure is not None
    assert state.last_failure.action_id == "a-1"


def test_the_rollback_is_a_new_generation_and_is_sent_though_the_kernel_shows_it_already(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    reply = bench.fails(
        generation=recorded.generation,
        reason=Reason.PARENT_LIMIT,
        actual=Limits(cpu_limit=2000, memory_limit=1024),
    )
    assert reply.generation == recorded.generation + 1
    assert reply.desired == Limits(cpu_limit=2000)

    sent = rollback_sent(bench)
    assert sent.generation == recorded.generation + 1
    assert sent.cause is ReconcileCause.ROLLBACK
    assert sent.desired == Limits(cpu_limit=2000)
    assert (sent.attempt, sent.boot_id, sent.runtime_id) == (1, 100, "cam-id-1")


def test_a_snapshot_that_shows_the_rollback_does_not_confirm_it(bench: Bench) -> None:
    fail(bench, cpu_limit=4000)
    bench.snapshot(container("cam"), container("nav", 3000, 2048))

    assert bench.state().sync_state is SyncState.FAILED
    assert bench.capacity().allocated.cpu == 7000
    assert bench.only(Reconcile).cause is ReconcileCause.ROLLBACK


def test_target_and_rollback_stay_allocated_until_the_rollback_is_confirmed(bench: Bench) -> None:
    bench.snapshot(container("cam", 2000, 2048), container("nav", 3000, 2048))
    fail(bench, cpu_limit=4000, memory_limit=1024)
    assert bench.capacity().allocated == Amount(cpu=7000, memory=4096)
    assert bench.validate("a-2", "nav", cpu=3001).reason is Reason.INSUFFICIENT_CPU

    bench.reconciled(rollback_sent(bench))

    assert bench.capacity().allocated == Amount(cpu=5000, memory=4096)
    assert bench.validate("a-3", "nav", cpu=5000).allowed


def test_a_rollback_that_fails_is_sent_again_and_all_stays_allocated(bench: Bench) -> None:
    fail(bench, cpu_limit=4000)
    sent = rollback_sent(bench)
    for attempt in range(1, 5):
        reply = bench.reconciled(
            sent, result=UpdateResult.FAILED, reason=Reason.RUNTIME_ERROR, attempt=attempt, actual=None
        )
    assert reply.verdict is Verdict.FAILED
    assert bench.capacity().allocated.cpu == 7000

    said = bench.after(11)
    (again,) = {message.id: message for message in said if isinstance(message, Reconcile)}.values()
    assert again.action_id != sent.action_id
    assert (again.generation, again.cause) == (sent.generation, ReconcileCause.ROLLBACK)
    assert again.attempt == 5
    bench.reconciled(again)
    assert bench.capacity().allocated.cpu == 5000
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_each_limit_goes_back_to_what_was_last_synchronized(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)

    fail(bench, "a-2", cpu_limit=3000, memory_limit=2048)

    assert bench.state().desired == Limits(cpu_limit=2500, memory_limit=1024)
    assert rollback_sent(bench).desired == Limits(cpu_limit=2500, memory_limit=1024)


def test_a_drifted_limit_goes_back_to_what_was_synchronized_not_to_the_drift(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    bench.snapshot(container("cam", 700, 1024), container("nav", 3000, 2048))

    fail(bench, "a-2", cpu_limit=3000)

    assert bench.state().desired == Limits(cpu_limit=2500)


def test_limits_that_nobody_scaled_stay_out_of_the_desired_state(bench: Bench) -> None:
    fail(bench, cpu_limit=4000)

    assert bench.state().desired == Limits(cpu_limit=2000)


def test_unlimited_is_written_as_the_nodes_total_and_counts_by_use(bench: Bench) -> None:
    bench.snapshot(container("cam", None, None, usage=(700, 300)), container("nav", 3000, 2048))
    fail(bench, cpu_limit=4000, memory_limit=1024)
    assert bench.state().desired == Limits(cpu_limit=8000, memory_limit=16_384)
    assert bench.capacity().allocated == Amount(cpu=7000, memory=3072)

    bench.reconciled(rollback_sent(bench))

    assert bench.state().actual == Limits(cpu_limit=8000, memory_limit=16_384)
    assert bench.capacity().allocated == Amount(cpu=3700, memory=2348)
    assert bench.capacity().unlimited == ("cam",)


def test_after_a_rollback_to_unlimited_an_action_counts_by_its_target_again(bench: Bench) -> None:
    bench.snapshot(container("cam", None, 1024, usage=(700, 300)), container("nav", 3000, 2048))
    fail(bench, "a-1", cpu_limit=4000)
    bench.reconciled(rollback_sent(bench))

    bench.recorded("a-2", cpu_limit=3500)
    assert bench.capacity().allocated.cpu == 6500, "the node's total in force still counts by use"
    bench.report("a-2", generation=bench.state().generation, actual=Limits(cpu_limit=3500, memory_limit=1024))
    assert bench.capacity().allocated.cpu == 6500
    fail(bench, "a-3", cpu_limit=3600)
    assert bench.state().desired == Limits(cpu_limit=3500)
    assert bench.capacity().allocated.cpu == 6600


def test_the_nodes_total_that_stands_for_unlimited_is_never_gone_back_to_as_a_limit(bench: Bench) -> None:
    """Simulation, seed 202146: an action came after the total was in force, and before that was reported."""
    nav = container("nav", 3000, 2048)
    bench.snapshot(container("cam", None, 1024, usage=(700, 300)), nav)
    fail(bench, "a-1", cpu_limit=4000)
    bench.snapshot(nav, trigger=SnapshotTrigger.CONTAINER)
    bench.after(bench.rules.resource_manager.absent_hold_s + 1)  # what failed is no longer held
    bench.snapshot(container("cam", None, 1024, usage=(700, 300), runtime_id="cam-id-2"), nav)
    bench.snapshot(container("cam", 8000, 1024, usage=(700, 300), runtime_id="cam-id-2"), nav)
    assert bench.capacity().allocated.cpu == 3700

    bench.recorded("a-2", cpu_limit=1000)

    assert bench.capacity().allocated.cpu == 4000


def test_a_second_failure_on_an_unlimited_container_goes_back_to_unlimited_too(bench: Bench) -> None:
    bench.snapshot(container("cam", None, 1024, usage=(700, 300)), container("nav", 3000, 2048))
    fail(bench, "a-1", cpu_limit=4000)
    bench.snapshot(container("cam", 4000, 1024, usage=(700, 300)), container("nav", 3000, 2048))

    fail(bench, "a-2", cpu_limit=3000)  # before the first one's rollback was confirmed

    assert bench.state().desired == Limits(cpu_limit=8000)
    bench.reconciled(rollback_sent(bench))
    assert bench.capacity().allocated.cpu == 3700


def test_a_failed_target_in_force_is_not_what_the_next_failure_goes_back_to(bench: Bench) -> None:
    recorded = bench.recorded("a-1", cpu_limit=4000)
    bench.report(
        "a-1",
        generation=recorded.generation,
        result=UpdateResult.FAILED,
        reason=Reason.PARENT_LIMIT,
        actual=Limits(cpu_limit=4000, memory_limit=1024),
    )
    fail(bench, "a-2", cpu_limit=2200)

    assert bench.state().desired == Limits(cpu_limit=2000)
    bench.reconciled(rollback_sent(bench))
    assert bench.capacity().allocated.cpu == 5000


def test_weights_and_cpu_lists_nobody_set_go_back_to_the_kernels_own(bench: Bench) -> None:
    bench.validate()
    recorded = bench.record(cpu_shares=512, cpuset_cpus="0-1")
    bench.fails(generation=recorded.generation, reason=Reason.UNSUPPORTED)

    assert bench.state().desired == Limits(cpu_shares=1024, cpuset_cpus="0-7")


def test_a_newer_action_takes_the_place_of_the_rollback_and_frees_both_when_confirmed(bench: Bench) -> None:
    fail(bench, "a-1", cpu_limit=4000)
    sent = rollback_sent(bench)

    bench.scaled("a-2", cpu_limit=2200)

    assert bench.capacity().allocated.cpu == 5200
    assert bench.state().desired == Limits(cpu_limit=2200)
    late = bench.reconciled(sent)
    assert late.verdict is Verdict.FAILED
    assert bench.state().desired == Limits(cpu_limit=2200)


def test_the_room_of_a_failed_action_is_free_when_its_container_is_gone(bench: Bench) -> None:
    fail(bench, cpu_limit=4000)
    bench.snapshot(container("nav", 3000, 2048))
    bench.snapshot(container("nav", 3000, 2048))

    bench.after(300.25)

    assert bench.capacity().allocated.cpu == 3000


def test_a_rollback_waits_for_its_node_and_is_sent_when_it_returns(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    recorded = bench.recorded(cpu_limit=4000)
    for attempt in range(1, 5):
        bench.fails(generation=recorded.generation, attempt=attempt, reason=Reason.NODE_UNAVAILABLE)
    bench.agent_is(ConnectionState.LOST)
    bench.after(1)
    assert bench.heard(Reconcile) == []

    bench.agent_is(ConnectionState.READY)
    bench.after()
    assert bench.only(Reconcile).cause is ReconcileCause.ROLLBACK


def test_a_rollback_waits_while_its_container_is_busy(bench: Bench) -> None:
    fail(bench, cpu_limit=4000)
    bench.snapshot(container("cam", 4000, 1024, busy=True), container("nav", 3000, 2048))
    bench.after(5)
    assert bench.heard(Reconcile) == []

    bench.snapshot(container("cam", 4000, 1024), container("nav", 3000, 2048))
    assert bench.only(Reconcile).cause is ReconcileCause.ROLLBACK


@pytest.mark.parametrize("seen_by", ["report", "snapshot"])
def test_a_rollback_starts_above_the_attempts_its_generation_had(bench: Bench, seen_by: str) -> None:
    fail(bench, cpu_limit=4000)
    sent = rollback_sent(bench)
    fence = Fence(generation=sent.generation, attempt=7)
    if seen_by == "report":
        bench.reconciled(sent, result=UpdateResult.FAILED, reason=Reason.SUPERSEDED, actual=None, fence=fence)
    else:
        bench.reconciled(sent, result=UpdateResult.FAILED, reason=Reason.EXPIRED, actual=None)
        bench.snapshot(container("cam", fence=(sent.generation, 7)), container("nav", 3000, 2048))

    bench.after(1)
    again = bench.heard(Reconcile)[0]
    assert again.generation == sent.generation
    assert again.attempt == 8


def test_a_failure_tells_where_the_state_goes(bench: Bench) -> None:
    reply = fail(bench, cpu_limit=4000)

    assert reply.sync_state is SyncState.FAILED
    assert reply.desired == Limits(cpu_limit=2000)
    assert reply.generation == bench.state().generation
