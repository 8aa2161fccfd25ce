"""PolicyManager: performance events in, scaling actions and outcomes out."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from prometheus_client import Metric

from broker.bus import Subscription
from components.component import Instant, Output
from components.durations import Durations
from components.pauses import Pause, after, pause_of
from components.policy_manager.decision import Facts, NotRequired, Scale, back, decide
from components.policy_manager.exposition import EVENT_TO_VERIFIED, families
from components.policy_manager.journal import Journal
from components.policy_manager.messages import (
    Asked,
    Key,
    asked,
    failure,
    key_of,
    not_required,
    outcome_of,
    scaling_action,
)
from components.policy_manager.standing import IN_FORCE, Standing
from components.policy_manager.unwritten import Unwritten
from components.policy_manager.workloads import Workloads
from components.repeater import Repeater
from components.settings import PolicySettings, Settings
from components.storage import StorageError
from schemas.codec import BadRequest, Cleared
from schemas.enums import ActionOutcome, CauseType, Reason
from schemas.performance import PerfDegraded, PerfEvent, PerfOutcome, PerfRecovered
from schemas.resources import ResourceState
from schemas.scaling import ScalingAction, ScalingControl, ScalingStatus
from schemas.topics import Role, topic_of

STATE_GRACE_S: Final = 2.0
"""After a connection an event of a workload without state waits so long: the retained states come behind it."""
WAITING_MAX: Final = 10_000
"""Events that wait so, and outcomes that the journal has yet to take, at most."""
CHORE_S: Final = 1.0
PRUNE_S: Final = 3600.0
KEEP_S: Final = 86_400.0

_BY_HAND: Final = frozenset({CauseType.CLI, CauseType.EXTERNAL})


class PolicyManager:
    """Decides each event once, journals the decision, then says it; and says it again when the event comes again.

    One open action per workload, repeated until its final status comes, which is then the event's outcome.
    """

    role = Role.POLICY_MANAGER
    instance = "main"
    persistent = True

    def __init__(self, settings: Settings, journal: Journal, new_id: Callable[[], str]) -> None:
        self.decisions_total: Counter[str] = Counter()
        """By SCALE, RESTORE, the reason why not, or NONE."""
        self.workloads = Workloads()
        self.pauses: tuple[Pause, ...] = ()
        self._settings = settings
        self._journal = journal
        self._new_id = new_id
        self._problem: str | None = None
        self._open: dict[str, ScalingAction] = {}
        self._open_of: dict[Key, str] = {}
        self._asked_at: dict[str, float] = {}
        self.durations = Durations()
        self._repeater = Repeater()
        self._held: dict[str, PerfEvent] = {}
        """Events that wait for the state of their workload."""
        self._unwritten = Unwritten()
        self._settled_at = self._chore_at = self._prune_at = float("-inf")
        self._handlers: dict[type, Callable[[Any, Instant], list[Output]]] = {
            PerfDegraded: self._event,
            PerfRecovered: self._event,
            ScalingStatus: self._status,
            ResourceState: self._state,
            ScalingControl: self._control,
            Cleared: self._cleared,
            BadRequest: self._unreadable,
        }

    @property
    def problem(self) -> str | None:
        """What is wrong with the journal; None: nothing."""
        return self._problem

    @property
    def open_actions(self) -> int:
        """Actions that have not ended."""
        return len(self._open)

    def subscriptions(self) -> Sequence[Subscription]:
        """Performance events, how actions go, what is in force, and the switch for people."""
        heard = (PerfDegraded, PerfRecovered, ScalingStatus, ResourceState, ScalingControl)
        return [Subscription(topic_of(message).filter()) for message in heard]

    def start(self, now: Instant) -> list[Output]:
        """Read the journal; open actions are said when connected."""
        self.pauses = self._journal.pauses()
        for key, standing in self._journal.standings(now).items():
            self.workloads.stand(key, standing)
        for action in self._journal.open_actions():
            self._remember(action, now)
        return []

    def connected(self, now: Instant) -> list[Output]:
        """Open actions again: they, or their final status, may have been lost with the connection."""
        self._settled_at = now.monotonic + STATE_GRACE_S
        return list(self._repeater.repeat_all(now.monotonic))

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """Take an event, a status, a state, or the switch. Raises StorageError, and then nothing has changed."""
        handler = self._handlers.get(type(item))
        try:
            return handler(item, now) if handler else []
        except StorageError as error:
            self._note(error)
            raise

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """Answer an event that cannot be decided; what comes again by itself needs no answer."""
        if isinstance(item, PerfEvent):
            reason = Reason.STORAGE_ERROR if isinstance(error, StorageError) else None
            return self._fail(asked(item), reason, f"{type(error).__name__}: {error}", now)
        if isinstance(item, ScalingControl) and isinstance(error, StorageError):
            self.pauses = after(self.pauses, item)  # a person's stop holds at once, written down or not
            self._unwritten.pauses = True
            return []
        return [] if isinstance(item, ScalingStatus) else None

    def tick(self, now: Instant) -> list[Output]:
        """Repeat open actions, decide events that waited, restore baselines, tidy the journal."""
        at = now.monotonic
        said: list[Output] = list(self._repeater.due(at))
        chores = at >= self._chore_at
        try:
            if self._held and (chores or self._problem is None):
                self._decide_held(said, now)
            if chores:
                self._chore_at = at + CHORE_S
                self._write_late(now)
                self._restore_due(said, now)
            if at >= self._prune_at:
                self._prune_at = at + PRUNE_S
                self._prune(now)
        except StorageError as error:
            self._note(error)
        return said

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def samples(self) -> Iterable[Metric]:
        """Decisions, open actions and pauses."""
        return families(self)

    # Events

    def _event(self, event: PerfEvent, now: Instant) -> list[Output]:
        said = self._said_before(asked(event))
        if said is not None:
            return said
        if self._must_wait(event, now):
            self._held[event.event_id] = event
            return []
        return self._decide(event, now)

    def _said_before(self, event: Asked) -> list[Output] | None:
        """The outcome of an event that was decided, nothing while it is open; None: it is new."""
        if event.event_id in self._held:
            return []
        outcome = self._unwritten.outcomes.get(event.event_id)
        if outcome is None:
            decided = self._journal.event(event.event_id)
            if decided is None:
                return None
            outcome = decided.outcome
        return [] if outcome is None else [outcome.model_copy(update={"wire": event.wire})]

    def _must_wait(self, event: PerfEvent, now: Instant) -> bool:
        """Whether the state of its workload may still be on its way."""
        unknown = isinstance(event, PerfDegraded) and self.workloads.state(key_of(event)) is None
        return unknown and now.monotonic < self._settled_at and len(self._held) < WAITING_MAX

    def _decide_held(self, said: list[Output], now: Instant) -> None:
        for event_id, event in list(self._held.items()):
            if not self._must_wait(event, now):
                said += self._decide(event, now)
                del self._held[event_id]

    def _decide(self, event: PerfEvent, now: Instant) -> list[Output]:
        key = key_of(event)
        standing = self.workloads.standing(key)
        policy = self._settings.policy_of(event.workload_id)
        decision = decide(self._facts(event, policy, standing, now))
        message: ScalingAction | PerfOutcome
        if isinstance(decision, Scale):
            message = scaling_action(key, event.event_id, CauseType.PERF, decision, now)
        else:
            message = not_required(event, decision, self._new_id(), now)
        then = standing.after_event(event, now, restores=policy.restore_after_s is not None)
        self._journal.decide(key, event.event_id, event.wire, message, then if then != standing else None, now)
        if then != standing:
            self.workloads.stand(key, then)
        capped = isinstance(decision, NotRequired) and decision.reason is Reason.AT_MAXIMUM
        self.workloads.decided(key, capped=capped)
        if isinstance(message, ScalingAction):
            self.decisions_total["SCALE"] += 1
            return [self._remember(message, now)]
        self.decisions_total[message.reason or "NONE"] += 1
        return [message]

    def _facts(self, event: PerfEvent, policy: PolicySettings, standing: Standing, now: Instant) -> Facts:
        key = key_of(event)
        pause = pause_of(self.pauses, *key)
        return Facts(
            event=event,
            policy=policy,
            state=self.workloads.state(key),
            paused=None if pause is None else str(pause),
            open_action=self._open_of.get(key),
            cooldown_left_s=standing.cooldown_left(policy.cooldown_s, now),
        )

    def _unreadable(self, bad: BadRequest, now: Instant) -> list[Output]:
        """An event with a bad value ends at once, so that its sender need not repeat it."""
        is_event = issubclass(bad.request, PerfEvent)
        return (self._fail(asked(bad), bad.reason, bad.text, now) or []) if is_event else []

    def _fail(self, event: Asked, reason: Reason | None, text: str, now: Instant) -> list[Output] | None:
        """FAILED for an event that surely was not decided; nothing for one of which that cannot be known."""
        try:
            said = self._said_before(event)
        except StorageError:
            return []  # it comes again
        if said is not None:
            return said
        if len(self._unwritten.outcomes) >= WAITING_MAX:
            return None
        outcome = self._unwritten.outcomes[event.event_id] = failure(event, reason, text, self._new_id(), now)
        return [outcome]

    # Actions

    def _remember(self, action: ScalingAction, now: Instant) -> ScalingAction:
        """Note an action as open, to be repeated until its final status comes."""
        self._open[action.action_id] = action
        self._open_of[key_of(action)] = action.action_id
        self._asked_at[action.action_id] = now.monotonic
        self._repeater.send(action.action_id, action, now.monotonic)
        return action

    def _status(self, status: ScalingStatus, now: Instant) -> list[Output]:
        action = self._open.get(status.action_id)
        if status.outcome is None:
            return []
        if action is None:
            return self._others_action(status)
        key = key_of(action)
        outcome = outcome_of(action, status, status.outcome, self._new_id(), now)
        standing = self.workloads.standing(key).after_action(action, status.outcome, now)
        wire = self._journal.end(key, action.action_id, outcome, standing)
        self.workloads.stand(key, standing)
        self._repeater.answered(action.action_id)
        del self._open[action.action_id]
        del self._open_of[key]
        asked_at = self._asked_at.pop(action.action_id, None)
        for_event = action.cause.type is CauseType.PERF and status.outcome is ActionOutcome.COMPLETED
        if asked_at is not None and for_event:
            self.durations.observe(EVENT_TO_VERIFIED, now.monotonic - asked_at)
        return [] if outcome is None else [outcome.model_copy(update={"wire": wire})]

    def _others_action(self, status: ScalingStatus) -> list[Output]:
        """Limits that a person chose are no scaling of ours: nothing returns to what was before them."""
        key = key_of(status)
        standing = self.workloads.standing(key)
        chosen = status.outcome in IN_FORCE and status.cause.type in _BY_HAND and not status.dry_run
        if chosen and standing.baseline is not None:
            then = Standing(ended=standing.ended)
            self._journal.stand(key, then)
            self.workloads.stand(key, then)
        return []

    def _restore_due(self, said: list[Output], now: Instant) -> None:
        for key in self.workloads.restoring():
            state, standing = self.workloads.state(key), self.workloads.standing(key)
            held_back = key in self._open_of or pause_of(self.pauses, *key) is not None
            after_s = self._settings.policy_of(key[1]).restore_after_s
            if state is None or held_back or not standing.calm_for(after_s, now):
                continue
            said += self._restore(key, standing, state, now)

    def _restore(self, key: Key, standing: Standing, state: ResourceState, now: Instant) -> list[Output]:
        """Back to the baseline, as far as the limits are above it."""
        scale = back(standing.baseline, self._settings.policy_of(key[1]), state)
        if scale is None:
            return []
        then = standing.settled()
        if scale.target.empty:
            self._journal.stand(key, then)
            self.workloads.stand(key, then)
            return []
        action = scaling_action(key, standing.recovered_event, CauseType.RESTORE, scale, now)
        self._journal.begin(key, action, then)
        self.workloads.stand(key, then)
        self.decisions_total["RESTORE"] += 1
        return [self._remember(action, now)]

    # What is known, and chores

    def _state(self, state: ResourceState, _now: Instant) -> list[Output]:
        self.workloads.take(state)
        return []

    def _control(self, control: ScalingControl, _now: Instant) -> list[Output]:
        pauses = after(self.pauses, control)
        if pauses != self.pauses:
            self._journal.pause(pauses)
            self.pauses = pauses
            self._unwritten.pauses = False
        return []

    def _cleared(self, item: Cleared, now: Instant) -> list[Output]:
        if item.message is ResourceState:
            self.workloads.gone((item.values["node"], item.values["workload_id"]))
        elif item.message is ScalingControl:
            return self._control(ScalingControl(paused=False), now)
        return []

    def _note(self, error: StorageError) -> None:
        self._problem = f"the journal cannot be used: {error}"

    def _write_late(self, now: Instant) -> None:
        """Put into the journal what it could not take before; when it takes it, all is well again."""
        if self._problem is not None or self._unwritten.outcomes:
            self._unwritten.write(self._journal, self.pauses, now)
            self._problem = None

    def _prune(self, now: Instant) -> None:
        forgotten = self.workloads.forgettable(now, KEEP_S)
        self._journal.prune(now.epoch_ms - round(KEEP_S * 1000), forgotten)
        self.workloads.forget(forgotten)
