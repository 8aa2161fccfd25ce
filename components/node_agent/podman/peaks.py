"""The most memory that containers used of late; one whose use moves needs that room again at once.

On cgroup v2 the kernel kills what does not fit into a lowered limit, a moment later too, and systemd then ends the
whole container. The agent looks at every container each metrics interval; these looks are remembered. What happens
between two looks, or before the first, shows in the kernel's own mark of the highest use, where it has one.
"""

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Final

REMEMBERED_S: Final = 60.0
"""How long a look counts."""
CONTAINERS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of a cgroup, bytes."""

    used: int
    """In use, without the page cache that can be dropped."""
    droppable: int = 0
    """The page cache that can be dropped."""
    highest: int = 0
    """The most ever in use, with all page cache; 0: the kernel does not tell."""


@dataclass(slots=True)
class _Looks:
    highest: int = 0
    largest: deque[tuple[float, int]] = field(default_factory=deque)
    """When how much was used: only what no later look exceeds, so that the first is the most."""


class RecentPeaks:
    """A sliding maximum for each run of a container. Thread-safe, and bounded."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], _Looks] = {}
        self._lock = threading.Lock()

    def seen(self, run: tuple[str, int], use: MemoryUse, now: float) -> int:
        """Remember what a run (id and pid of a container) uses at `now`, seconds; the most of late, bytes."""
        with self._lock:
            looks = self._runs.pop(run, None) or _Looks()
            needed = use.used
            if use.highest > looks.highest:  # since the last look; how much of that was page cache, nobody knows
                needed = max(needed, use.highest - use.droppable)
                looks.highest = use.highest
            while looks.largest and looks.largest[-1][1] <= needed:
                looks.largest.pop()
            looks.largest.append((now, needed))
            while looks.largest[0][0] < now - REMEMBERED_S:
                looks.largest.popleft()
            self._runs[run] = looks
            if len(self._runs) > CONTAINERS_MAX:
                del self._runs[next(iter(self._runs))]
            return looks.largest[0][1]
