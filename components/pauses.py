"""Which workloads automatic scaling is paused for: everything, a node, a workload, or one workload of one node."""

from dataclasses import dataclass
from typing import Final

from schemas.scaling import ScalingControl

PAUSES_MAX: Final = 1_000


@dataclass(frozen=True)
class Pause:
    """One word of a person: paused, or not, for what it names (None: all)."""

    paused: bool
    node: str | None = None
    workload: str | None = None

    def __str__(self) -> str:
        where = f"on {self.node}" if self.node else "everywhere"
        return f"for {self.workload} {where}" if self.workload else where

    def holds(self, node: str, workload: str) -> bool:
        """Whether it is about this workload."""
        return self.node in (None, node) and self.workload in (None, workload)

    def covers(self, other: "Pause") -> bool:
        """Whether it is about all that `other` is about."""
        return self.node in (None, other.node) and self.workload in (None, other.workload)

    def meets(self, other: "Pause") -> bool:
        """Whether any workload can be one that both are about."""
        same_node = self.node is None or other.node in (None, self.node)
        return same_node and (self.workload is None or other.workload in (None, self.workload))


class TooManyPausesError(Exception):
    """One more would not be remembered."""


def after(pauses: tuple[Pause, ...], control: ScalingControl) -> tuple[Pause, ...]:
    """The pauses after one more word. The later wins; what it covers is forgotten.

    So "resume node a" after "pause everything" leaves all but `a` paused, and hearing a word again changes
    nothing. Raises TooManyPausesError above 1,000.
    """
    newest = Pause(control.paused, control.node, control.workload)
    kept = tuple(pause for pause in pauses if not newest.covers(pause))
    if not newest.paused and not any(pause.paused and newest.meets(pause) for pause in kept):
        return kept
    if len(kept) >= PAUSES_MAX:
        raise TooManyPausesError(f"{PAUSES_MAX} pauses are in force already; resume some of them first")
    return (*kept, newest)


def pause_of(pauses: tuple[Pause, ...], node: str, workload: str) -> Pause | None:
    """The pause that holds back a workload; None: none does."""
    found = next((pause for pause in reversed(pauses) if pause.holds(node, workload)), None)
    return found if found is not None and found.paused else None
