"""Each message of the chain as a step: what it is in two or three words, and its particulars."""

from dataclasses import dataclass
from typing import Final

from components.overview.events import LEVEL_OF_OUTCOME, LEVEL_OF_STATE, Level
from components.overview.words import (
    describe,
    describe_actual,
    describe_amount,
    describe_indicators,
    joined,
    listed,
)
from schemas.enums import CauseType, DesiredOperation, OnShortage, Phase, UpdateResult, Verdict
from schemas.limits import Limits
from schemas.node import UpdateReply, UpdateRequest
from schemas.performance import PerfDegraded, PerfOutcome, PerfRecovered
from schemas.resources import (
    ActualReply,
    ActualReport,
    DesiredReply,
    DesiredRequest,
    Reconcile,
    ResourceState,
    ValidateReply,
    ValidateRequest,
)
from schemas.scaling import ScalingAction, ScalingStatus
from schemas.topics import Role, topic_of

ChainMessage = (
    PerfDegraded
    | PerfRecovered
    | PerfOutcome
    | ScalingAction
    | ScalingStatus
    | ValidateRequest
    | ValidateReply
    | DesiredRequest
    | DesiredReply
    | UpdateRequest
    | UpdateReply
    | ActualReport
    | ActualReply
    | Reconcile
    | ResourceState
)
CHAIN: Final = (
    PerfDegraded,
    PerfRecovered,
    PerfOutcome,
    ScalingAction,
    ScalingStatus,
    ValidateRequest,
    ValidateReply,
    DesiredRequest,
    DesiredReply,
    UpdateRequest,
    UpdateReply,
    ActualReport,
    ActualReply,
    Reconcile,
    ResourceState,
)
"""The messages that a time line is folded from: subscribe to these."""

TEXT_MAX: Final = 400

LEVEL_OF_VERDICT: Final = {
    Verdict.SYNCHRONIZED: Level.GOOD,
    Verdict.RETRY: Level.WARN,
    Verdict.FAILED: Level.BAD,
}
LEVEL_OF_RESULT: Final = {
    UpdateResult.SUCCESS: Level.BUSY,
    UpdateResult.PARTIAL: Level.WARN,
    UpdateResult.FAILED: Level.WARN,
}


@dataclass(frozen=True)
class Told:
    """What one message tells. `mark` is the same for its repeats."""

    topic: str
    who: str
    title: str
    text: str
    level: Level
    mark: str


def ids_of(message: ChainMessage) -> list[tuple[str, str]]:
    """The ids that the message belongs to a time line by, each with its kind, the surest first."""
    found: list[tuple[str, str | None]]
    match message:
        case PerfDegraded() | PerfRecovered():
            found = [("event", message.event_id)]
        case PerfOutcome():
            found = [("event", message.event_id), ("action", message.action_id)]
        case ScalingAction() | ScalingStatus():
            restores = message.cause.type is CauseType.RESTORE  # long after its event, and a scaling of its own
            found = [("action", message.action_id), ("event", None if restores else message.cause.event_id)]
        case ValidateReply() | DesiredReply() | ActualReply():
            found = [("request", message.in_reply_to)]
        case UpdateReply():
            found = [("request", message.in_reply_to), ("action", message.action_id)]
        case ValidateRequest() | DesiredRequest() | ActualReport() | UpdateRequest():
            found = [("action", message.action_id), ("request", message.id)]
        case Reconcile():
            found = [("action", message.action_id)]
        case ResourceState():
            found = []
    return [(kind, one) for kind, one in found if one]


def tell(message: ChainMessage) -> Told:
    """The message as a step."""
    title, text, level = _words(message)
    topic = topic_of(type(message))
    who = min(topic.writers, key=lambda role: (role in (Role.CLI, Role.ANYONE), role))
    if isinstance(message, ScalingAction) and message.source:
        said_by = message.source.partition("/")[0]
    else:
        said_by = who.value
    return Told(topic.template, said_by, title, text[:TEXT_MAX], level, _mark(message))


def _mark(message: ChainMessage) -> str:
    match message:
        case PerfDegraded() | PerfRecovered() | PerfOutcome():
            return message.event_id
        case ScalingAction():
            return message.action_id
        case ValidateReply() | DesiredReply() | ActualReply() | UpdateReply():
            return message.in_reply_to
        case Reconcile():
            return f"{message.generation}:{message.attempt}"
        case _:
            return message.id


