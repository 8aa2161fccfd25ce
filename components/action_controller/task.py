"""One scaling task: how far it is, and the moves that are allowed."""

from dataclasses import dataclass, field
from typing import Any, Final

from components.component import Instant
from schemas.enums import ActionOutcome, CauseType, Phase, Reason, TaskState
from schemas.limits import Limits
from schemas.resources import Reconcile
from schemas.scaling import Cause, ScalingAction, ScalingStatus

MOVES: Final = {
    Phase.ACCEPTED: frozenset({Phase.VALIDATING, Phase.UPDATING, Phase.CONFIRMING, Phase.DONE}),
    Phase.VALIDATING: frozenset({Phase.VALIDATING, Phase.RECORDING, Phase.WAITING, Phase.DONE}),
    Phase.WAITING: frozenset({Phase.VALIDATING, Phase.DONE}),
    Phase.RECORDING: frozenset({Phase.VALIDATING, Phase.UPDATING, Phase.DONE}),
    Phase.UPDATING: frozenset({Phase.CONFIRMING, Phase.DONE}),
    Phase.CONFIRMING: frozenset({Phase.RECORDING, Phase.UPDATING, Phase.DONE}),
    Phase.DONE: frozenset(),
}
"""From each phase, the phases that may follow. A reconcile goes from accepted straight to updating."""


ATTEMPT_BY_TIME_MAX: Final = 500_000
"""Seconds; more than an action may wait, and half of the attempts a message can carry."""


class IllegalMoveError(RuntimeError):
    """A task was moved where it cannot go: a bug."""


def move(present: Phase, following: Phase) -> Phase:
    """Return `following`. Raises IllegalMoveError when it cannot follow `present`."""
    if following not in MOVES[present]:
        raise IllegalMoveError(f"{following} cannot follow {present}")
    return following


@dataclass(eq=False)
class Task:
    """A scaling action, or a reconcile, on its way."""

    action: ScalingAction
    accepted: Instant
    wait_until: float
    """Until when it may wait for room, monotonic seconds."""
    number: int = 0
    """Actions in the order in which they were accepted, from 1; a reconcile is older than all."""
    begun: bool = False
    """Whether ResourceManager may hold a reservation or a record of it, perhaps from before a crash of ours."""
    resumed_ms: int = 0
    """When it was begun again after a crash, UTC epoch; 0: never."""
    reconcile: Reconcile | None = None
    phase: Phase = Phase.ACCEPTED
    attempt: int = 1
    refusals: int = 0
    """Retryable refusals in a row."""
    record_sent: bool = False
    abandoned: bool = False
    """Whether ResourceManager was told that it shall not be recorded any more."""
    ending: ScalingStatus | None = None
    """The final status, while it could not be written down."""
    workload: str = ""
    """The container's name, once ResourceManager told it."""
    generation: int | None = None
    desired: Limits | None = None
    actual: Limits | None = None
    runtime_id: str = ""
    boot_id: int = 0
    reason: Reason | None = None
    message: str = ""
    request_id: str | None = None
    """Of the request whose answer it waits for."""
    due: float | None = None
    """When to go on by itself: a retry, or the end of patience with an agent."""
    entered: float = 0.0
    timings: dict[Phase, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The action's id."""
        return self.action.action_id

    @property
    def key(self) -> tuple[str, str]:
        """Node and workload: its name, or its id as long as the name is not known."""
        return (self.action.node, self.name)

    @property
    def name(self) -> str:
        """The workload's name as far as it is known."""
        return self.workload or self.action.workload_id

    def next_attempt(self, now: Instant) -> int:
        """The next attempt of a validation: about one a second since it was accepted.

        So it is above those of an earlier life of this process; ResourceManager gives the answers to these again.
        """
        seconds = (now.epoch_ms - self.accepted.epoch_ms) // 1000
        return max(self.attempt + 1, min(seconds, ATTEMPT_BY_TIME_MAX))

    def enter(self, phase: Phase, now: float) -> None:
        """Move to another phase, and account for the time spent in the one that ends."""
        following = move(self.phase, phase)
        spent = (now - self.entered) * 1000
        self.timings[self.phase] = round(self.timings.get(self.phase, 0.0) + spent, 3)
        self.phase, self.entered = following, now

    def status(self, **final: Any) -> ScalingStatus:
        """The status to publish; `final` holds outcome and what goes with it."""
        outcome: ActionOutcome | None = final.get("outcome")
        if outcome is not None:
            state = TaskState.SUCCEEDED if outcome is ActionOutcome.COMPLETED else TaskState.FAILED
        elif self.phase in (Phase.ACCEPTED, Phase.WAITING):
            state = TaskState.PENDING
        else:
            state = TaskState.RUNNING
        body: dict[str, Any] = {"reason": self.reason, "message": self.message, **final}
        return ScalingStatus(
            action_id=self.id,
            node=self.action.node,
            workload_id=self.name,
            state=state,
            phase=Phase.DONE if outcome is not None else self.phase,
            desired=self.desired,
            actual=self.actual,
            generation=self.generation,
            dry_run=self.action.dry_run,
            cause=self.action.cause,
            timings_ms=dict(self.timings),
            wire=self.action.wire,
            **body,
        )


def task_resumed(action: ScalingAction, accepted_ms: int, now: Instant) -> Task:
    """An action that was accepted before a crash: it begins again, and has waited already."""
    waited = max(0.0, (now.epoch_ms - accepted_ms) / 1000)
    return Task(
        action,
        accepted=Instant(now.monotonic, accepted_ms),
        wait_until=now.monotonic + max(0.0, action.wait_s - waited),
        begun=True,
        resumed_ms=now.epoch_ms,
        entered=now.monotonic,
    )


def task_of_reconcile(told: Reconcile, now: Instant) -> Task:
    """A task that restores a desired state; it begins at `updating`."""
    action = ScalingAction(
        action_id=told.action_id,
        node=told.node,
        workload_id=told.workload_id,
        target=told.desired,
        cause=Cause(type=CauseType.RECONCILE),
    )
    return Task(
        action,
        accepted=now,
        wait_until=now.monotonic,
        reconcile=told,
        attempt=told.attempt,
        workload=told.workload_id,
        generation=told.generation,
        desired=told.desired,
        runtime_id=told.runtime_id,
        boot_id=told.boot_id,
        entered=now.monotonic,
    )
