"""Whoever asks for scaling: a client that repeats an action, or an event, until it hears what came of it."""

from collections.abc import Sequence
from typing import Any

from broker.bus import Subscription
from components.component import Instant, Output
from components.repeater import Repeater
from schemas.performance import PerfDegraded, PerfOutcome
from schemas.scaling import ScalingAction, ScalingStatus
from schemas.topics import Role, topic_of


class Requester:
    """A client of the bus. It is never killed; what it must do and what it heard is kept here."""

    role = Role.CLI
    instance = "main"
    persistent = True
    problem = None

    def __init__(self) -> None:
        self._repeater = Repeater()
        self._due: list[tuple[str, ScalingAction | PerfDegraded]] = []
        self.asked: dict[str, ScalingAction] = {}
        self.finals: dict[str, ScalingStatus] = {}
        self.events: dict[str, PerfDegraded] = {}
        self.outcomes: dict[str, PerfOutcome] = {}

    @property
    def waiting(self) -> list[str]:
        """Actions without an end, and events without an outcome."""
        open_actions = [action_id for action_id in self.asked if action_id not in self.finals]
        return [*open_actions, *(event_id for event_id in self.events if event_id not in self.outcomes)]

    def ask(self, action: ScalingAction) -> None:
        """Have an action sent with the next tick."""
        self.asked[action.action_id] = action
        self._due.append((action.action_id, action))

    def notice(self, event: PerfDegraded) -> None:
        """Have an event sent, as MonitoringServer does."""
        self.events[event.event_id] = event
        self._due.append((event.event_id, event))

    def subscriptions(self) -> Sequence[Subscription]:
        """Statuses and outcomes."""
        return [Subscription(topic_of(one).filter()) for one in (ScalingStatus, PerfOutcome)]

    def start(self, now: Instant) -> list[Output]:
        """Nothing."""
        return []

    def connected(self, now: Instant) -> list[Output]:
        """Repeat at once."""
        return list(self._repeater.repeat_all(now.monotonic))

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """Note endings."""
        if isinstance(item, ScalingStatus) and item.final and item.action_id in self.asked:
            self.finals.setdefault(item.action_id, item)
            self._repeater.answered(item.action_id)
        elif isinstance(item, PerfOutcome):
            self.outcomes.setdefault(item.event_id, item)
            self._repeater.answered(item.event_id)
        return []

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """Nothing to add."""
        return None

    def tick(self, now: Instant) -> list[Output]:
        """Send what is due."""
        due, self._due = self._due, []
        first = [self._repeater.send(key, message, now.monotonic) for key, message in due]
        return [*self._repeater.due(now.monotonic), *first]

    def close(self) -> None:
        """Nothing."""
