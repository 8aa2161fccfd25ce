"""The scheduler: one heap of things to come, one seeded generator, one clock that only this module moves."""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

HISTORY_KEPT: Final = 2000
EPOCH_S: Final = 1_750_000_000
"""UTC seconds at the beginning of every simulation."""


class Violation(BaseException):
    """An invariant does not hold. No Exception, since shells survive those."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"invariant {invariant}: {text}")
        self.invariant = invariant


@dataclass(eq=False)
class Machine:
    """A computer with a clock of its own, which people and NTP set forth and back."""

    name: str
    epoch_offset: float = 0.0
    set_back: bool = False
    """Whether its clock ever went backwards."""

    def jump(self, seconds: float) -> None:
        """Set the clock forth, or back."""
        self.epoch_offset += seconds
        self.set_back = self.set_back or seconds < 0


@dataclass
class Note:
    """One line of the history; written out only when somebody reads it."""

    number: int
    at: float
    text: str
    things: tuple[Any, ...] = ()


@dataclass
class World:
    """Everything that the parts of one simulation share."""

    seed: int
    rng: random.Random = field(init=False)
    now: float = 0.0
    """Seconds of true time since the beginning."""
    history: deque[Note] = field(default_factory=lambda: deque(maxlen=HISTORY_KEPT))
    listener: Callable[[Note], None] | None = None

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._notes = itertools.count(1)
        self.events = 0

    def at(self, when: float, what: Callable[..., None], *args: Any) -> None:
        """Have `what` done at a moment of true time."""
        heapq.heappush(self._heap, (max(when, self.now), next(self._order), what, args))

    def after(self, delay: float, what: Callable[..., None], *args: Any) -> None:
        """Have `what` done `delay` seconds from now."""
        self.at(self.now + delay, what, *args)

    def run(self, until: float) -> None:
        """Let time pass, doing everything that is due in between. Raises Violation."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, what, args = heapq.heappop(self._heap)
            self.events += 1
            what(*args)
        self.now = until

    def note(self, text: str, *things: Any) -> None:
        """Write a line of history; `text` is a format for `things`."""
        note = Note(next(self._notes), self.now, text, things)
        self.history.append(note)
        if self.listener is not None:
            self.listener(note)

    def chance(self, probability: float) -> bool:
        """Whether it happens this time."""
        return self.rng.random() < probability

    def epoch(self, machine: Machine) -> float:
        """What a machine takes for UTC seconds."""
        return EPOCH_S + self.now + machine.epoch_offset
