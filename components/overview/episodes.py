"""Which workloads perform badly now: from the first event of an episode to its end, heard or not.

MonitoringServer says a degradation anew every `repeat_s` while it lasts, and its end when it measured that. It
says no end when it restarts, when the agent of a node goes away, or when nobody measures the workload any more.
"""

from collections.abc import Container
from typing import Final

from components.overview.actions import DOUBT_MS
from components.overview.names import WORKLOADS_MAX, Key
from components.overview.newest import SILENT_MS, Newest, Recent
from schemas.performance import PerfDegraded, PerfRecovered

OVER_MAX: Final = 5_000
"""Episodes that are remembered to be over: their events may still be repeated."""


class Episodes:
    """Degradations that last, as far as one can know."""

    def __init__(self, repeat_s: float = 0.0) -> None:
        """`repeat_s`: how often MonitoringServer says a degradation anew, where that is known."""
        self.lasting: Newest[Key, PerfDegraded] = Newest(WORKLOADS_MAX)
        """The last event of each."""
        self._over: Recent[str] = Recent(OVER_MAX)
        self._doubted: dict[Key, int] = {}
        """Until when those are believed that must be said again."""
        self._doubt_ms = max(DOUBT_MS, round(2 * repeat_s * 1000))

    def hear(self, event: PerfDegraded | PerfRecovered, now_ms: int, *, repeated: bool = False) -> bool:
        """Take in an event; `repeated`: it was heard before. Whether there was room."""
        key = (event.node, event.workload_id)
        known = self.lasting.get(key)
        of_known = known is not None and known.episode_id == event.episode_id
        if isinstance(event, PerfRecovered):
            self._over.add(event.episode_id)
            if of_known:
                self.end(key)
            return True
        if event.episode_id in self._over:
            return True
        if of_known or not repeated:
            self._doubted.pop(key, None)
        return repeated or self.lasting.put(key, event, now_ms)

    def end(self, key: Key) -> None:
        """It is well, or nobody watches it any more."""
        self.lasting.pop(key)
        self._doubted.pop(key, None)

    def end_on(self, node: str) -> None:
        """The node went away, and the watch over all on it with it."""
        for key in [key for key in self.lasting if key[0] == node]:
            self.end(key)

    def doubt(self, now_ms: int) -> None:
        """Any may have ended unheard: those that are not said again within a minute, or twice `repeat_s`, did."""
        for key in self.lasting:
            self._doubted[key] = now_ms + self._doubt_ms

    def forget_silent(self, now_ms: int, measured: Container[Key]) -> None:
        """Forget what was doubted and not said again, and what nobody measures and spoke of for long."""
        doubted = [key for key, until_ms in self._doubted.items() if now_ms >= until_ms]
        unwatched = [key for key in self.lasting.silent(now_ms - SILENT_MS) if key not in measured]
        for key in (*doubted, *unwatched):
            self.end(key)
