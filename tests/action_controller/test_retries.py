"""What may pass by itself is tried again, a bounded number of times; silence is answered with a repeat."""

import pytest

from schemas.enums import ActionOutcome, DesiredOperation, Phase, Reason, TaskState, UpdateResult, Verdict
from schemas.limits import Limits
from schemas.message import Message
from schemas.node import UpdateRequest
from schemas.resources import ActualReport, DesiredRequest, Fence, ValidateRequest
from schemas.scaling import ScalingStatus
from tests.action_controller.bench import Bench


def test_a_retry_records_anew_with_the_next_attempt_and_updates_for_the_present_boot(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING)
    bench.not_updated()
    bench.judged(Verdict.RETRY, reason=Reason.RUNTIME_ERROR, message="crun: busy")
    status = bench.only(ScalingStatus)
    assert (status.phase, status.reason, status.message) == (Phase.CONFIRMING, Reason.RUNTIME_ERROR, "crun: busy")
    assert bench.said == [status]

    bench.after(4.75)
    assert bench.said == []
    bench.after(0.25)
    assert bench.phases() == [("a-1", "recording")]
    record = bench.only(DesiredRequest)
    assert (record.attempt, record.operation) == (2, DesiredOperation.RECORD)

    bench.recorded(boot_id=101)
    update = bench.only(UpdateRequest)
    assert (update.attempt, update.boot_id, update.generation) == (2, 101, 8)
    bench.updated(boot_id=101)
    assert bench.only(ActualReport).attempt == 2
    bench.judged(Verdict.SYNCHRONIZED)
    assert bench.only(ScalingStatus).outcome is ActionOutcome.COMPLETED


def test_it_retries_as_often_as_resource_manager_says(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING)
    for attempt in range(1, 4):
        bench.not_updated()
        assert bench.only(ActualReport).attempt == attempt
        bench.judged(Verdict.RETRY, reason=Reason.RUNTIME_ERROR)
        bench.after(5)
        bench.recorded()
    bench.not_updated()
    bench.judged(Verdict.FAILED, reason=Reason.RUNTIME_ERROR, message="4 times")

    status = bench.only(ScalingStatus)
    assert (status.outcome, status.message) == (ActionOutcome.FAILED, "4 times")


def test_how_far_apart_retries_are_is_configured() -> None:
    bench = Bench(retry_interval_s=0.5)
    bench.up_to(Phase.CONFIRMING)
    bench.judged(Verdict.RETRY, reason=Reason.RUNTIME_ERROR)
    bench.after(0.5)
    assert bench.only(DesiredRequest).attempt == 2


def test_an_agent_that_stays_silent_is_reported_as_unavailable(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING)
    update = bench.only(UpdateRequest)

    bench.after(10.75)
    assert bench.heard(ActualReport) == []
    assert set(map(repr, bench.heard(UpdateRequest))) == {repr(update)}, "repeated, with the same id"
    bench.after(0.25)
    report = bench.only(ActualReport)
    assert (report.result, report.reason, report.actual) == (UpdateResult.FAILED, Reason.NODE_UNAVAILABLE, None)
    assert (report.boot_id, report.seq) == (0, 0)
    assert "did not answer within 11 s" in report.message

    assert bench.updated() == [], "too late: it was reported"
    bench.after(30)
    assert bench.heard(UpdateRequest) == []


def test_a_fence_of_a_failed_update_travels_with_the_report(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING)
    bench.not_updated(reason=Reason.SUPERSEDED, fence=Fence(generation=99, attempt=1))

    report = bench.only(ActualReport)
    assert (report.reason, report.fence) == (Reason.SUPERSEDED, Fence(generation=99, attempt=1))


@pytest.mark.parametrize("phase", [Phase.VALIDATING, Phase.RECORDING, Phase.UPDATING, Phase.CONFIRMING])
def test_every_request_is_repeated_with_the_same_id_until_it_is_answered(bench: Bench, phase: Phase) -> None:
    bench.up_to(phase)
    request: Message = bench.said[-1]

    repeats = [message for message in bench.after(7.25) if not isinstance(message, ScalingStatus)]

    assert repeats == [request] * 3, "after 1, 3 and 7 s"


