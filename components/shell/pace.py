"""When a worker ticks: often while something happens, seldom while nothing does."""

from typing import Final

TICK_S: Final = 0.05
IDLE_TICK_S: Final = 0.25
"""The longest pause. A process with 200 idle agents would else spend a third of a processor on ticks."""
GROWTH: Final = 1.5


class Pace:
    """The moment of the next tick, on the monotonic clock in seconds."""

    def __init__(self, now: float) -> None:
        self.next_at = now
        self._pause_s = TICK_S

    def busy(self, now: float) -> None:
        """Something arrived, and may make something due soon."""
        self._pause_s = TICK_S
        self.next_at = min(self.next_at, now + TICK_S)

    def ticked(self, now: float) -> None:
        """A tick is over."""
        self.next_at = now + self._pause_s
        self._pause_s = min(self._pause_s * GROWTH, IDLE_TICK_S)
