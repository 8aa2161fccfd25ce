"""After a target was recorded, the outcome of an action is ResourceManager's verdict."""

import pytest

from components.resource_manager.records import Stage
from schemas.enums import Reason, SyncState, UpdateResult, Verdict
from schemas.limits import Limits
from schemas.resources import ActualReply, Fence, Reconcile
from tests.resource_manager.bench import Bench, container, settings

RETRYABLE = [
    Reason.RUNTIME_ERROR,
    Reason.RUNTIME_TIMEOUT,
    Reason.VERIFY_FAILED,
    Reason.PARTIAL,
    Reason.NODE_UNAVAILABLE,
    Reason.QUERY_FAILED,
    Reason.STORAGE_ERROR,
    Reason.OVERLOADED,
    Reason.EXPIRED,
]
FINAL = [
    Reason.BELOW_USAGE,
    Reason.PARENT_LIMIT,
    Reason.UNSUPPORTED,
    Reason.INVALID_TARGET,
    Reason.UNKNOWN_WORKLOAD,
    Reason.NOT_RUNNING,
    Reason.SUPERSEDED,
]


def test_the_kernel_showing_what_is_desired_is_success(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000, memory_limit=2048)

    reply = bench.report(generation=recorded.generation, actual=Limits(cpu_limit=4000, memory_limit=2048))

    assert reply.verdict is Verdict.SYNCHRONIZED
    assert reply.sync_state is SyncState.SYNCHRONIZED
    assert (reply.generation, reply.desired) == (recorded.generation, recorded.desired)
    row = bench.manager.ledger.row("a-1")
    assert row is not None
    assert row.stage is Stage.CLOSED


@pytest.mark.parametrize(
    ("case", "actual", "verdict"),
    [
        ("what the kernel rounds is equal", Limits(cpu_limit=3990, memory_limit=2047), Verdict.SYNCHRONIZED),
        ("11m less is not", Limits(cpu_limit=3989, memory_limit=2048), Verdict.RETRY),
        ("2 MiB less are not", Limits(cpu_limit=4000, memory_limit=2046), Verdict.RETRY),
        ("no limit at all is not", Limits(cpu_limit=4000), Verdict.RETRY),
    ],
)
def test_success_is_believed_only_when_the_kernel_shows_it(
    bench: Bench, case: str, actual: Limits, verdict: Verdict
) -> None:
    recorded = bench.recorded(cpu_limit=4000, memory_limit=2048)

    reply = bench.report(generation=recorded.generation, actual=actual)

    assert reply.verdict is verdict, case
    if verdict is Verdict.RETRY:
        assert reply.reason is Reason.VERIFY_FAILED
        assert "desired" in reply.message
        assert "in force" in reply.message


def test_success_without_what_is_in_force_is_not_believed(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)

    reply = bench.report(generation=recorded.generation, actual=None)

    assert (reply.verdict, reply.reason) == (Verdict.RETRY, Reason.QUERY_FAILED)


