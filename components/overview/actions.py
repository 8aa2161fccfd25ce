"""Actions under way, and those that ended a moment ago."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from schemas.enums import Phase
from schemas.limits import Limits
from schemas.scaling import ScalingAction, ScalingStatus

OPEN_MAX: Final = 10_000
"""As many as ActionController takes."""

ENDED_MAX: Final = 200
DOUBT_MS: Final = 60_000
"""How long an action is shown of which nothing was heard since the connection came back."""

_WAITING: Final = (Phase.ACCEPTED, Phase.WAITING)


@dataclass(frozen=True)
class ActionSeen:
    """One action: its latest status, what it is to reach if that was heard, and since when (own clock, UTC ms)."""

    status: ScalingStatus
    began_ms: int
    phase_since_ms: int
    target: Limits | None = None
    doubted_ms: int | None = None
    """When the connection came back last, since which nothing was heard of it."""

    @property
    def waiting(self) -> bool:
        """Whether it waits: for its turn, or for room."""
        return self.status.phase in _WAITING


class Actions:
    """All actions heard of that have not ended, and the last that did."""

    def __init__(self) -> None:
        self._open: dict[str, ActionSeen] = {}
        self._targets: dict[str, Limits] = {}
        self._ended: deque[ActionSeen] = deque(maxlen=ENDED_MAX)
        self._ended_ids: deque[str] = deque(maxlen=ENDED_MAX)

    def asked(self, action: ScalingAction, _now_ms: int) -> None:
        """Remember what an action is to reach; that it is under way its status tells."""
        if action.action_id not in self._targets and len(self._targets) >= ENDED_MAX:
            self._targets.pop(next(iter(self._targets)))
        self._targets[action.action_id] = action.target

    def hear(self, status: ScalingStatus, now_ms: int) -> None:
        """Take in how far an action is."""
        known = self._open.get(status.action_id)
        spent_ms = round(sum(status.timings_ms.values()))
        began_ms = known.began_ms if known else now_ms - spent_ms
        same_phase = known is not None and known.status.phase is status.phase
        since_ms = known.phase_since_ms if known is not None and same_phase else now_ms
        target = self._targets.get(status.action_id) or (known.target if known else None)
        seen = ActionSeen(status, began_ms, since_ms, target or status.desired)
        if status.final:
            self._open.pop(status.action_id, None)
            self._targets.pop(status.action_id, None)
            if status.action_id not in self._ended_ids:
                self._ended_ids.append(status.action_id)
                self._ended.append(seen)
        elif status.action_id not in self._ended_ids and (known or len(self._open) < OPEN_MAX):
            self._open[status.action_id] = seen

    def accepted(self, action: ScalingAction, at_ms: int, status: ScalingStatus) -> None:
        """An action known from the journal of who carries it out, with a status that says so much."""
        if action.action_id not in self._open and len(self._open) < OPEN_MAX:
            self._open[action.action_id] = ActionSeen(status, at_ms, at_ms, action.target)

    def doubt(self, now_ms: int) -> None:
        """Ends may have been missed: what is not heard of again is dropped after a while."""
        for action_id, seen in self._open.items():
            self._open[action_id] = replace(seen, doubted_ms=now_ms)

    def running(self, now_ms: int = 0) -> list[ActionSeen]:
        """Actions at work, the oldest first."""
        return [seen for seen in self._present(now_ms) if not seen.waiting]

    def waiting(self, now_ms: int = 0) -> list[ActionSeen]:
        """Actions that wait for their turn or for room, the oldest first."""
        return [seen for seen in self._present(now_ms) if seen.waiting]

    def ended(self) -> list[ActionSeen]:
        """The last that ended, the latest first; `phase_since_ms` is when."""
        return list(reversed(self._ended))

    def statuses(self) -> list[ScalingStatus]:
        """The latest status of every action under way and of the last that ended."""
        return [seen.status for seen in (*self._open.values(), *self._ended)]

    def __len__(self) -> int:
        return len(self._open)

    def _present(self, now_ms: int) -> Iterator[ActionSeen]:
        gone = [
            action_id
            for action_id, seen in self._open.items()
            if seen.doubted_ms is not None and now_ms - seen.doubted_ms > DOUBT_MS
        ]
        for action_id in gone:
            del self._open[action_id]
        return iter(sorted(self._open.values(), key=lambda seen: seen.began_ms))