def _words(message: ChainMessage) -> tuple[str, str, Level]:
    match message:
        case PerfDegraded() | PerfRecovered() | PerfOutcome():
            return _of_performance(message)
        case ScalingAction() | ScalingStatus() | Reconcile():
            return _of_action(message)
        case ValidateRequest() | ValidateReply():
            return _of_validation(message)
        case DesiredRequest() | DesiredReply():
            return _of_record(message)
        case UpdateRequest() | UpdateReply():
            return _of_update(message)
        case _:
            return _of_judgement(message)


def _of_performance(message: PerfDegraded | PerfRecovered | PerfOutcome) -> tuple[str, str, Level]:
    if isinstance(message, PerfOutcome):
        text = joined(message.outcome, message.reason, message.message)
        return "outcome told", text, LEVEL_OF_OUTCOME[message.outcome]
    use = f"uses {describe_amount(message.usage)}" if message.usage else None
    limits = f"of {describe_actual(message.limits)}" if message.limits else None
    text = listed(describe_indicators(message.indicators), joined(use, limits))
    degraded = isinstance(message, PerfDegraded)
    return ("degraded" if degraded else "recovered"), text, (Level.WARN if degraded else Level.GOOD)


def _of_action(message: ScalingAction | ScalingStatus | Reconcile) -> tuple[str, str, Level]:
    match message:
        case ScalingAction():
            before = message.current.only(set(message.target.asked)) if message.current else None
            current = f"{describe(before)} → " if before else ""
            waits = (
                f", waits up to {message.wait_s:g} s for room" if message.on_shortage is OnShortage.WAIT else ""
            )
            title = "dry run asked" if message.dry_run else "action asked"
            return title, f"{current}{describe(message.target)} ({message.cause.type}{waits})", Level.BUSY
        case Reconcile():
            text = f"{describe(message.desired)} again, generation {message.generation} ({message.cause})"
            return "reconcile asked", text, Level.WARN
        case _:
            return _of_status(message)


def _of_status(status: ScalingStatus) -> tuple[str, str, Level]:
    if status.outcome is None:
        level = Level.WARN if status.phase is Phase.WAITING else Level.BUSY
        return str(status.phase), joined(status.reason, status.message), level
    text = joined(status.outcome, "(dry run)" if status.dry_run else None, status.reason, status.message)
    return "done", text, LEVEL_OF_OUTCOME[status.outcome]


def _of_validation(message: ValidateRequest | ValidateReply) -> tuple[str, str, Level]:
    if isinstance(message, ValidateRequest):
        asked = Limits(cpu_limit=message.requested_cpu, memory_limit=message.requested_memory)
        return "room asked for", joined(describe(asked), _again(message.attempt)), Level.BUSY
    room = f"available {describe_amount(message.available)}" if message.available else None
    if message.allowed:
        return "room granted", listed(message.message, room), Level.BUSY
    return "room refused", joined(message.reason, message.message or room), Level.WARN


def _of_record(message: DesiredRequest | DesiredReply) -> tuple[str, str, Level]:
    if isinstance(message, DesiredRequest):
        abandons = message.operation is DesiredOperation.ABANDON
        text = joined(None if abandons else describe(message.target), _again(message.attempt))
        return ("abandon asked" if abandons else "record asked"), text, Level.BUSY
    if message.success:
        text = joined(f"generation {message.generation}:", describe(message.desired), message.verdict)
        return "recorded", text, Level.BUSY
    return "not recorded", joined(message.reason, message.message, message.verdict), Level.WARN


def _of_update(message: UpdateRequest | UpdateReply) -> tuple[str, str, Level]:
    if isinstance(message, UpdateRequest):
        return "update sent", joined(describe(message.limits), _again(message.attempt)), Level.BUSY
    in_force = f"in force: {describe_actual(message.actual)}"
    if message.success:
        return "applied and read back", listed(message.message, in_force), Level.GOOD
    title = "partly applied" if message.partial else "not applied"
    return title, listed(joined(message.reason, message.message), in_force if message.actual else None), Level.WARN


def _of_judgement(message: ActualReport | ActualReply | ResourceState) -> tuple[str, str, Level]:
    match message:
        case ActualReport():
            in_force = f"in force: {describe_actual(message.actual)}" if message.actual else None
            text = listed(joined(message.result, message.reason, message.message), in_force)
            return "reported", text, LEVEL_OF_RESULT[message.result]
        case ActualReply():
            title = "verified" if message.verdict is Verdict.SYNCHRONIZED else "judged"
            text = joined(message.verdict, message.reason, message.message)
            return title, text, LEVEL_OF_VERDICT[message.verdict]
        case _:
            text = joined(f"generation {message.generation}", message.reason, message.message)
            return f"state {message.sync_state}", text, LEVEL_OF_STATE[message.sync_state]


def _again(attempt: int) -> str | None:
    return f"(attempt {attempt})" if attempt > 1 else None