def test_the_whole_desired_state_is_compared_not_only_the_target(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    recorded = bench.recorded("a-2", memory_limit=2048)

    reply = bench.report("a-2", generation=recorded.generation, actual=Limits(cpu_limit=2000, memory_limit=2048))

    assert reply.reason is Reason.VERIFY_FAILED
    assert "cpu_limit 2500 desired, 2000 in force" in reply.message


@pytest.mark.parametrize("reason", RETRYABLE)
def test_what_may_pass_is_tried_three_times_more_and_then_failed(bench: Bench, reason: Reason) -> None:
    recorded = bench.recorded(cpu_limit=4000)

    verdicts = []
    for attempt in range(1, 5):
        reply = bench.fails(generation=recorded.generation, attempt=attempt, reason=reason, message="why")
        verdicts.append(reply.verdict)
        assert (reply.reason, reply.message) == (reason, "why")
        bench.record(cpu_limit=4000, attempt=attempt + 1)

    assert verdicts == [Verdict.RETRY, Verdict.RETRY, Verdict.RETRY, Verdict.FAILED]


@pytest.mark.parametrize("reason", FINAL)
def test_a_refusal_is_final_at_once(bench: Bench, reason: Reason) -> None:
    recorded = bench.recorded(cpu_limit=4000)

    reply = bench.fails(generation=recorded.generation, reason=reason)

    assert (reply.verdict, reply.reason) == (Verdict.FAILED, reason)


def test_partial_without_a_reason_is_called_partial_and_failure_a_runtime_error(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)

    partly = bench.report(
        generation=recorded.generation, result=UpdateResult.PARTIAL, actual=Limits(cpu_limit=4000)
    )
    assert (partly.verdict, partly.reason) == (Verdict.RETRY, Reason.PARTIAL)
    failed = bench.report(generation=recorded.generation, result=UpdateResult.FAILED, attempt=2)
    assert (failed.verdict, failed.reason) == (Verdict.RETRY, Reason.RUNTIME_ERROR)


def test_the_number_of_retries_is_configured() -> None:
    bench = Bench(rules=settings(action_controller={"retries": 0}))
    bench.info()
    bench.snapshot(container("cam"))
    recorded = bench.recorded(cpu_limit=4000)

    assert bench.fails(generation=recorded.generation).verdict is Verdict.FAILED


def test_the_same_report_gets_the_same_verdict_and_counts_once(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    first = bench.fails(generation=recorded.generation, message="first")
    for _ in range(5):
        again = bench.fails(generation=recorded.generation, message="first")
        assert again == first

    second = bench.fails(generation=recorded.generation, attempt=2)
    assert second.verdict is Verdict.RETRY


def test_a_container_that_was_created_anew_is_not_retried(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    bench.snapshot(container("cam", runtime_id="cam-id-2"), container("nav", 3000, 2048))

    reply = bench.fails(generation=recorded.generation, reason=Reason.RUNTIME_TIMEOUT)

    assert reply.verdict is Verdict.FAILED


def test_a_container_that_stopped_is_not_retried(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    bench.snapshot(container("cam", running=False), container("nav", 3000, 2048))

    assert bench.fails(generation=recorded.generation).verdict is Verdict.FAILED


def test_a_report_of_another_generation_is_sent_back_for_the_present_one(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)

    reply = bench.report(generation=recorded.generation - 1, actual=Limits(cpu_limit=4000))

    assert reply.verdict is Verdict.RETRY
    assert bench.state().sync_state is SyncState.APPLYING


def test_while_it_retries_the_state_tells_why(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    bench.fails(generation=recorded.generation, message="crun: busy")

    assert bench.state().sync_state is SyncState.APPLYING
    assert (bench.state().reason, bench.state().message) == (Reason.RUNTIME_ERROR, "crun: busy")


def test_a_report_of_an_unknown_action_fails_and_leaves_a_closed_row(bench: Bench) -> None:
    reply = bench.report("ghost", generation=5, actual=Limits(cpu_limit=4000))

    assert reply.verdict is Verdict.FAILED
    row = bench.manager.ledger.row("ghost")
    assert row is not None
    assert (row.stage, row.verdict) == (Stage.CLOSED, Verdict.FAILED)
    assert bench.validate("ghost", cpu=4000).verdict is Verdict.FAILED
    assert bench.report("ghost", generation=5).verdict is Verdict.FAILED


def test_what_an_unknown_action_did_is_taken_in_all_the_same(bench: Bench) -> None:
    bench.report("ghost", generation=5, actual=Limits(cpu_limit=4000, memory_limit=1024))

    assert bench.state().actual == Limits(cpu_limit=4000, memory_limit=1024)
    assert bench.capacity().allocated.cpu == 7000


def test_a_report_for_a_container_nobody_knows_is_answered_too(bench: Bench) -> None:
    reply = bench.report("ghost", "radar", generation=5)

    assert reply.verdict is Verdict.FAILED
    assert (reply.sync_state, reply.generation, reply.desired) == (SyncState.UNKNOWN, 0, None)


def test_a_report_before_anything_was_recorded_ends_the_action(bench: Bench) -> None:
    bench.validate(cpu=4000)

    assert bench.fails(generation=0).verdict is Verdict.FAILED
    assert bench.capacity().allocated.cpu == 5000


def test_an_older_observation_does_not_replace_a_newer(bench: Bench) -> None:
    bench.snapshot(container("cam", 3500, 1024), container("nav", 3000, 2048), seq=50)

    bench.report("ghost", generation=1, actual=Limits(cpu_limit=100), seq=49)
    assert bench.state().actual == Limits(cpu_limit=3500, memory_limit=1024)
    bench.report("ghost-2", generation=1, actual=Limits(cpu_limit=100), seq=50)
    assert bench.state().actual == Limits(cpu_limit=3500, memory_limit=1024)
    bench.report("ghost-3", generation=1, actual=Limits(cpu_limit=100), boot_id=99, seq=51)
    assert bench.state().actual == Limits(cpu_limit=3500, memory_limit=1024)
    bench.snapshot(container("cam", 100, 100), container("nav", 3000, 2048), seq=49)
    assert bench.state().actual == Limits(cpu_limit=3500, memory_limit=1024)


def test_what_a_report_shows_counts_until_a_newer_stamp(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    bench.report(generation=recorded.generation, actual=Limits(cpu_limit=4000, memory_limit=1024), seq=60)

    bench.snapshot(container("cam", 2000, 1024), container("nav", 3000, 2048), seq=59)  # from before the write

    assert bench.state().sync_state is SyncState.SYNCHRONIZED
    assert bench.state().actual == Limits(cpu_limit=4000, memory_limit=1024)
    assert bench.heard(Reconcile) == []


def test_a_fence_above_ours_in_a_report_raises_the_next_generation(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    ahead = Fence(generation=recorded.generation + 100, attempt=3)

    bench.fails(generation=recorded.generation, reason=Reason.SUPERSEDED, fence=ahead)

    assert bench.state().generation == recorded.generation + 101


def test_a_verdict_is_given_again_after_the_state_moved_on(bench: Bench) -> None:
    first = bench.recorded("a-1", cpu_limit=2500)
    done = bench.report("a-1", generation=first.generation, actual=Limits(cpu_limit=2500))
    bench.scaled("a-2", cpu_limit=2600)

    again: ActualReply = bench.fails("a-1", generation=first.generation, attempt=7)

    assert again.verdict is done.verdict is Verdict.SYNCHRONIZED


def test_a_late_copy_of_the_first_of_many_failures_is_no_failure_of_its_own() -> None:
    bench = Bench(rules=settings(action_controller={"retries": 40}))
    bench.info()
    bench.snapshot(container("cam"), container("nav", 3000, 2048))
    generation = bench.recorded(cpu_limit=2500).generation
    for attempt in range(1, 41):
        assert bench.fails(generation=generation, attempt=attempt).verdict is Verdict.RETRY

    for attempt in range(1, 41):
        assert bench.fails(generation=generation, attempt=attempt).verdict is Verdict.RETRY, "told again"
