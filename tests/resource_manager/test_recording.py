"""Recording a granted target as desired, and abandoning an action."""

import pytest

from components.resource_manager.records import Stage
from schemas.enums import Reason, ReconcileCause, SyncState, UpdateResult, Verdict
from schemas.limits import Limits
from schemas.resources import DesiredReply, Reconcile, ResourceState
from tests.resource_manager.bench import EPOCH_S, Bench, container


def test_the_answer_is_the_whole_desired_state_and_who_it_is_meant_for(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    first = bench.state().generation

    reply = bench.recorded("a-2", memory_limit=2048)

    assert reply.desired == Limits(cpu_limit=2500, memory_limit=2048)
    assert reply.generation == first + 1
    assert reply.runtime_id == "cam-id-1"
    assert reply.boot_id == 100
    assert reply.verdict is None


def test_generations_of_a_new_ledger_begin_at_its_creation(bench: Bench) -> None:
    assert bench.recorded(cpu_limit=2500).generation == EPOCH_S + 1


def test_people_see_pending_then_applying_then_synchronized(bench: Bench) -> None:
    bench.validate(cpu=2500)
    assert bench.state().sync_state is SyncState.UNKNOWN

    recorded = bench.record(cpu_limit=2500)
    states = bench.heard(ResourceState)
    assert [state.sync_state for state in states] == [SyncState.PENDING, SyncState.APPLYING]
    assert {state.generation for state in states} == {recorded.generation}
    assert {state.desired for state in states} == {Limits(cpu_limit=2500)}
    assert states[0].revision < states[1].revision

    bench.report(generation=recorded.generation, actual=Limits(cpu_limit=2500, memory_limit=1024))
    state = bench.only(ResourceState)
    assert state.sync_state is SyncState.SYNCHRONIZED
    assert state.actual == Limits(cpu_limit=2500, memory_limit=1024)
    assert (state.reason, state.message, state.last_failure) == (None, None, None)
    assert state.revision > states[1].revision


def test_since_says_when_the_state_was_entered(bench: Bench) -> None:
    bench.after(10)
    recorded = bench.recorded(cpu_limit=2500)
    assert bench.state().since == EPOCH_S * 1000 + 10_000
    bench.after(5)
    bench.report(generation=recorded.generation, actual=Limits(cpu_limit=2500))
    assert bench.state().since == EPOCH_S * 1000 + 15_000


def test_the_same_record_gets_the_same_answer_and_no_new_generation(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=2500)

    assert bench.record(cpu_limit=2500) == recorded
    assert bench.said == [recorded]
    retried = bench.record(cpu_limit=2500, attempt=2)
    assert (retried.generation, retried.desired) == (recorded.generation, recorded.desired)


def test_a_retry_is_told_the_agents_present_boot(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=2500)
    bench.agent_restarts(container("cam"), container("nav", 3000, 2048))

    retried = bench.record(cpu_limit=2500, attempt=2)

    assert (retried.generation, retried.boot_id) == (recorded.generation, 101)


def test_what_was_never_reserved_cannot_be_recorded(bench: Bench) -> None:
    reply = bench.record("nobody", cpu_limit=2500)

    assert not reply.success
    assert reply.reason is Reason.EXPIRED
    assert reply.verdict is None
    assert bench.said == [reply]
    assert bench.state().desired is None


def test_what_was_refused_cannot_be_recorded(bench: Bench) -> None:
    bench.validate(cpu=5000)

    assert bench.record(cpu_limit=5000).reason is Reason.EXPIRED
    assert bench.state().desired is None


def test_a_target_that_was_not_reserved_cannot_be_recorded(bench: Bench) -> None:
    bench.validate(cpu=2500)

    reply = bench.record(cpu_limit=6000)

    assert (reply.success, reply.reason, reply.verdict) == (False, Reason.INVALID_TARGET, Verdict.FAILED)
    assert bench.state().desired is None
    assert bench.capacity().allocated.cpu == 5000


def test_a_container_that_stopped_since_the_grant_is_not_scaled(bench: Bench) -> None:
    bench.validate(cpu=2500)
    bench.snapshot(container("cam", running=False), container("nav", 3000, 2048))

    reply = bench.record(cpu_limit=2500)

    assert (reply.success, reply.reason, reply.verdict) == (False, Reason.NOT_RUNNING, Verdict.FAILED)
    assert bench.state().desired is None


def test_one_that_was_refused_at_first_and_recorded_later_may_begin_again(bench: Bench) -> None:
    """Its ActionController crashed; it begins at attempt 1 and must come to where it was."""
    bench.validate(cpu=5000)
    bench.snapshot(container("cam"), container("nav", 1000, 1024))
    bench.validate(cpu=5000, attempt=2)
    recorded = bench.record(cpu_limit=5000, attempt=2)

    assert bench.validate(cpu=5000).allowed
    assert bench.record(cpu_limit=5000).generation == recorded.generation


def test_a_later_decision_never_sees_the_action_that_ended_as_open(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)

    assert bench.validate("a-2", cpu=2600).allowed


def test_abandoning_before_record_frees_the_room_for_others(bench: Bench) -> None:
    bench.validate(cpu=4000)

    reply = bench.abandon()

    assert reply.success
    assert reply.verdict is Verdict.FAILED
    assert bench.capacity().available.cpu == 2000
    assert bench.state().desired is None
    assert not bench.record(cpu_limit=4000).success
    assert bench.validate(cpu=4000, attempt=2).verdict is Verdict.FAILED


def test_abandoning_after_record_rolls_back(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)

    reply = bench.abandon()
    assert reply.success
    assert reply.verdict is Verdict.FAILED
    assert bench.state().desired == Limits(cpu_limit=2000)
    assert bench.state().generation == recorded.generation + 1
    assert bench.state().sync_state is SyncState.FAILED

    bench.after()
    sent = bench.only(Reconcile)
    assert (sent.desired, sent.cause) == (Limits(cpu_limit=2000), ReconcileCause.ROLLBACK)


def test_abandoning_what_is_not_known_leaves_a_closed_row_that_a_late_copy_cannot_open(bench: Bench) -> None:
    assert bench.abandon("late").success
    row = bench.manager.ledger.row("late")
    assert row is not None
    assert row.stage is Stage.CLOSED

    assert bench.validate("late", cpu=2500).verdict is Verdict.FAILED
    assert bench.record("late", cpu_limit=2500).verdict is Verdict.FAILED
    assert bench.report("late", generation=1, result=UpdateResult.FAILED).verdict is Verdict.FAILED
    assert bench.capacity().allocated.cpu == 5000


def test_abandoning_what_has_ended_tells_how_it_ended(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)

    assert bench.abandon("a-1").verdict is Verdict.SYNCHRONIZED
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_abandoning_twice_rolls_back_once(bench: Bench) -> None:
    bench.recorded(cpu_limit=4000)
    bench.abandon()
    generation = bench.state().generation

    again = bench.abandon()

    assert again.verdict is Verdict.FAILED
    assert bench.state().generation == generation
    assert bench.heard(DesiredReply) == bench.said


@pytest.mark.parametrize("seconds", [60.25, 600.0])
def test_a_reservation_that_ended_cannot_be_recorded_but_the_next_attempt_is_granted(
    bench: Bench, seconds: float
) -> None:
    bench.validate(cpu=4000)
    bench.after(seconds)

    reply = bench.record(cpu_limit=4000)
    assert (reply.success, reply.reason, reply.verdict) == (False, Reason.EXPIRED, None)

    assert bench.validate(cpu=4000, attempt=2).allowed
    assert bench.record(cpu_limit=4000, attempt=2).success


def test_a_record_in_the_very_moment_the_lease_ends_lets_the_next_attempt_in(bench: Bench) -> None:
    bench.validate(cpu=4000)
    bench.seconds += 60.0  # no housekeeping in between

    assert bench.record(cpu_limit=4000).reason is Reason.EXPIRED
    assert bench.validate(cpu=4000, attempt=2).allowed
    assert bench.record(cpu_limit=4000, attempt=2).success
