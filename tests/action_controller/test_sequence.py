"""The scaling sequence, message by message, and how each of its branches ends."""

from typing import Any

import pytest

from schemas.enums import (
    ActionOutcome,
    CauseType,
    DesiredOperation,
    OnShortage,
    Phase,
    Reason,
    TaskState,
    UpdateResult,
    Verdict,
)
from schemas.limits import Limits
from schemas.message import Message, Wire
from schemas.node import UpdateRequest
from schemas.resources import ActualReport, DesiredRequest, Fence, ValidateRequest
from schemas.scaling import Cause, ScalingStatus
from tests.action_controller.bench import BOOT, NODE, Bench


def final(bench: Bench) -> ScalingStatus:
    """The status that ended an action just now; nothing else was said of it."""
    status = bench.only(ScalingStatus)
    assert status.final
    return status


def test_a_scaling_goes_step_by_step_and_says_where_it_is(bench: Bench) -> None:
    bench.act(target=Limits(cpu_limit=4000, memory_limit=2048), base_generation=6)
    assert bench.phases() == [("a-1", "accepted"), ("a-1", "validating")]
    accepted, validating = bench.heard(ScalingStatus)
    assert (accepted.state, validating.state) == (TaskState.PENDING, TaskState.RUNNING)
    assert accepted.outcome is None
    asked = bench.only(ValidateRequest)
    assert (asked.node, asked.workload_id, asked.action_id, asked.attempt) == (NODE, "cam", "a-1", 1)
    assert (asked.requested_cpu, asked.requested_memory) == (4000, 2048)
    assert (asked.base_generation, asked.reserve) == (6, True)

    bench.granted()
    assert bench.phases() == [("a-1", "recording")]
    record = bench.only(DesiredRequest)
    assert (record.node, record.workload_id, record.action_id, record.attempt) == (NODE, "cam", "a-1", 1)
    assert record.operation is DesiredOperation.RECORD
    assert record.target == Limits(cpu_limit=4000, memory_limit=2048)

    whole = Limits(cpu_limit=4000, memory_limit=2048, cpu_shares=512)
    bench.recorded(desired=whole)
    assert bench.phases() == [("a-1", "updating")]
    update = bench.only(UpdateRequest)
    assert update.limits == whole, "the whole desired state is sent, not only the target"
    assert (update.node, update.workload_id, update.action_id, update.attempt) == (NODE, "cam", "a-1", 1)
    assert (update.generation, update.boot_id, update.runtime_id) == (8, BOOT, "cam-id-1")
    assert update.deadline_ms == 10_000

    bench.updated()
    assert bench.phases() == [("a-1", "confirming")]
    report = bench.only(ActualReport)
    assert (report.node, report.workload_id, report.action_id, report.attempt) == (NODE, "cam", "a-1", 1)
    assert (report.generation, report.result, report.actual) == (8, UpdateResult.SUCCESS, whole)
    assert (report.boot_id, report.seq, report.fence) == (BOOT, 17, Fence(generation=8, attempt=1))

    bench.judged(Verdict.SYNCHRONIZED, desired=whole)
    done = final(bench)
    assert bench.said == [done]
    assert (done.state, done.phase, done.outcome) == (TaskState.SUCCEEDED, Phase.DONE, ActionOutcome.COMPLETED)
    assert (done.reason, done.desired, done.actual, done.generation) == (None, whole, whole, 8)
    bench.after(60)
    assert bench.said == []


def test_the_final_status_tells_how_long_each_phase_took(bench: Bench) -> None:
    bench.act()
    bench.seconds += 0.5
    bench.granted()
    bench.seconds += 0.25
    bench.recorded()
    bench.seconds += 1.0
    bench.updated()
    bench.seconds += 2.0
    bench.judged(Verdict.SYNCHRONIZED)

    assert final(bench).timings_ms == {
        Phase.ACCEPTED: 0,
        Phase.VALIDATING: 500,
        Phase.RECORDING: 250,
        Phase.UPDATING: 1000,
        Phase.CONFIRMING: 2000,
    }


