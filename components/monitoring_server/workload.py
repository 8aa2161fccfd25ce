"""One workload as MonitoringServer sees it: what was last measured, and whether it is in an episode."""

from dataclasses import dataclass, field
from typing import Final

from components.monitoring_server.window import CPU, LATENCY, MEMORY, THROUGHPUT, Window, thresholds_of
from components.settings import MonitoringSettings, ThresholdSettings
from schemas.enums import PerfStatus
from schemas.metrics import AppMetrics, ContainerUse
from schemas.performance import Indicator

NEVER: Final = float("-inf")


@dataclass
class Episode:
    """From the first sign of degradation to recovery."""

    episode_id: str
    windows: set[Window] = field(default_factory=set)
    """The metrics that were over in it."""


class Workload:
    """One workload. Without thresholds it is shown, but raises no events."""

    __slots__ = (
        "_cpu",
        "_latency",
        "_memory",
        "_throughput",
        "app",
        "app_at",
        "episode",
        "name",
        "node",
        "outstanding",
        "runtime_id",
        "use",
        "used_at",
        "windows",
    )

    def __init__(
        self, node: str, name: str, settings: MonitoringSettings, thresholds: ThresholdSettings | None
    ) -> None:
        self.node = node
        self.name = name
        self.runtime_id = ""
        self.use: ContainerUse | None = None
        self.used_at = NEVER
        self.app: dict[str, tuple[float, float]] = {}
        """The application's newest measures by name, each with when it came, monotonic seconds."""
        self.app_at = NEVER
        self.episode: Episode | None = None
        self.outstanding = 0
        """Its events that have no outcome yet."""
        found = thresholds_of(thresholds) if thresholds else []
        by_metric = {threshold.metric: Window(threshold, settings) for threshold in found}
        self.windows = tuple(by_metric.values())
        self._latency = by_metric.get(LATENCY)
        self._throughput = by_metric.get(THROUGHPUT)
        self._cpu = by_metric.get(CPU)
        self._memory = by_metric.get(MEMORY)

    @property
    def seen_at(self) -> float:
        """When anything was last heard of it, monotonic seconds."""
        return max(self.used_at, self.app_at)

    def take_use(self, use: ContainerUse, now: float) -> bool:
        """Take what its container uses; whether to ask for `change`. What is unlimited gives no percentage."""
        self.use = use
        self.used_at = now
        over = False
        cpu, memory = self._cpu, self._memory
        if cpu is not None and (limit := use.limits.cpu_limit):
            cpu.add(100 * use.usage.cpu / limit, now)
            over = cpu.over
        if memory is not None and (limit := use.limits.memory_limit):
            memory.add(100 * use.usage.memory / limit, now)
            over = over or memory.over
        return over or self.episode is not None

    def take_app(self, measured: AppMetrics, now: float) -> None:
        """Take what the application measures of itself."""
        self.app_at = now
        for name in ("latency_ms", "throughput", "fps"):
            value = getattr(measured, name)
            if value is not None:
                self.app[name] = (value, now)
        if self._latency and measured.latency_ms is not None:
            self._latency.add(measured.latency_ms, now)
        if self._throughput and measured.throughput is not None:
            self._throughput.add(measured.throughput, now)

    def forget_before(self, since: float) -> None:
        """Forget measures older than that: who shows them must not take them for the present."""
        if self.app:
            self.app = {name: (value, at) for name, (value, at) in self.app.items() if at >= since}
        if self.used_at < since:
            self.use = None

    def change(self, now: float) -> PerfStatus | None:
        """DEGRADED when an episode must begin, RECOVERED when the present one is over, else None."""
        over = [window for window in self.windows if window.over and window.fresh(now)]
        if self.episode is None:
            return PerfStatus.DEGRADED if over else None
        if over:
            self.episode.windows.update(over)
            return None
        return PerfStatus.RECOVERED if self._recovered(self.episode, now) else None

    def known(self, now: float) -> bool:
        """Whether any metric of the present episode can be judged now: else nobody knows if it lasts."""
        windows = self.episode.windows if self.episode else set()
        return any(window.fresh(now) and window.telling for window in windows)

    def indicators(self, now: float) -> tuple[Indicator, ...]:
        """What is over now; else the fresh metrics of the episode."""
        fresh = [window for window in self.windows if window.fresh(now)]
        over = [window for window in fresh if window.over]
        of_episode = self.episode.windows if self.episode else set()
        return tuple(window.indicator for window in over or [w for w in fresh if w in of_episode])

    def _recovered(self, episode: Episode, now: float) -> bool:
        """All that was over is well under, by samples; nothing else is over. What is unknown is not recovered."""
        return all(
            window.fresh(now) and window.clear
            if window in episode.windows
            else window.calm or not window.fresh(now)
            for window in self.windows
        )
