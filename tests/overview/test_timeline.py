"""The time line of one scaling: each message of the chain a step, repeats none, the end with its reason."""

from collections.abc import Sequence

import pytest

from components.overview.events import Level
from components.overview.timeline import STEPS_MAX, Timeline, Timelines
from schemas.enums import (
    ActionOutcome,
    CauseType,
    DesiredOperation,
    EventOutcome,
    Phase,
    Reason,
    SyncState,
    TaskState,
    UpdateResult,
    Verdict,
)
from schemas.limits import Limits
from schemas.message import Message
from schemas.node import UpdateReply, UpdateRequest
from schemas.performance import Indicator, PerfDegraded, PerfOutcome
from schemas.resources import (
    ActualReply,
    ActualReport,
    DesiredReply,
    DesiredRequest,
    ResourceState,
    ValidateReply,
    ValidateRequest,
)
from schemas.scaling import Cause, ScalingAction, ScalingStatus

BEFORE, TARGET = Limits(cpu_limit=1000), Limits(cpu_limit=2000)


def degraded(event_id: str = "e-1", workload: str = "cam") -> PerfDegraded:
    over = Indicator(metric="latency_ms", value=450, threshold=300)
    return PerfDegraded(
        event_id=event_id, episode_id="p", node="n", workload_id=workload, indicators=(over,), limits=BEFORE
    )


def action(
    event_id: str | None = "e-1", action_id: str = "a-1", kind: CauseType = CauseType.PERF
) -> ScalingAction:
    return ScalingAction(
        action_id=action_id,
        node="n",
        workload_id="cam",
        current=Limits(cpu_limit=1000, memory_limit=256),
        target=TARGET,
        cause=Cause(type=kind, event_id=event_id),
        source="policy_manager/main",
    )


def status(
    phase: Phase, outcome: ActionOutcome | None = None, reason: Reason | None = None, action_id: str = "a-1"
) -> ScalingStatus:
    return ScalingStatus(
        action_id=action_id,
        node="n",
        workload_id="cam",
        state=TaskState.RUNNING if outcome is None else TaskState.SUCCEEDED,
        phase=phase,
        outcome=outcome,
        reason=reason,
        actual=TARGET if outcome else None,
        cause=Cause(type=CauseType.PERF, event_id="e-1"),
        timings_ms={Phase.UPDATING: 12.5} if outcome else {},
    )


def state(sync_state: SyncState) -> ResourceState:
    return ResourceState(node="n", workload_id="cam", sync_state=sync_state, generation=7)


def outcome(kind: EventOutcome = EventOutcome.COMPLETED, reason: Reason | None = None) -> PerfOutcome:
    action_id = None if kind is EventOutcome.NOT_REQUIRED else "a-1"
    return PerfOutcome(
        event_id="e-1", node="n", workload_id="cam", action_id=action_id, outcome=kind, reason=reason
    )


ABOUT = {"node": "n", "workload_id": "cam", "action_id": "a-1"}
CHAIN: Sequence[Message] = (
    degraded(),
    action(),
    status(Phase.ACCEPTED),
    status(Phase.VALIDATING),
    ValidateRequest(id="v", requested_cpu=2000, reserve=True, **ABOUT),
    ValidateReply(in_reply_to="v", allowed=True, node="n", workload_id="cam"),
    status(Phase.RECORDING),
    DesiredRequest(id="d", operation=DesiredOperation.RECORD, target=TARGET, **ABOUT),
    DesiredReply(in_reply_to="d", success=True, generation=7, desired=TARGET),
    state(SyncState.PENDING),
    status(Phase.UPDATING),
    UpdateRequest(id="u", cpu_limit=2000, generation=7, **ABOUT),
    state(SyncState.APPLYING),
    UpdateReply(in_reply_to="u", node="n", success=True, workload_id="cam", actual=TARGET, boot_id=1),
    status(Phase.CONFIRMING),
    ActualReport(id="r", generation=7, result=UpdateResult.SUCCESS, actual=TARGET, **ABOUT),
    ActualReply(in_reply_to="r", verdict=Verdict.SYNCHRONIZED, sync_state=SyncState.SYNCHRONIZED),
    state(SyncState.SYNCHRONIZED),
    status(Phase.DONE, ActionOutcome.COMPLETED),
    outcome(),
)


def folded(messages: Sequence[Message], every_ms: float = 10.0) -> Timelines:
    """The messages, one every 10 ms."""
    lines = Timelines()
    for number, message in enumerate(messages):
        lines.hear(message, number * every_ms)
    return lines


def the_one(lines: Timelines) -> Timeline:
    (line,) = lines
    return line


def test_the_whole_chain_is_one_line_from_the_metric_to_verified() -> None:
    line = the_one(folded(CHAIN))

    assert [step.title for step in line.steps] == [
        "degraded",
        "action asked",
        "accepted",
        "validating",
        "room asked for",
        "room granted",
        "recording",
        "record asked",
        "recorded",
        "state PENDING",
        "updating",
        "update sent",
        "state APPLYING",
        "applied and read back",
        "confirming",
        "reported",
        "verified",
        "state SYNCHRONIZED",
        "done",
        "outcome told",
    ]
    assert line.steps[0].text == "latency_ms 450 (threshold 300); of 1000m CPU, unlimited memory"
    assert line.steps[1].text == "1000m CPU → 2000m CPU (PERF)", "what does not change is not told"
    assert (line.outcome, line.level) == ("COMPLETED", Level.GOOD)
    assert (line.before, line.target, line.actual) == (BEFORE, TARGET, TARGET)
    assert line.timings_ms == {Phase.UPDATING: 12.5}