def test_the_name_that_resource_manager_tells_is_used_from_then_on(bench: Bench) -> None:
    bench.act(workload="0123456789abcdef")
    bench.granted(workload_id="cam")

    assert bench.only(DesiredRequest).workload_id == "cam"
    assert bench.only(ScalingStatus).workload_id == "cam"
    bench.recorded()
    assert bench.only(UpdateRequest).workload_id == "cam"
    bench.updated()
    assert bench.only(ActualReport).workload_id == "cam"


def test_the_cause_of_an_action_is_told_with_every_status(bench: Bench) -> None:
    cause = Cause(type=CauseType.PERF, event_id="e-7")
    bench.act(cause=cause)
    assert {status.cause for status in bench.heard(ScalingStatus)} == {cause}
    bench.refused()
    assert final(bench).cause == cause


REFUSALS = [
    Reason.INSUFFICIENT_CPU,
    Reason.INSUFFICIENT_MEMORY,
    Reason.INFEASIBLE,
    Reason.UNKNOWN_NODE,
    Reason.UNKNOWN_WORKLOAD,
    Reason.NOT_RUNNING,
    Reason.NODE_UNAVAILABLE,
    Reason.SUPERSEDED,
    Reason.UNSUPPORTED,
    Reason.INVALID_TARGET,
]


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refusal_is_final_at_once_and_told_with_its_reason(bench: Bench, reason: Reason) -> None:
    bench.act()
    bench.refused(reason=reason, message="the numbers")

    status = final(bench)
    assert (status.state, status.outcome) == (TaskState.FAILED, ActionOutcome.REJECTED)
    assert (status.reason, status.message) == (reason, "the numbers")
    bench.after(60)
    assert bench.said == []


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (Reason.RUNTIME_ERROR, ActionOutcome.FAILED),
        (Reason.RUNTIME_TIMEOUT, ActionOutcome.FAILED),
        (Reason.NODE_UNAVAILABLE, ActionOutcome.FAILED),
        (Reason.BELOW_USAGE, ActionOutcome.FAILED),
        (Reason.QUERY_FAILED, ActionOutcome.FAILED),
        (Reason.PARTIAL, ActionOutcome.INCONSISTENT),
        (Reason.VERIFY_FAILED, ActionOutcome.INCONSISTENT),
    ],
)
def test_a_failed_verdict_ends_the_action_and_a_mismatch_is_called_inconsistent(
    bench: Bench, reason: Reason, outcome: ActionOutcome
) -> None:
    bench.up_to(Phase.CONFIRMING)
    bench.judged(
        Verdict.FAILED, reason=reason, message="the difference", desired=Limits(cpu_limit=2000), generation=9
    )

    status = final(bench)
    assert (status.state, status.outcome, status.reason) == (TaskState.FAILED, outcome, reason)
    assert status.message == "the difference"
    assert (status.desired, status.generation) == (Limits(cpu_limit=2000), 9), "what is desired by now"


@pytest.mark.parametrize(
    ("case", "reply", "result"),
    [
        ("a failure", {"success": False, "reason": Reason.RUNTIME_ERROR, "message": "crun"}, UpdateResult.FAILED),
        (
            "a part",
            {"success": False, "partial": True, "reason": Reason.PARTIAL, "message": "memory only"},
            UpdateResult.PARTIAL,
        ),
        ("a success", {"success": True, "message": "same values"}, UpdateResult.SUCCESS),
    ],
)
def test_what_the_agent_says_is_reported_as_it_is(
    bench: Bench, case: str, reply: dict[str, Any], result: UpdateResult
) -> None:
    bench.up_to(Phase.UPDATING)
    in_force = Limits(cpu_limit=3333)
    bench.updated(actual=in_force, seq=44, **reply)

    report = bench.only(ActualReport)
    assert report.result is result, case
    assert (report.reason, report.message) == (reply.get("reason"), reply["message"])
    assert (report.actual, report.seq) == (in_force, 44)


def test_a_verdict_met_on_the_way_ends_the_action_with_it(bench: Bench) -> None:
    bench.act("a-1")
    bench.refused("a-1", reason=None, verdict=Verdict.SYNCHRONIZED, message="")
    assert final(bench).outcome is ActionOutcome.COMPLETED

    bench.up_to(Phase.RECORDING, "a-2", workload="nav")
    bench.not_recorded("a-2", reason=Reason.VERIFY_FAILED, verdict=Verdict.FAILED, message="m")
    assert final(bench).outcome is ActionOutcome.INCONSISTENT

    bench.act("a-3", workload="radar")
    bench.refused("a-3", reason=Reason.NODE_UNAVAILABLE, verdict=Verdict.FAILED)
    status = final(bench)
    assert (status.outcome, status.reason) == (ActionOutcome.FAILED, Reason.NODE_UNAVAILABLE)


