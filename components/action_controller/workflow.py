"""The scaling sequence of one task: validate, record, update, confirm. Read it top to bottom.

Each step sends a request that is repeated until its answer comes. A step returns the messages to publish, or the
final status when the task ends with it.
"""

from collections.abc import Sequence
from typing import Any, Final

from components.action_controller.task import Task
from components.component import Instant
from components.repeater import Repeater, request_id
from components.settings import ActionControllerSettings
from schemas.enums import (
    ActionOutcome,
    DesiredOperation,
    OnShortage,
    Phase,
    Reason,
    UpdateResult,
    Verdict,
)
from schemas.message import Message, Request
from schemas.node import UpdateReply, UpdateRequest
from schemas.resources import (
    ActualReply,
    ActualReport,
    DesiredReply,
    DesiredRequest,
    ValidateReply,
    ValidateRequest,
)
from schemas.scaling import ScalingStatus
from schemas.units import format_cpu, format_memory

Step = Sequence[Message] | ScalingStatus

SHORTAGE: Final = frozenset({Reason.INSUFFICIENT_CPU, Reason.INSUFFICIENT_MEMORY})
PASSING: Final = frozenset({Reason.OVERLOADED, Reason.STORAGE_ERROR})
"""What ResourceManager answers when it could neither grant nor refuse."""
MISMATCH: Final = frozenset({Reason.PARTIAL, Reason.VERIFY_FAILED})
"""Failures in which something else than desired is in force: the outcome is INCONSISTENT."""
ANSWER_GRACE_S: Final = 1.0
"""How long after an update's deadline its answer may still come."""
LOOK_AGAIN_S: Final = 5.0
"""How often an action that waits for room tries by itself, should the news of freed capacity be lost."""


