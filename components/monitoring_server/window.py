"""One metric of one workload: its last samples, and what they say against its threshold.

Kept small and fast, bit masks instead of the samples themselves, since this runs for every sample of the fleet.
"""

from dataclasses import dataclass
from typing import Final

from components.settings import MonitoringSettings, ThresholdSettings
from schemas.performance import Indicator

LATENCY: Final = "latency_ms"
THROUGHPUT: Final = "throughput"
CPU: Final = "cpu_percent"
MEMORY: Final = "memory_percent"


@dataclass(frozen=True)
class Threshold:
    """From when on a metric is over, and when it is under again."""

    metric: str
    value: float
    lower_is_worse: bool = False


def thresholds_of(found: ThresholdSettings) -> list[Threshold]:
    """The thresholds that the configuration sets for a workload."""
    given = (
        (LATENCY, found.latency_ms),
        (THROUGHPUT, found.throughput_min),
        (CPU, found.cpu_percent),
        (MEMORY, found.memory_percent),
    )
    return [Threshold(metric, value, metric == THROUGHPUT) for metric, value in given if value is not None]


class Window:
    """The last `window` samples. They are one run: after a gap of more than `stale_s` they begin anew."""

    __slots__ = (
        "_bad",
        "_full",
        "_good",
        "_needed",
        "_over_bits",
        "_sign",
        "_stale_s",
        "_taken",
        "_unclear_bits",
        "at",
        "over",
        "threshold",
        "value",
    )

    def __init__(self, threshold: Threshold, settings: MonitoringSettings) -> None:
        self.threshold = threshold
        self.value = 0.0
        """The newest sample."""
        self.at = float("-inf")
        """When it came, monotonic seconds."""
        self.over = False
        """Whether `needed` of the last samples are over the threshold."""
        margin = settings.hysteresis_percent / 100
        self._sign = -1.0 if threshold.lower_is_worse else 1.0
        self._bad = threshold.value * self._sign
        self._good = self._bad - threshold.value * margin
        self._needed = settings.needed
        self._stale_s = settings.stale_s
        self._full = (1 << settings.window) - 1
        self._over_bits = 0
        self._unclear_bits = 0
        self._taken = 0

    def add(self, value: float, now: float) -> None:
        """Take a sample."""
        over, unclear = self._over_bits, self._unclear_bits
        if now - self.at > self._stale_s:
            over = unclear = self._taken = 0
        self._taken += 1
        self.at = now
        self.value = value
        signed = value * self._sign
        self._over_bits = over = ((over << 1) | (signed > self._bad)) & self._full
        self._unclear_bits = ((unclear << 1) | (signed > self._good)) & self._full
        self.over = over.bit_count() >= self._needed

    def fresh(self, now: float) -> bool:
        """Whether there are samples and the newest still says something."""
        return now - self.at <= self._stale_s

    @property
    def calm(self) -> bool:
        """Whether none of the last samples is over the threshold."""
        return not self._over_bits

    @property
    def telling(self) -> bool:
        """Whether there are enough samples to judge by."""
        return self._taken >= self._needed

    @property
    def clear(self) -> bool:
        """Whether there are enough samples, and all of them are under the threshold by the hysteresis."""
        return self.telling and not self._unclear_bits

    @property
    def indicator(self) -> Indicator:
        """The newest sample beside the threshold."""
        return Indicator(metric=self.threshold.metric, value=self.value, threshold=self.threshold.value)
