"""ActionController: the component. Takes actions and reconciles in, and sees each to its one end."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from prometheus_client.core import Metric

from broker.bus import Subscription
from components.action_controller.capabilities import Capabilities
from components.action_controller.exposition import Exposition
from components.action_controller.journal import Journal
from components.action_controller.lanes import Lanes
from components.action_controller.refusals import give_back, refusal, unreadable
from components.action_controller.task import Task, task_of_reconcile, task_resumed
from components.action_controller.unsaid import Unsaid
from components.action_controller.workflow import Workflow
from components.component import Instant, Output
from components.repeater import Repeater
from components.settings import ActionControllerSettings
from components.storage import StorageError
from schemas.codec import BadRequest, Cleared
from schemas.enums import ActionOutcome, Phase, Reason
from schemas.limits import Amount
from schemas.message import Message
from schemas.node import NodeInfo, UpdateReply
from schemas.resources import (
    ActualReply,
    DesiredReply,
    NodeCapacity,
    Reconcile,
    ValidateReply,
)
from schemas.scaling import ScalingAction, ScalingStatus
from schemas.topics import Role, topic_of

OPEN_ACTIONS_MAX: Final = 10_000
"""Actions under way at once; above that new ones are refused as OVERLOADED."""
REFUSED_MAX: Final = 10_000
"""Refusals remembered that are not in the journal, the latest ones."""
SUPERSEDED: Final = "a newer action for this workload took its place"
PRUNE_S: Final = 600.0
PROBE_S: Final = 1.0
"""How often a journal that could not be written is tried."""


class ActionController:
    """Owner of the tasks: orchestrates, retries, reports; decides nothing and touches no container."""

    role = Role.ACTION_CONTROLLER
    instance = "main"
    persistent = True

    def __init__(self, journal: Journal, settings: ActionControllerSettings, now: Instant) -> None:
        self._journal = journal
        self._settings = settings
        self._repeater = Repeater()
        self._lanes = Lanes()
        self._tasks: dict[str, Task] = {}
        self._reconciling: dict[tuple[str, str], Task] = {}
        """The reconcile under way on a workload, in its lane or beside an action that waits for room."""
        self._numbers = itertools.count(1)
        self._workflow = Workflow(settings, self._repeater)
        self._exposition = Exposition()
        self._refused: dict[str, ScalingStatus] = {}
        self._available: dict[str, Amount] = {}
        self._capabilities = Capabilities()
        self._unsaid = Unsaid()
        self._trouble: str | None = None
        self._next_prune = now.monotonic + PRUNE_S
        self._next_probe = now.monotonic
        self._handlers: dict[type, Callable[[Any, Instant], list[Output]]] = {
            ScalingAction: self._action,
            Reconcile: self._reconcile,
            ValidateReply: self._reply,
            DesiredReply: self._reply,
            UpdateReply: self._reply,
            ActualReply: self._reply,
            NodeCapacity: self._capacity,
            NodeInfo: self._info,
            BadRequest: self._bad_request,
            Cleared: self._cleared,
        }

    @property
    def problem(self) -> str | None:
        """None, or why no action can be accepted."""
        return self._trouble

    @property
    def tasks(self) -> Iterable[Task]:
        """What is under way, for inspection."""
        return self._tasks.values()

    def samples(self) -> Iterable[Metric]:
        """How actions ended, and what is under way, for Prometheus."""
        return self._exposition.families(Counter(task.phase for task in self._tasks.values()))

    def subscriptions(self) -> Sequence[Subscription]:
        """Actions, reconciles, answers, capacity (for who waits for room), and what nodes can change."""
        heard: tuple[type[Message], ...] = (
            ScalingAction,
            Reconcile,
            ValidateReply,
            DesiredReply,
            UpdateReply,
            ActualReply,
            NodeCapacity,
            NodeInfo,
        )
        return [Subscription(topic_of(message).filter()) for message in heard]

    def start(self, now: Instant) -> list[Output]:
        """Begin again what a crash cut off, and say the endings that may not have been heard."""
        out: list[Output] = []
        for final in self._journal.unsaid():
            out.append(final)
            self._unsaid.add(final.action_id, now.monotonic)
        for action, accepted_ms in self._journal.open_actions():
            out += self._admit(task_resumed(action, accepted_ms, now), now)
        return out

    def connected(self, now: Instant) -> list[Output]:
        """Repeat at once what is unanswered."""
        self._unsaid.connected(now.monotonic)
        return list(self._repeater.repeat_all(now.monotonic))

    def disconnected(self, now: Instant) -> None:
        """Note that what is said from now on may reach nobody, and may be lost with this process."""
        self._unsaid.disconnected()

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """React to one message. Raises StorageError when an action could not be accepted; nothing was changed."""
        return self._handlers[type(item)](item, now)

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """Refuse an action that could not be written down; what is under way goes on when it can."""
        if not isinstance(error, StorageError):
            return None
        self._trouble = str(error)
        if not isinstance(item, ScalingAction):
            return []  # the request stays open, so its answer comes again
        return [self._refuse(refusal(item, Reason.STORAGE_ERROR, str(error)))]

    def tick(self, now: Instant) -> list[Output]:
        """Repeat unanswered requests, go on with retries, end what waited too long."""
        out: list[Output] = list(self._repeater.due(now.monotonic))
        try:
            for task in [t for t in self._tasks.values() if t.due is not None and t.due <= now.monotonic]:
                out += self._follow(task, task.ending or self._workflow.due(task, now), now)
            self._housekeeping(now)
        except StorageError as error:
            self._trouble = str(error)
        return out

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def _housekeeping(self, now: Instant) -> None:
        if said := self._unsaid.published(now.monotonic):
            self._journal.said(said)
            self._trouble = None
            self._unsaid.forget(said)
        if now.monotonic >= self._next_prune:
            self._next_prune = now.monotonic + PRUNE_S
            self._journal.prune(now.epoch_ms)
        if self._trouble is not None and now.monotonic >= self._next_probe:
            self._next_probe = now.monotonic + PROBE_S
            self._journal.probe()
            self._trouble = None

    def _action(self, action: ScalingAction, now: Instant) -> list[Output]:
        if action.action_id in self._tasks:
            return []  # a repeat: it is under way, and will end
        known = self._refused.get(action.action_id) or self._journal.final_of(action.action_id)
        if known is not None:
            return [known.model_copy(update={"wire": action.wire})]
        if len(self._tasks) >= OPEN_ACTIONS_MAX:
            text = f"{OPEN_ACTIONS_MAX} actions are under way; ask again when some have ended"
            return [self._refuse(refusal(action, Reason.OVERLOADED, text))]
        self._journal.accept(action, now.epoch_ms)
        self._trouble = None
        wait_until = now.monotonic + action.wait_s
        task = Task(action, now, wait_until=wait_until, entered=now.monotonic)
        return [task.status(), *self._admit(task, now)]

    def _refuse(self, final: ScalingStatus) -> ScalingStatus:
        """The final status of an action that is not accepted; remembered, so that a copy of it gets no other."""
        self._refused[final.action_id] = final
        self._exposition.ended(final)
        if len(self._refused) > REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        return final

    def _admit(self, task: Task, now: Instant) -> list[Output]:
        task.number = next(self._numbers)
        self._tasks[task.id] = task
        if task.action.target.empty:
            text = "nothing is asked for; name at least one limit in target"
            return self._end(task, ActionOutcome.REJECTED, Reason.INVALID_TARGET, text, now)
        unsupported = self._capabilities.refusal(task.action)
        if unsupported is not None:
            return self._end(task, ActionOutcome.REJECTED, Reason.UNSUPPORTED, unsupported, now)
        if task.action.dry_run:
            return self._begin(task, now)
        starts, out = self._take_place(task, now)
        if starts:
            out += self._begin(task, now)
        return out

    def _take_place(self, task: Task, now: Instant, *, granted: bool = False) -> tuple[bool, list[Output]]:
        """Give a task its place on its workload: whether it may go on, and what comes of those it displaces."""
        reconcile = self._reconciling.get(task.key)
        place = self._lanes.enter(task, granted=granted)
        out: list[Output] = []
        if place.set_back is not None:
            self._workflow.forget(place.set_back)
        for older in place.superseded:
            out += self._end(older, ActionOutcome.REJECTED, Reason.SUPERSEDED, SUPERSEDED, now)
        if reconcile is not None and task not in place.superseded:
            out += self._follow(reconcile, self._workflow.give_way(reconcile, now), now)
        return place.starts, out

    def _learn_name(self, task: Task, reply: ValidateReply, now: Instant) -> tuple[bool, list[Output]]:
        """Take an action that came with a container's id to the lane of its name; whether it may go on there."""
        task.begun = task.begun or reply.allowed
        if reply.workload_id in (task.name, task.action.workload_id):
            return True, []
        following = self._lanes.leave(task)
        task.workload = reply.workload_id
        ends = task.action.dry_run or reply.verdict is not None
        goes_on, out = (True, []) if ends else self._take_place(task, now, granted=reply.allowed)
        out += self._begin(following, now)
        return goes_on, out

    def _reconcile(self, told: Reconcile, now: Instant) -> list[Output]:
        if told.action_id in self._tasks:
            return []
        final = self._journal.final_of(told.action_id)
        first = self._lanes.running((told.node, told.workload_id))
        waits = first is not None and first.phase is Phase.WAITING  # and holds nothing
        if final is not None or (first is not None and first.reconcile is None and not waits):
            return [give_back(told)]
        if (told.node, told.workload_id) in self._reconciling or len(self._tasks) >= OPEN_ACTIONS_MAX:
            return []  # an earlier reconcile is about to end; this one is repeated
        task = task_of_reconcile(told, now)
        self._tasks[task.id] = self._reconciling[task.key] = task
        if first is None:
            self._lanes.enter(task)
        return [task.status(), *self._begin(task, now)]

    def _begin(self, task: Task | None, now: Instant) -> list[Output]:
        """Let a task start whose turn it is, if there is one."""
        return self._follow(task, self._workflow.begin(task, now), now) if task is not None else []

    def _reply(self, reply: Any, now: Instant) -> list[Output]:
        task = self._workflow.waiting_for(reply.in_reply_to)
        if task is None:
            return []  # answered before, given up, or somebody else's
        goes_on, out = self._learn_name(task, reply, now) if isinstance(reply, ValidateReply) else (True, [])
        if not goes_on:
            return out
        out += self._follow(task, self._workflow.answered(task, reply, now), now)
        runs = self._lanes.running(task.key) is task
        if task.reconcile is not None and runs and self._lanes.awaited(task.key):
            out += self._follow(task, self._workflow.give_way(task, now), now)
        return out

    def _capacity(self, told: NodeCapacity, now: Instant) -> list[Output]:
        """Let every action that waits for room on this node try again, oldest first."""
        before = self._available.get(told.node, Amount())
        self._available[told.node] = told.available
        out: list[Output] = []
        if told.available.cpu <= before.cpu and told.available.memory <= before.memory:
            return out
        for task in list(self._tasks.values()):
            waits = task.phase is Phase.WAITING and self._lanes.running(task.key) is task
            if waits and task.action.node == told.node and task.ending is None:
                out += self._follow(task, self._workflow.wake(task, now), now)
        return out

    def _info(self, told: NodeInfo, now: Instant) -> list[Output]:
        self._capabilities.heard(told)
        return []

    def _cleared(self, item: Cleared, now: Instant) -> list[Output]:
        if item.message is NodeInfo:
            self._capabilities.forget(item.values["node"])
        return []

    def _bad_request(self, bad: BadRequest, now: Instant) -> list[Output]:
        if bad.request is not ScalingAction or bad.identity["action_id"] in self._tasks:
            return []
        action_id = bad.identity["action_id"]
        known = self._refused.get(action_id) or self._journal.final_of(action_id)
        return [known.model_copy(update={"wire": bad.wire}) if known else self._refuse(unreadable(bad))]

    def _follow(self, task: Task, step: Sequence[Message] | ScalingStatus, now: Instant) -> list[Output]:
        """Publish what a step says; a final status ends the task and lets the next one start.

        Who only waits for room does not run, and holds up nobody who came after.
        """
        if isinstance(step, ScalingStatus):
            return self._close(task, step, now)
        out: list[Output] = list(step)
        if task.phase is Phase.WAITING and self._lanes.awaited(task.key):
            out += self._yield(task, now)
        return out

    def _yield(self, task: Task, now: Instant) -> list[Output]:
        """Let those go on who wait for a task that only waits for room; it ends if one of them is newer."""
        following = self._lanes.leave(task)
        _, out = self._take_place(task, now)
        out += self._begin(following, now)
        return out

    def _end(
        self, task: Task, outcome: ActionOutcome, reason: Reason | None, text: str, now: Instant
    ) -> list[Output]:
        return self._close(task, self._workflow.ended(task, outcome, reason, text, now), now)

    def _close(self, task: Task, final: ScalingStatus, now: Instant) -> list[Output]:
        """Write the ending down first; only then it is said, and the workload free for the next action."""
        self._workflow.forget(task)
        try:
            self._journal.end(task.action, task.ending or final, task.accepted.epoch_ms, now.epoch_ms)
        except StorageError as error:
            self._trouble = str(error)
            task.ending, task.due = task.ending or final, now.monotonic + PROBE_S
            return []
        self._trouble = None
        self._exposition.ended(task.ending or final)
        self._tasks.pop(task.id, None)
        if self._reconciling.get(task.key) is task:
            del self._reconciling[task.key]
        self._unsaid.add(task.id, now.monotonic)
        following = self._lanes.leave(task)
        out: list[Output] = [task.ending or final]
        out += self._begin(following, now)
        return out