class Workflow:
    """Moves tasks from step to step. Holds which request each of them waits for."""

    def __init__(self, settings: ActionControllerSettings, repeater: Repeater) -> None:
        self._settings = settings
        self._repeater = repeater
        self._waiting: dict[str, Task] = {}

    def begin(self, task: Task, now: Instant) -> Step:
        """Start a task: an action with validation, a reconcile with the update."""
        if task.reconcile is not None:
            return self._update(task, now)
        if task.phase is not Phase.ACCEPTED:
            return self.wake(task, now)  # it had to wait for its turn after it had asked
        return self._validate(task, now)

    def _validate(self, task: Task, now: Instant) -> Step:
        action = task.action
        # A late answer to an earlier life of ours may be older than what was recorded since; it must not match.
        attempt = f"{task.attempt}.{task.resumed_ms}" if task.resumed_ms else task.attempt
        request = ValidateRequest(
            id=request_id(task.id, "validate", attempt),
            node=action.node,
            workload_id=action.workload_id,
            action_id=task.id,
            attempt=task.attempt,
            requested_cpu=action.target.cpu_limit,
            requested_memory=action.target.memory_limit,
            base_generation=action.base_generation,
            reserve=not action.dry_run,
        )
        return self._ask(task, Phase.VALIDATING, request, now)

    def _validated(self, task: Task, reply: ValidateReply, now: Instant) -> Step:
        if reply.verdict is not None:
            return self._judged(task, reply, now)
        task.reason, task.message = reply.reason, reply.message
        if reply.allowed:
            return self._would_happen(task, reply, now) if task.action.dry_run else self._record(task, now)
        if reply.reason is Reason.EXPIRED:
            return self.wake(task, now)  # an earlier life of ours was further
        if reply.reason in PASSING:
            return self._validate_later(task, now)
        if reply.reason in SHORTAGE and task.action.on_shortage is OnShortage.WAIT and not task.action.dry_run:
            return self._wait(task, now)
        return self._give_up(task, now)

    def _would_happen(self, task: Task, reply: ValidateReply, now: Instant) -> ScalingStatus:
        asked = task.action.target.asked
        free = reply.available
        text = f"would be granted on {task.action.node}: " + ", ".join(f"{k} {v}" for k, v in asked.items())
        if free is not None:
            text += f"; available now: {format_cpu(free.cpu)} CPU, {format_memory(free.memory)} memory"
        task.desired, task.generation = task.action.target, reply.generation
        return self.ended(task, ActionOutcome.COMPLETED, None, text, now)

    def _validate_later(self, task: Task, now: Instant, *, at_once: bool = False) -> Step:
        """Try again what may pass by itself, a bounded number of times."""
        task.refusals += 1
        if task.refusals > self._settings.retries:
            return self._give_up(task, now)
        if at_once:
            return self.wake(task, now)
        self._stop_asking(task)
        task.due = now.monotonic + self._settings.retry_interval_s
        return []

    def _wait(self, task: Task, now: Instant) -> Step:
        """Wait for room without holding any: freed capacity wakes it, its deadline ends it."""
        self._stop_asking(task)
        if now.monotonic >= task.wait_until:
            text = f"no room came within {task.action.wait_s:g} s: {task.message}"
            return self.ended(task, ActionOutcome.REJECTED, Reason.EXPIRED, text, now)
        task.begun = False  # who is told that there is no room has none
        task.enter(Phase.WAITING, now.monotonic)
        task.due = min(task.wait_until, now.monotonic + LOOK_AGAIN_S)
        return [task.status()]

    def wake(self, task: Task, now: Instant) -> Step:
        """Ask again, with an attempt above those that an earlier life of ours may have used."""
        task.attempt = task.next_attempt(now)
        return self._validate(task, now)

    def _give_up(self, task: Task, now: Instant) -> Step:
        """Refuse what did not come about. While a RECORD may be carried out yet, it is abandoned first."""
        if task.reason is Reason.STORAGE_ERROR and task.record_sent:
            task.abandoned = True
            return self._ask(task, Phase.RECORDING, self._decision(task, DesiredOperation.ABANDON), now)
        return self.ended(task, ActionOutcome.REJECTED, task.reason, task.message, now)

    def _record(self, task: Task, now: Instant) -> Step:
        task.record_sent = True
        return self._ask(task, Phase.RECORDING, self._decision(task, DesiredOperation.RECORD), now)

    def _decision(self, task: Task, operation: DesiredOperation) -> DesiredRequest:
        return DesiredRequest(
            id=request_id(task.id, operation.lower(), task.attempt),
            action_id=task.id,
            attempt=task.attempt,
            node=task.action.node,
            workload_id=task.name,
            operation=operation,
            target=task.action.target,
        )

    def _recorded(self, task: Task, reply: DesiredReply, now: Instant) -> Step:
        if task.abandoned and reply.generation == 0:
            return self.ended(task, ActionOutcome.REJECTED, task.reason, task.message, now)
        if reply.success and reply.desired is not None:
            task.refusals = 0
            task.generation, task.desired = reply.generation, reply.desired
            task.runtime_id, task.boot_id = reply.runtime_id, reply.boot_id
            return self._update(task, now)
        if reply.verdict is not None:
            return self._judged(task, reply, now)
        task.reason, task.message = reply.reason, reply.message
        if reply.reason in PASSING or reply.reason is Reason.EXPIRED:
            return self._validate_later(task, now, at_once=reply.reason is Reason.EXPIRED)
        return self._give_up(task, now)

    def _update(self, task: Task, now: Instant) -> Step:
        desired = task.desired or task.action.target
        request = UpdateRequest(
            id=request_id(task.id, "update", task.attempt),
            node=task.action.node,
            action_id=task.id,
            attempt=task.attempt,
            workload_id=task.name,
            runtime_id=task.runtime_id,
            generation=task.generation,
            boot_id=task.boot_id,
            deadline_ms=self._settings.deadline_ms,
            **desired.asked,
        )
        said = self._ask(task, Phase.UPDATING, request, now)
        task.due = now.monotonic + self._settings.deadline_ms / 1000 + ANSWER_GRACE_S
        return said

    def _updated(self, task: Task, reply: UpdateReply, now: Instant) -> Step:
        ahead = reply.fence is not None and reply.fence.generation == task.generation
        superseded = reply.reason is Reason.SUPERSEDED and task.reconcile is None
        if superseded and ahead and reply.fence and reply.fence.attempt > task.attempt:
            # This action was here before a crash of ours: go on from where it was.
            task.attempt = reply.fence.attempt
            return self._update_again(task, now)
        result = UpdateResult.PARTIAL if reply.partial else UpdateResult.FAILED
        if reply.success:
            result = UpdateResult.SUCCESS
        task.actual = reply.actual
        told = {"actual": reply.actual, "boot_id": reply.boot_id, "seq": reply.seq, "fence": reply.fence}
        return self._report(task, now, result=result, reason=reply.reason, message=reply.message, **told)

    def _update_again(self, task: Task, now: Instant) -> Step:
        task.enter(Phase.CONFIRMING, now.monotonic)
        return self._update(task, now)

    def _no_answer(self, task: Task, now: Instant) -> Step:
        """Give up on an agent that does not answer, and let ResourceManager judge."""
        waited = self._settings.deadline_ms / 1000 + ANSWER_GRACE_S
        text = f"the agent of {task.action.node} did not answer within {waited:g} s; is it running and connected?"
        task.actual = None
        failed = UpdateResult.FAILED
        return self._report(task, now, result=failed, reason=Reason.NODE_UNAVAILABLE, message=text)

    def give_way(self, task: Task, now: Instant) -> Step:
        """End a reconcile because an action arrived."""
        if task.ending is not None:
            return []
        waits_to_retry = task.phase is Phase.CONFIRMING and task.request_id is None
        if waits_to_retry:
            task.attempt += 1
        elif task.phase is not Phase.UPDATING:
            return []
        text = "an action took its place"
        return self._report(task, now, result=UpdateResult.FAILED, reason=Reason.SUPERSEDED, message=text)

    def _report(self, task: Task, now: Instant, **told: Any) -> Step:
        report = ActualReport(
            id=request_id(task.id, "report", task.attempt),
            action_id=task.id,
            attempt=task.attempt,
            node=task.action.node,
            workload_id=task.name,
            generation=task.generation or 0,
            **told,
        )
        task.reason, task.message = told.get("reason"), told.get("message", "")
        return self._ask(task, Phase.CONFIRMING, report, now)

    def _confirmed(self, task: Task, reply: ActualReply, now: Instant) -> Step:
        if reply.verdict is not Verdict.RETRY:
            if reply.desired is not None:
                task.desired, task.generation = reply.desired, reply.generation
            return self._judged(task, reply, now)
        task.reason, task.message = reply.reason, reply.message
        self._stop_asking(task)
        task.due = now.monotonic + self._settings.retry_interval_s
        return [task.status()]

    def _judged(
        self, task: Task, reply: ValidateReply | DesiredReply | ActualReply, now: Instant
    ) -> ScalingStatus:
        """End with ResourceManager's verdict."""
        if reply.verdict is Verdict.SYNCHRONIZED:
            return self.ended(task, ActionOutcome.COMPLETED, None, reply.message, now)
        inconsistent = reply.reason in MISMATCH
        outcome = ActionOutcome.INCONSISTENT if inconsistent else ActionOutcome.FAILED
        return self.ended(task, outcome, reply.reason, reply.message, now)

    def answered(self, task: Task, reply: Any, now: Instant) -> Step:
        """Go on with the answer to the request that a task waits for."""
        steps: dict[type, Any] = {
            ValidateReply: self._validated,
            DesiredReply: self._recorded,
            UpdateReply: self._updated,
            ActualReply: self._confirmed,
        }
        step: Step = steps[type(reply)](task, reply, now)
        return step

    def due(self, task: Task, now: Instant) -> Step:
        """Go on with a task whose time has come: a retry, a look for room, or the end of patience."""
        task.due = None
        if task.phase is Phase.UPDATING:
            return self._no_answer(task, now)
        if task.phase is Phase.WAITING and now.monotonic >= task.wait_until:
            text = f"no room came within {task.action.wait_s:g} s: {task.message}"
            return self.ended(task, ActionOutcome.REJECTED, Reason.EXPIRED, text, now)
        if task.phase is not Phase.CONFIRMING:
            return self.wake(task, now)
        task.attempt += 1
        return self._update(task, now) if task.reconcile is not None else self._record(task, now)

    def ended(
        self, task: Task, outcome: ActionOutcome, reason: Reason | None, text: str, now: Instant
    ) -> ScalingStatus:
        """The final status. The task is not changed, so that an ending that cannot be written is repeated."""
        spent = round(task.timings.get(task.phase, 0.0) + (now.monotonic - task.entered) * 1000, 3)
        status = task.status(outcome=outcome, reason=reason, message=text)
        return status.model_copy(update={"timings_ms": {**task.timings, task.phase: spent}})

    def waiting_for(self, request_id: str) -> Task | None:
        """The task that waits for the answer to a request."""
        return self._waiting.get(request_id)

    def forget(self, task: Task) -> None:
        """Stop asking for a task that ended, or waits for its turn."""
        self._stop_asking(task)
        task.due = None

    def _ask(self, task: Task, phase: Phase, request: Request, now: Instant) -> list[Message]:
        self._stop_asking(task)
        if phase is not task.phase or phase is Phase.VALIDATING:
            task.enter(phase, now.monotonic)
        task.request_id = request.id
        self._waiting[request.id] = task
        return [task.status(), self._repeater.send(request.id, request, now.monotonic)]

    def _stop_asking(self, task: Task) -> None:
        task.due = None
        if task.request_id is not None:
            self._repeater.answered(task.request_id)
            self._waiting.pop(task.request_id, None)
            task.request_id = None