def test_on_a_new_connection_everything_unanswered_is_said_at_once(bench: Bench) -> None:
    bench.up_to(Phase.RECORDING, "a-1")
    bench.act("a-2", workload="nav")

    said = bench.controller.connected(bench.now)

    assert [type(message) for message in said] == [DesiredRequest, ValidateRequest]


@pytest.mark.parametrize("reason", [Reason.OVERLOADED, Reason.STORAGE_ERROR])
def test_what_resource_manager_cannot_say_now_is_asked_three_times_more(bench: Bench, reason: Reason) -> None:
    bench.act()
    attempts = [1]
    for _ in range(3):
        bench.refused(reason=reason)
        assert bench.said == []
        bench.after(4.75)
        assert bench.said == []
        bench.after(0.25)
        attempts.append(bench.only(ValidateRequest).attempt)
    bench.refused(reason=reason, message="still")

    status = bench.only(ScalingStatus)
    assert (status.outcome, status.reason, status.message) == (ActionOutcome.REJECTED, reason, "still")
    assert attempts == sorted(set(attempts)), "each a new one"


def test_it_goes_on_when_the_other_action_has_ended(bench: Bench) -> None:
    bench.act()
    bench.refused(reason=Reason.OVERLOADED)
    bench.after(5)
    asked = bench.only(ValidateRequest)
    bench.granted()
    assert bench.only(DesiredRequest).attempt == asked.attempt


def test_a_reservation_that_ended_is_asked_for_again_at_once(bench: Bench) -> None:
    bench.up_to(Phase.RECORDING)
    bench.not_recorded(reason=Reason.EXPIRED)

    asked = bench.only(ValidateRequest)
    assert asked.attempt == 2
    bench.granted()
    assert bench.only(DesiredRequest).attempt == 2


def disk_stays_full(bench: Bench, times: int) -> None:
    """Every RECORD is answered STORAGE_ERROR; a reservation that stands is granted again without a write."""
    for _ in range(times - 1):
        bench.not_recorded(reason=Reason.STORAGE_ERROR, message="disk full")
        assert bench.said == [], "not at once, which would be without end"
        bench.after(5)
        bench.granted()
    bench.not_recorded(reason=Reason.STORAGE_ERROR, message="disk full")


def test_a_record_that_could_not_be_written_is_tried_again_later(bench: Bench) -> None:
    bench.up_to(Phase.RECORDING)
    disk_stays_full(bench, 3)
    bench.after(5)
    bench.granted()
    bench.recorded()

    assert bench.phases() == [("a-1", "updating")]


def test_what_was_waited_for_before_a_record_does_not_count_after_it(bench: Bench) -> None:
    bench.act()
    for _ in range(3):
        bench.refused(reason=Reason.OVERLOADED)
        bench.after(5)
    bench.granted()
    bench.recorded()
    bench.not_updated()
    bench.judged(Verdict.RETRY, reason=Reason.RUNTIME_ERROR)
    bench.after(5)
    bench.not_recorded(reason=Reason.STORAGE_ERROR)

    bench.after(5)
    assert bench.only(ValidateRequest).action_id == "a-1", "it is tried again, not abandoned"


def test_one_that_is_never_written_is_refused_only_after_it_was_abandoned(bench: Bench) -> None:
    """A late copy of the RECORD could be carried out yet; a closed row prevents that."""
    bench.up_to(Phase.RECORDING)
    disk_stays_full(bench, 4)

    abandon = bench.only(DesiredRequest)
    assert abandon.operation is DesiredOperation.ABANDON
    assert not any(status.final for status in bench.heard(ScalingStatus))
    bench.after(1)
    assert bench.only(DesiredRequest) == abandon, "until it is answered"
    bench.recorded(generation=0, desired=None, verdict=Verdict.FAILED, reason=Reason.SUPERSEDED)
    status = bench.only(ScalingStatus)
    assert (status.state, status.outcome) == (TaskState.FAILED, ActionOutcome.REJECTED)
    assert (status.reason, status.message) == (Reason.STORAGE_ERROR, "disk full")


