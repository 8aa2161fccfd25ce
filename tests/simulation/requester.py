"""Whoever asks for scaling: a client that repeats an action until its final status comes."""

from collections.abc import Sequence
from typing import Any

from broker.bus import Subscription
from components.component import Instant, Output
from components.repeater import Repeater
from schemas.scaling import ScalingAction, ScalingStatus
from schemas.topics import Role, topic_of


class Requester:
    """A client of the bus. It is never killed; what it must do and what it heard is kept here."""

    role = Role.CLI
    instance = "main"
    persistent = True
    healthy = None

    def __init__(self) -> None:
        self._repeater = Repeater()
        self._due: list[ScalingAction] = []
        self.asked: dict[str, ScalingAction] = {}
        self.finals: dict[str, ScalingStatus] = {}

    @property
    def waiting(self) -> list[str]:
        """Actions without an end."""
        return [action_id for action_id in self.asked if action_id not in self.finals]

    def ask(self, action: ScalingAction) -> None:
        """Have an action sent with the next tick."""
        self.asked[action.action_id] = action
        self._due.append(action)

    def subscriptions(self) -> Sequence[Subscription]:
        """Statuses."""
        return [Subscription(topic_of(ScalingStatus).filter())]

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
        return []

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """Nothing to add."""
        return None

    def tick(self, now: Instant) -> list[Output]:
        """Send what is due."""
        out: list[Output] = list(self._repeater.due(now.monotonic))
        for action in self._due:
            out.append(self._repeater.send(action.action_id, action, now.monotonic))
        self._due.clear()
        return out

    def close(self) -> None:
        """Nothing."""
