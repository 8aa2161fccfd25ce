"""What PolicyManager says: actions and outcomes."""

import hashlib
from typing import Final, NamedTuple

from components.component import Instant
from components.policy_manager.decision import NotRequired, Scale
from schemas.codec import BadRequest
from schemas.enums import ActionOutcome, CauseType, EventOutcome, Reason
from schemas.message import Wire
from schemas.performance import PerfEvent, PerfOutcome
from schemas.resources import ResourceState
from schemas.scaling import Cause, ScalingAction, ScalingStatus

Key = tuple[str, str]
"""Node and workload."""

_PREFIX: Final = "act-"
_ID_LENGTH_MAX: Final = 256


def key_of(message: PerfEvent | ScalingAction | ScalingStatus | ResourceState) -> Key:
    """The workload that a message is about."""
    return message.node, message.workload_id


def action_id_of(event_id: str) -> str:
    """The id of the action that an event leads to: the same event, the same action."""
    fits = len(event_id) <= _ID_LENGTH_MAX - len(_PREFIX)
    return _PREFIX + (event_id if fits else hashlib.sha256(event_id.encode()).hexdigest())


def scaling_action(key: Key, event_id: str, cause: CauseType, scale: Scale, now: Instant) -> ScalingAction:
    """The action for an event."""
    action_id = action_id_of(event_id)
    return ScalingAction(
        id=action_id,
        ts=now.epoch_ms,
        action_id=action_id,
        node=key[0],
        workload_id=key[1],
        current=scale.current,
        target=scale.target,
        base_generation=scale.base_generation,
        cause=Cause(type=cause, event_id=event_id),
    )


def not_required(event: PerfEvent, decision: NotRequired, message_id: str, now: Instant) -> PerfOutcome:
    """The outcome of an event that needs no action."""
    return PerfOutcome(
        id=message_id,
        ts=now.epoch_ms,
        event_id=event.event_id,
        node=event.node,
        workload_id=event.workload_id,
        outcome=EventOutcome.NOT_REQUIRED,
        reason=decision.reason,
        message=decision.message,
        wire=event.wire,
    )


class Asked(NamedTuple):
    """Which event wants an outcome, whether it can be read or not."""

    event_id: str
    node: str
    workload_id: str
    wire: Wire | None


def asked(item: PerfEvent | BadRequest) -> Asked:
    """Which event this is."""
    if isinstance(item, PerfEvent):
        return Asked(item.event_id, item.node, item.workload_id, item.wire)
    told = item.identity
    return Asked(told["event_id"], told["node"], told["workload_id"], item.wire)


def failure(event: Asked, reason: Reason | None, text: str, message_id: str, now: Instant) -> PerfOutcome:
    """The outcome of an event that could not be read or decided."""
    return PerfOutcome(
        id=message_id,
        ts=now.epoch_ms,
        event_id=event.event_id,
        node=event.node,
        workload_id=event.workload_id,
        outcome=EventOutcome.FAILED,
        reason=reason,
        message=text[:1024],
        wire=event.wire,
    )


def outcome_of(
    action: ScalingAction, status: ScalingStatus, ended: ActionOutcome, message_id: str, now: Instant
) -> PerfOutcome | None:
    """The outcome of the event that an action was for; None: that event has its outcome already."""
    event_id = action.cause.event_id
    if action.cause.type is not CauseType.PERF or event_id is None:
        return None
    return PerfOutcome(
        id=message_id,
        ts=now.epoch_ms,
        event_id=event_id,
        node=action.node,
        workload_id=action.workload_id,
        action_id=action.action_id,
        outcome=EventOutcome(ended),
        reason=status.reason,
        message=status.message,
    )
