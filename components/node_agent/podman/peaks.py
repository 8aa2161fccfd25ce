"""The most memory that containers were seen to use of late; one whose use moves needs that room again at once.

On cgroup v2 the kernel kills what does not fit into a lowered limit, a moment later too, and systemd then ends the
whole container. The agent looks at every container each metrics interval; these looks are remembered.
"""

import threading
from collections import deque
from typing import Final

REMEMBERED_S: Final = 60.0
"""How long a look counts."""
CONTAINERS_MAX: Final = 20_000


class RecentPeaks:
    """A sliding maximum for each run of a container. Thread-safe, and bounded."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, int], deque[tuple[float, int]]] = {}
        self._lock = threading.Lock()

    def seen(self, run: tuple[str, int], used: int, now: float) -> int:
        """Remember that a run (id and pid of a container) uses so much at `now`, seconds; the most of late."""
        with self._lock:
            looks = self._looks.pop(run, None) or deque()
            while looks and looks[-1][1] <= used:
                looks.pop()  # never again the largest
            looks.append((now, used))
            while looks[0][0] < now - REMEMBERED_S:
                looks.popleft()
            self._looks[run] = looks
            if len(self._looks) > CONTAINERS_MAX:
                del self._looks[next(iter(self._looks))]
            return looks[0][1]
