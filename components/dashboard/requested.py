"""What the form asked for: said again until its final status comes, or until nobody can be expected to answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from components.component import Instant
from components.dashboard.items import AskError
from components.repeater import Repeater
from schemas.message import Message
from schemas.scaling import ScalingAction, ScalingStatus

OPEN_MAX: Final = 16
"""Actions of the form under way at a time."""

PATIENCE_S: Final = 120.0
"""How long an action is repeated beyond the wait that it allows."""

KEPT_MAX: Final = 64


@dataclass
class _Open:
    until: float
    row: dict[str, Any]


class Requested:
    """Actions of the form. Their statuses are in the picture; here is only what the picture cannot know."""

    def __init__(self) -> None:
        self._repeater = Repeater()
        self._open: dict[str, _Open] = {}
        self._given_up: dict[str, dict[str, Any]] = {}

    def send(self, action: ScalingAction, now: Instant) -> Message:
        """Begin to ask. Raises AskError when too much is under way."""
        if len(self._open) >= OPEN_MAX:
            raise AskError(f"{OPEN_MAX} actions of this page are under way already; wait for one to end", 429)
        row = {
            "action_id": action.action_id,
            "node": action.node,
            "workload": action.workload_id,
            "dry_run": action.dry_run,
            "since": now.epoch_ms,
            "answered": False,
            "given_up": False,
        }
        self._open[action.action_id] = _Open(now.monotonic + action.wait_s + PATIENCE_S, row)
        return self._repeater.send(action.action_id, action, now.monotonic)

    def hear(self, status: ScalingStatus) -> None:
        """Note an answer; the final one ends the repeating."""
        found = self._open.get(status.action_id)
        if found is None:
            return
        found.row = {**found.row, "answered": True}
        if status.final:
            self._repeater.answered(status.action_id)
            del self._open[status.action_id]

    def due(self, now: Instant) -> Iterable[Message]:
        """What is to be said again now."""
        for action_id, one in list(self._open.items()):
            if now.monotonic >= one.until:
                self._repeater.answered(action_id)
                del self._open[action_id]
                self._given_up[action_id] = {**one.row, "given_up": True}
        while len(self._given_up) > KEPT_MAX:
            del self._given_up[next(iter(self._given_up))]
        return self._repeater.due(now.monotonic)

    def again(self, now: float) -> Iterable[Message]:
        """All of it at once: the connection was lost in between."""
        return self._repeater.repeat_all(now)

    def rows(self) -> dict[str, dict[str, Any]]:
        """For the page, by action id."""
        return {**self._given_up, **{action_id: one.row for action_id, one in self._open.items()}}