def test_each_step_says_when_it_was_and_how_long_after_the_one_before() -> None:
    line = the_one(folded(CHAIN))

    assert [step.since_last_ms for step in line.steps] == [0.0] + [10.0] * (len(CHAIN) - 1)
    assert line.steps[-1].since_start_ms == 190.0
    assert line.took_ms == 180.0, "up to the final status; that its event is told of it comes after"


def test_each_step_says_who_speaks() -> None:
    who = {step.topic: step.who for step in the_one(folded(CHAIN)).steps}

    assert who["perf/degraded"] == "monitoring_server"
    assert who["scaling/action"] == "policy_manager"
    assert who["resources/validate"] == "action_controller"
    assert who["resources/validate/reply"] == "resource_manager"
    assert who["node/{node}/update/reply"] == "node_agent"


def test_what_is_said_again_is_no_step() -> None:
    line = the_one(folded([message for message in CHAIN for _ in range(2)]))

    assert len(line.steps) == len(CHAIN)
    assert line.repeats > 0


def test_it_is_found_by_its_event_and_by_its_action() -> None:
    lines = folded(CHAIN)

    assert lines.get("e-1") is lines.get("a-1") is the_one(lines)
    assert lines.get("other") is None
    assert lines.of("n", "cam") == [the_one(lines)]
    assert lines.of("n", "nav") == []


def test_a_refusal_of_the_policy_is_a_line_that_ends_with_its_reason() -> None:
    line = the_one(folded([degraded(), outcome(EventOutcome.NOT_REQUIRED, Reason.COOLDOWN)]))

    assert (line.outcome, line.reason, line.level) == ("NOT_REQUIRED", Reason.COOLDOWN, Level.QUIET)
    assert line.took_ms == 10.0


def test_a_refusal_for_want_of_room_keeps_its_reason_when_the_event_is_told() -> None:
    refused = ValidateReply(
        in_reply_to="v",
        allowed=False,
        reason=Reason.INSUFFICIENT_CPU,
        message="needs 3000m more",
        node="n",
        workload_id="cam",
    )
    end = status(Phase.DONE, ActionOutcome.REJECTED, Reason.INSUFFICIENT_CPU)
    line = the_one(folded([*CHAIN[:5], refused, end, outcome(EventOutcome.REJECTED)]))

    assert (line.outcome, line.reason) == ("REJECTED", Reason.INSUFFICIENT_CPU)
    assert line.steps[5].text == "INSUFFICIENT_CPU needs 3000m more"


def test_an_action_by_hand_has_a_line_without_an_event() -> None:
    line = the_one(
        folded([action(None, "by-hand", CauseType.CLI), status(Phase.ACCEPTED, action_id="by-hand")][:1])
    )

    assert (line.key, line.cause, line.event_id) == ("by-hand", "CLI", None)


def test_a_return_to_the_baseline_is_a_line_of_its_own_and_not_of_the_recovery_before() -> None:
    lines = folded([degraded(), outcome(EventOutcome.NOT_REQUIRED), action("e-1", "back", CauseType.RESTORE)])

    assert [line.cause for line in lines] == ["RESTORE", "PERF"]


def test_a_listener_that_comes_late_begins_with_what_it_hears_first() -> None:
    line = the_one(folded(CHAIN[10:]))

    assert line.steps[0].title == "updating"
    assert line.outcome == "COMPLETED"


def test_answers_and_states_that_belong_to_nothing_known_are_left_out() -> None:
    stray = ActualReply(in_reply_to="x", verdict=Verdict.FAILED, sync_state=SyncState.FAILED)

    assert len(folded([stray, state(SyncState.FAILED), outcome()])) == 0


def test_retained_states_at_the_start_are_no_steps() -> None:
    lines = folded(CHAIN[:11])
    before = len(the_one(lines).steps)
    lines.hear(state(SyncState.DRIFT_DETECTED), 999.0, retained=True)

    assert len(the_one(lines).steps) == before


@pytest.mark.parametrize("count", [3, 50])
def test_only_the_latest_lines_are_kept_and_what_runs_stays_longest(count: int) -> None:
    lines = Timelines(most=2)
    lines.hear(degraded("open"), 0)
    for number in range(count):
        event = degraded(f"e-{number}")
        ended = PerfOutcome(
            event_id=event.event_id, node="n", workload_id="cam", outcome=EventOutcome.NOT_REQUIRED
        )
        lines.hear(event, number)
        lines.hear(ended, number)

    assert [line.key for line in lines] == [f"e-{count - 1}", "open"]
    assert lines.get("e-0") is None
    assert len(lines._by_id) < 20, "ids of lines that are gone are forgotten"


def test_an_event_that_is_named_like_a_foreign_action_takes_its_place_and_breaks_nothing_later() -> None:
    lines = Timelines(most=2)
    lines.hear(action(event_id=None, action_id="same", kind=CauseType.EXTERNAL), 1.0)
    lines.hear(degraded("same"), 2.0)
    for number in range(3):
        lines.hear(degraded(f"later-{number}"), 3.0)

    assert lines.get("same") is None
    assert lines.hear(action(event_id=None, action_id="same", kind=CauseType.EXTERNAL), 4.0) is not None
    assert lines.get("same") is not None


def test_a_flood_under_one_id_is_cut_but_its_end_is_kept() -> None:
    lines = Timelines()
    lines.hear(action(), 0)
    for number in range(5_000):
        lines.hear(ValidateRequest(id=f"v-{number}", **ABOUT), number)
        lines.hear(status(Phase.WAITING if number % 2 else Phase.VALIDATING), number)
    lines.hear(status(Phase.DONE, ActionOutcome.COMPLETED), 6_000)

    line = the_one(lines)
    assert STEPS_MAX <= len(line.steps) <= STEPS_MAX + 10
    assert line.left_out > 5_000
    assert line.steps[-1].title == "done"
    assert len(lines._by_id) < 1_000
