"""How long the phases of scalings take, as one Prometheus histogram that several components add to."""

from bisect import bisect_left
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric

BUCKETS_S: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)


class Durations:
    """A histogram per phase, seconds."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, phase: str, seconds: float) -> None:
        """Count one duration."""
        counts = self._counts.setdefault(phase, [0] * (len(BUCKETS_S) + 1))
        counts[bisect_left(BUCKETS_S, seconds)] += 1
        self._sums[phase] = self._sums.get(phase, 0.0) + seconds

    def family(self) -> Metric:
        """As Prometheus reads it: cumulative buckets."""
        family = HistogramMetricFamily(
            "piriscale_scaling_duration_seconds",
            "Time that actions spent in each phase, seconds",
            labels=("phase",),
        )
        for phase, counts in self._counts.items():
            total, buckets = 0, []
            for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric([phase], buckets, self._sums[phase])
        return family
