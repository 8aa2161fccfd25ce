"""How a workload stands with PolicyManager: when its last action ended, from what limits it came."""

from dataclasses import dataclass, replace
from typing import Final

from components.component import Instant
from schemas.enums import ActionOutcome, CauseType
from schemas.limits import Limits
from schemas.performance import PerfEvent, PerfRecovered
from schemas.scaling import ScalingAction

IN_FORCE: Final = frozenset({ActionOutcome.COMPLETED, ActionOutcome.INCONSISTENT})
"""Outcomes that leave new limits, or some of them, in force."""


@dataclass(frozen=True)
class Standing:
    """What is remembered of one workload, across restarts."""

    ended: Instant | None = None
    """When its last action ended; the cooldown begins there."""
    baseline: Limits | None = None
    """Its limits before the first scaling."""
    recovered: Instant | None = None
    """Since when a return to the baseline is pending; None: none is."""
    recovered_event: str = ""
    """The event that told the recovery."""

    def cooldown_left(self, cooldown_s: float, now: Instant) -> float:
        """Seconds."""
        return 0.0 if self.ended is None else max(0.0, cooldown_s - (now.monotonic - self.ended.monotonic))

    def after_event(self, event: PerfEvent, now: Instant, *, restores: bool) -> "Standing":
        """A recovery begins the wait for a return to the baseline, if there is one; a degradation ends it."""
        if isinstance(event, PerfRecovered) and restores and self.baseline is not None:
            return replace(self, recovered=now, recovered_event=event.event_id)
        return self.settled()

    def after_action(self, action: ScalingAction, outcome: ActionOutcome, now: Instant) -> "Standing":
        """The cooldown begins. The first scaling leaves its baseline, a return to it removes it."""
        ended = replace(self, ended=now)
        if action.cause.type is CauseType.RESTORE:
            return replace(ended, baseline=None) if outcome is ActionOutcome.COMPLETED else ended
        if self.baseline is None and outcome in IN_FORCE and action.current is not None:
            return replace(ended, baseline=action.current.only({"cpu_limit", "memory_limit"}))
        return ended

    def calm_for(self, seconds: float | None, now: Instant) -> bool:
        """Whether recovery has lasted so long; never for None."""
        if seconds is None or self.recovered is None:
            return False
        return now.monotonic - self.recovered.monotonic >= seconds

    def settled(self) -> "Standing":
        """Without a pending return to the baseline."""
        return replace(self, recovered=None, recovered_event="")

    def forgettable(self, now: Instant, keep_s: float, *, known: bool) -> bool:
        """Whether nothing happened for `keep_s`, and there is no baseline of a workload that is still known."""
        moments = [moment for moment in (self.ended, self.recovered) if moment is not None]
        silent = all(now.monotonic - moment.monotonic >= keep_s for moment in moments)
        return silent and not (known and self.baseline is not None)


def moment(epoch_ms: int, now: Instant) -> Instant:
    """A moment known by the wall clock, on the monotonic clock of this process.

    A wall clock that was set back since makes it now, never the future.
    """
    return Instant(now.monotonic - max(0, now.epoch_ms - epoch_ms) / 1000, epoch_ms)