def test_a_dry_run_reserves_nothing_and_says_what_would_happen(bench: Bench) -> None:
    bench.act(dry_run=True, target=Limits(cpu_limit=4000, memory_limit=2048))
    asked = bench.only(ValidateRequest)
    assert not asked.reserve

    bench.granted(generation=6)
    status = final(bench)
    assert bench.said == [status]
    assert (status.outcome, status.dry_run, status.generation) == (ActionOutcome.COMPLETED, True, 6)
    assert status.message == (
        "would be granted on hpc-1: cpu_limit 4000, memory_limit 2048; available now: 2000m CPU, 4096Mi memory"
    )


def test_a_dry_run_that_would_be_refused_says_so_and_never_waits(bench: Bench) -> None:
    bench.act(dry_run=True, on_shortage=OnShortage.WAIT)
    bench.refused()

    status = final(bench)
    assert (status.outcome, status.reason, status.dry_run) == (
        ActionOutcome.REJECTED,
        Reason.INSUFFICIENT_CPU,
        True,
    )


def test_a_dry_run_holds_up_nobody_and_is_held_up_by_nobody(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING, "a-1")
    bench.act("dry", dry_run=True)
    assert bench.only(ValidateRequest).action_id == "dry"
    bench.act("dry-2", dry_run=True)
    bench.granted("dry-2")
    bench.granted("dry")
    assert bench.finals.keys() == {"dry", "dry-2"}
    bench.updated("a-1")
    assert bench.phases() == [("a-1", "confirming")]


def test_an_action_that_asks_for_nothing_is_refused_without_a_question(bench: Bench) -> None:
    bench.act(target=Limits())

    accepted, ended = bench.heard(ScalingStatus)
    assert not accepted.final
    assert (ended.outcome, ended.reason) == (ActionOutcome.REJECTED, Reason.INVALID_TARGET)
    assert len(bench.said) == 2


def test_an_action_in_json_is_answered_in_json_and_everything_else_as_configured(kept: Bench) -> None:
    kept.hear_json("scaling/action", action_id="a-1", node=NODE, workload_id="cam", target={"cpu_limit": 4000})
    assert {status.wire for status in kept.heard(ScalingStatus)} == {Wire.JSON}
    assert kept.only(ValidateRequest).wire is Wire.MSGPACK
    kept.restart()
    kept.refused()
    assert final(kept).wire is Wire.JSON
    kept.restart()
    assert kept.only(ScalingStatus).wire is Wire.JSON


def test_a_repeated_action_gets_its_final_status_again_in_the_words_of_who_asks(bench: Bench) -> None:
    bench.act()
    bench.act()
    assert bench.said == [], "it is under way"
    bench.refused()
    ended = final(bench)

    bench.act()
    assert bench.said == [ended]
    bench.hear_json("scaling/action", action_id="a-1", node=NODE, workload_id="cam", target={"cpu_limit": 4000})
    assert final(bench).wire is Wire.JSON


def test_every_repeated_answer_changes_nothing(bench: Bench) -> None:
    def again(send: Any) -> None:
        """Say the same answer once more, when it is no longer waited for."""
        assert send() == []

    bench.act()
    asked = dict(bench.asked)
    steps: list[Any] = [bench.granted, bench.recorded, bench.updated, lambda: bench.judged(Verdict.SYNCHRONIZED)]
    done: list[Any] = []
    for step in steps:
        step()
        done.append(step)
        present = dict(bench.asked)
        for earlier in done[:-1]:
            again(earlier)
        assert bench.asked == present
    again(steps[-1])
    assert asked.keys() <= bench.asked.keys()


def test_an_answer_to_somebody_else_is_not_ours(bench: Bench) -> None:
    bench.act()
    from schemas.resources import ValidateReply

    other: Message = ValidateReply(
        id="x", in_reply_to="the-cli's", allowed=True, node=NODE, workload_id="cam", generation=1
    )
    assert bench.hear(other) == []
    assert bench.granted() != []
