"""What is said of an action or a reconcile for which no task is begun."""

from typing import Final

from components.repeater import request_id
from schemas.codec import BadRequest
from schemas.enums import ActionOutcome, Phase, Reason, TaskState, UpdateResult
from schemas.resources import ActualReport, Reconcile
from schemas.scaling import ScalingAction, ScalingStatus

NAMELESS: Final = "-"
"""Stands in a status for a name that the action did not have."""


def refusal(action: ScalingAction, reason: Reason, text: str) -> ScalingStatus:
    """The final status of an action that is not accepted."""
    return ScalingStatus(
        action_id=action.action_id,
        node=action.node,
        workload_id=action.workload_id,
        state=TaskState.FAILED,
        phase=Phase.DONE,
        outcome=ActionOutcome.REJECTED,
        reason=reason,
        message=text,
        dry_run=action.dry_run,
        cause=action.cause,
        wire=action.wire,
    )


def unreadable(bad: BadRequest) -> ScalingStatus:
    """The final status of an action with a bad value. What is no name of a node or workload is not repeated."""
    return ScalingStatus(
        action_id=bad.identity["action_id"],
        node=bad.identity.get("node", NAMELESS),
        workload_id=bad.identity.get("workload_id", NAMELESS),
        state=TaskState.FAILED,
        phase=Phase.DONE,
        outcome=ActionOutcome.REJECTED,
        reason=bad.reason,
        message=bad.text,
        wire=bad.wire,
    )


def give_back(told: Reconcile) -> ActualReport:
    """The report of a reconcile that is not begun: an action has precedence, or it ended before."""
    return ActualReport(
        id=request_id(told.action_id, "report", told.attempt),
        action_id=told.action_id,
        attempt=told.attempt,
        node=told.node,
        workload_id=told.workload_id,
        generation=told.generation,
        result=UpdateResult.FAILED,
        reason=Reason.SUPERSEDED,
        message="an action on this workload is under way, or this reconcile has ended",
        boot_id=told.boot_id,
    )
