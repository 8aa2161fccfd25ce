"""One line for each thing that happened."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from components.overview.words import describe, describe_actual, describe_indicators, joined, listed
from schemas.codec import Decoded
from schemas.enums import ActionOutcome, ConnectionState, EventOutcome, SyncState
from schemas.operations import ComponentStatus, DeadLetter
from schemas.performance import PerfDegraded, PerfOutcome, PerfRecovered
from schemas.resources import ResourceState
from schemas.scaling import ScalingAction, ScalingControl, ScalingStatus

TEXT_MAX: Final = 400


class Level(StrEnum):
    """What an event or a step means for who looks at it."""

    GOOD = "good"
    BUSY = "busy"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(frozen=True)
class Event:
    """Something that happened, when it was heard (UTC epoch ms, own clock), and what it is about."""

    at_ms: int
    level: Level
    kind: str
    """The topic's family: perf, action, state, component, control, deadletter."""
    text: str
    node: str | None = None
    workload: str | None = None


LEVEL_OF_STATE: Final = {
    SyncState.UNKNOWN: Level.QUIET,
    SyncState.PENDING: Level.BUSY,
    SyncState.APPLYING: Level.BUSY,
    SyncState.SYNCHRONIZED: Level.GOOD,
    SyncState.DRIFT_DETECTED: Level.WARN,
    SyncState.FAILED: Level.BAD,
}
LEVEL_OF_OUTCOME: Final = {
    ActionOutcome.COMPLETED: Level.GOOD,
    ActionOutcome.REJECTED: Level.WARN,
    ActionOutcome.FAILED: Level.BAD,
    ActionOutcome.INCONSISTENT: Level.BAD,
    EventOutcome.NOT_REQUIRED: Level.QUIET,
}
LEVEL_OF_PRESENCE: Final = {
    ConnectionState.READY: Level.GOOD,
    ConnectionState.INIT: Level.BUSY,
    ConnectionState.DISCONNECTED: Level.WARN,
    ConnectionState.LOST: Level.BAD,
}


def event_of(message: Decoded, now_ms: int) -> Event | None:
    """What a message tells that happened; None when it is no news in itself."""
    match message:
        case PerfDegraded() | PerfRecovered() | PerfOutcome():
            return _of_performance(message, now_ms)
        case ScalingAction() | ScalingStatus():
            return _of_scaling(message, now_ms)
        case ResourceState():
            text = joined(f"{message.sync_state}", message.reason, message.message)
            return _event(now_ms, LEVEL_OF_STATE[message.sync_state], "state", text, message)
        case ComponentStatus():
            text = f"{message.component} {message.instance} is {message.state}"
            return Event(now_ms, LEVEL_OF_PRESENCE[message.state], "component", text)
        case ScalingControl():
            level = Level.WARN if message.paused else Level.GOOD
            text = f"automatic scaling {'paused' if message.paused else 'resumed'}"
            return Event(now_ms, level, "control", text, message.node, message.workload)
        case DeadLetter():
            text = f"{message.component} could not use {message.topic}: {joined(message.reason, message.message)}"
            return Event(now_ms, Level.WARN, "deadletter", text[:TEXT_MAX])
        case _:
            return None


def _of_performance(message: PerfDegraded | PerfRecovered | PerfOutcome, now_ms: int) -> Event | None:
    match message:
        case PerfDegraded():
            text = joined("degraded:", describe_indicators(message.indicators))
            return _event(now_ms, Level.WARN, "perf", text, message)
        case PerfRecovered():
            text = joined("recovered:", describe_indicators(message.indicators))
            return _event(now_ms, Level.GOOD, "perf", text, message)
        case PerfOutcome(action_id=None):  # how an action ended its own status tells
            if message.outcome is EventOutcome.NOT_REQUIRED and message.reason is None:
                return None
            text = joined(f"no scaling: {message.reason or message.outcome}", message.message)
            return _event(now_ms, LEVEL_OF_OUTCOME[message.outcome], "perf", text, message)
        case _:
            return None


def _of_scaling(message: ScalingAction | ScalingStatus, now_ms: int) -> Event | None:
    if isinstance(message, ScalingAction):
        tried = "asked whether it can have" if message.dry_run else "is to have"
        text = f"{tried} {describe(message.target)} ({message.cause.type})"
        return _event(now_ms, Level.BUSY, "action", text, message)
    if message.outcome is None:
        return None
    in_force = None
    if message.outcome is ActionOutcome.COMPLETED and not message.dry_run:
        in_force = f"in force: {describe_actual(message.actual, message.desired)}"
    outcome = joined(message.outcome, "(dry run)" if message.dry_run else None, message.reason, message.message)
    text = listed(outcome, in_force)
    return _event(now_ms, LEVEL_OF_OUTCOME[message.outcome], "action", text, message)


def _event(
    now_ms: int,
    level: Level,
    kind: str,
    text: str,
    about: PerfDegraded | PerfRecovered | PerfOutcome | ScalingAction | ScalingStatus | ResourceState,
) -> Event:
    return Event(now_ms, level, kind, text[:TEXT_MAX], about.node, about.workload_id)