def test_a_question_that_cannot_be_answered_after_a_record_was_sent_is_abandoned_too(bench: Bench) -> None:
    bench.up_to(Phase.RECORDING)
    bench.not_recorded(reason=Reason.STORAGE_ERROR)
    for _ in range(3):
        bench.after(5)
        bench.refused(reason=Reason.STORAGE_ERROR, message="disk full")

    assert bench.only(DesiredRequest).operation is DesiredOperation.ABANDON


def test_an_abandoned_action_that_had_been_recorded_after_all_ends_with_its_verdict(bench: Bench) -> None:
    bench.up_to(Phase.RECORDING)
    disk_stays_full(bench, 4)
    bench.recorded(generation=9, desired=None, verdict=Verdict.FAILED, reason=Reason.SUPERSEDED, message="m")

    status = bench.only(ScalingStatus)
    assert (status.outcome, status.reason) == (ActionOutcome.FAILED, Reason.SUPERSEDED)


def test_a_refusal_by_resource_manager_after_a_record_was_sent_needs_no_abandoning(bench: Bench) -> None:
    """A refused validation leaves a closed row."""
    bench.up_to(Phase.RECORDING)
    bench.not_recorded(reason=Reason.EXPIRED)
    bench.refused(reason=Reason.INSUFFICIENT_CPU)

    assert bench.only(ScalingStatus).outcome is ActionOutcome.REJECTED


def test_after_a_restart_an_action_that_waited_is_asked_about_anew_and_not_answered_from_memory(
    kept: Bench,
) -> None:
    """ResourceManager answers an earlier attempt as it did then, or EXPIRED; only a later one is judged."""
    kept.waits(wait_s=3600)
    for _ in range(60):
        kept.after(5)
        kept.refused()
    used = kept.question(ValidateRequest).attempt
    assert used >= 60

    kept.restart()
    assert kept.question(ValidateRequest).attempt == 1, "it may have been recorded before the crash"
    kept.refused(reason=Reason.EXPIRED)
    assert kept.only(ValidateRequest).attempt >= used
    kept.refused(reason=Reason.EXPIRED)
    assert kept.only(ValidateRequest).attempt > used
    kept.refused()
    assert kept.phases() == [("a-1", "waiting")]


def test_freed_capacity_after_a_restart_is_taken_at_once(kept: Bench) -> None:
    kept.waits()
    kept.after(5)
    kept.refused()
    kept.restart()
    kept.refused()  # the answer of then, to attempt 1
    kept.capacity(4000)

    assert kept.only(ValidateRequest).attempt > 2


def test_attempts_stay_what_a_message_can_carry_however_long_it_takes(bench: Bench) -> None:
    bench.act()
    bench.seconds += 10 * 365 * 24 * 3600.0
    bench.refused(reason=Reason.EXPIRED)
    bench.refused(reason=Reason.EXPIRED)

    assert bench.only(ValidateRequest).attempt == 500_001


def test_an_action_that_was_here_before_a_crash_goes_on_from_the_agents_fence(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING)
    bench.not_updated(reason=Reason.SUPERSEDED, fence=Fence(generation=8, attempt=3))

    update = bench.only(UpdateRequest)
    assert (update.attempt, update.generation) == (3, 8)
    assert bench.heard(ActualReport) == []
    bench.updated()
    report = bench.only(ActualReport)
    assert (report.attempt, report.result) == (3, UpdateResult.SUCCESS)


@pytest.mark.parametrize("fence", [Fence(generation=8, attempt=1), Fence(generation=9, attempt=5), None])
def test_a_command_that_was_overtaken_by_another_is_reported(bench: Bench, fence: Fence | None) -> None:
    bench.up_to(Phase.UPDATING)
    bench.not_updated(reason=Reason.SUPERSEDED, fence=fence)

    report = bench.only(ActualReport)
    assert (report.result, report.reason) == (UpdateResult.FAILED, Reason.SUPERSEDED)


def test_the_target_of_a_retry_is_the_actions_own(bench: Bench) -> None:
    bench.up_to(Phase.CONFIRMING)
    bench.judged(Verdict.RETRY, reason=Reason.VERIFY_FAILED, desired=Limits(cpu_limit=4000, memory_limit=1))
    bench.after(5)

    assert bench.only(DesiredRequest).target == Limits(cpu_limit=4000)
