"""What workloads were measured at, and their limits, over the last minutes: what a chart draws."""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from components.overview.names import Key, Names
from schemas.codec import Cleared, Decoded
from schemas.limits import Amount, Limits
from schemas.metrics import AppMetrics, ContainerMetrics
from schemas.performance import PerfDegraded
from schemas.resources import ResourceState
from schemas.scaling import ScalingAction

WORKLOADS_MAX: Final = 200
POINTS_MAX: Final = 600
"""Of each kind and workload: ten minutes at one a second."""


@dataclass(frozen=True)
class Measured:
    """What an application measured of itself, when it came (UTC epoch ms, own clock)."""

    at_ms: int
    latency_ms: float | None
    throughput: float | None
    fps: float | None


@dataclass(frozen=True)
class Used:
    """What a container used, and the limits in force, as its node sampled them."""

    at_ms: int
    usage: Amount
    limits: Limits


class Series:
    """The last points of one workload, the latest last."""

    def __init__(self) -> None:
        self.measured: deque[Measured] = deque(maxlen=POINTS_MAX)
        self.used: deque[Used] = deque(maxlen=POINTS_MAX)
        self.thresholds: dict[str, float] = {}
        """The threshold of each metric that was over, as the last performance event says."""


class History:
    """Points of those workloads that somebody cares for, 200 at most.

    These are workloads whose application measures itself, as long as there is room, and those that degraded, are
    scaled, or are followed by a viewer, in place of the one longest not cared for.
    """

    def __init__(self, names: Names, workloads: int = WORKLOADS_MAX) -> None:
        """`names`: whose application is which, learned by `Measures` before each message comes here."""
        self._most = workloads
        self._names = names
        self._series: OrderedDict[Key, Series] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def follow(self, node: str, workload: str) -> Series:
        """The points of a workload from now on; one that nobody follows gives room."""
        series = self._series.setdefault((node, workload), Series())
        self._series.move_to_end((node, workload))
        while len(self._series) > self._most:
            self._series.popitem(last=False)
        return series

    def hear(self, message: Decoded, now_ms: int) -> None:
        """Take one message in; what has no points is ignored."""
        match message:
            case AppMetrics():
                self._hear_app(message, now_ms)
            case ContainerMetrics():
                for container in message.containers:
                    series = self._series.get((message.node, container.workload_id))
                    if series is not None:
                        series.used.append(Used(now_ms, container.usage, container.limits))
            case PerfDegraded():
                series = self.follow(message.node, message.workload_id)
                series.thresholds.update({one.metric: one.threshold for one in message.indicators})
            case ScalingAction():
                self.follow(message.node, message.workload_id)
            case Cleared(message=kind) if kind is ResourceState:
                self._series.pop((message.values["node"], message.values["workload_id"]), None)

    def _hear_app(self, message: AppMetrics, now_ms: int) -> None:
        key = self._names.key_of(message.node, message.workload_id)
        series = self._series.get(key)
        if series is None and len(self._series) < self._most:
            series = self._series[key] = Series()
        if series is not None:
            series.measured.append(Measured(now_ms, message.latency_ms, message.throughput, message.fps))
