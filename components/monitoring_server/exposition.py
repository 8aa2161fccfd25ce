"""What MonitoringServer shows to Prometheus, in base units: cores, bytes, seconds.

Nodes that went away and workloads that fell silent are not shown any more.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from components.monitoring_server.fleet import Fleet
from schemas.enums import EventOutcome, PerfStatus
from schemas.units import BYTES_PER_MIB, MILLICORES_PER_CPU

WORKLOADS_SHOWN_MAX: Final = 5_000
"""A scrape must not hold up the samples; the metrics topics show them all."""

_MS_PER_S: Final = 1000


class Shown(Protocol):
    """What there is to show."""

    fleet: Fleet
    events_deferred: int

    @property
    def events_total(self) -> Mapping[PerfStatus, int]:
        """Events raised."""

    @property
    def outcomes_total(self) -> Mapping[EventOutcome, int]:
        """What came of them."""

    @property
    def outstanding(self) -> int:
        """Events without outcome."""


def families(shown: Shown) -> Iterable[Metric]:
    """All metric families."""
    yield from _counts(shown)
    yield from _nodes(shown.fleet)
    yield from _workloads(shown.fleet)


def _counts(shown: Shown) -> Iterator[Metric]:
    events = CounterMetricFamily(
        "piriscale_perf_events",
        "Performance events raised, repeats within an episode included",
        labels=("status",),
    )
    for status in PerfStatus:
        events.add_metric([status], shown.events_total.get(status, 0))
    yield events
    outcomes = CounterMetricFamily(
        "piriscale_perf_outcomes", "Performance events whose outcome is known", labels=("outcome",)
    )
    for outcome in EventOutcome:
        outcomes.add_metric([outcome], shown.outcomes_total.get(outcome, 0))
    yield outcomes
    yield CounterMetricFamily(
        "piriscale_perf_events_deferred",
        "Times that a performance event waited for outcomes of earlier ones",
        shown.events_deferred,
    )
    yield CounterMetricFamily(
        "piriscale_samples_refused", "Samples of workloads for which there was no room", shown.fleet.refused
    )
    yield GaugeMetricFamily(
        "piriscale_perf_events_outstanding", "Performance events whose outcome is not known yet", shown.outstanding
    )
    yield GaugeMetricFamily(
        "piriscale_watched_workloads", "Workloads that were measured lately", shown.fleet.workloads
    )
    degraded = sum(workload.episode is not None for workload in shown.fleet)
    yield GaugeMetricFamily("piriscale_degraded_workloads", "Workloads in an episode of degradation", degraded)


def _nodes(fleet: Fleet) -> Iterator[Metric]:
    cpu = GaugeMetricFamily("piriscale_node_cpu_usage_cores", "CPU in use on the node, cores", labels=("node",))
    memory = GaugeMetricFamily(
        "piriscale_node_memory_used_bytes", "Memory in use on the node, bytes", labels=("node",)
    )
    for name, node in fleet.nodes.items():
        if node.metrics is not None:
            cpu.add_metric([name], node.metrics.cpu_usage / 100 * node.metrics.cpu_count)
            memory.add_metric([name], node.metrics.used_memory)
    yield from (cpu, memory)


def _workloads(fleet: Fleet) -> Iterator[Metric]:
    labels = ("node", "workload")
    cpu = GaugeMetricFamily("piriscale_usage_cpu_cores", "CPU that the container uses, cores", labels=labels)
    memory = GaugeMetricFamily(
        "piriscale_usage_memory_bytes", "Memory that the container uses, bytes", labels=labels
    )
    latency = GaugeMetricFamily(
        "piriscale_app_latency_seconds", "Response time that the application tells, seconds", labels=labels
    )
    throughput = GaugeMetricFamily(
        "piriscale_app_throughput",
        "Work done that the application tells, units of its own per second",
        labels=labels,
    )
    degraded = GaugeMetricFamily(
        "piriscale_workload_degraded",
        "1 while the workload is in an episode of degradation, 0 while it is well; absent: it has no thresholds",
        labels=labels,
    )
    fps = GaugeMetricFamily("piriscale_app_fps", "Frames that the application tells, per second", labels=labels)
    for workload in islice(fleet, WORKLOADS_SHOWN_MAX):
        key = [workload.node, workload.name]
        if workload.windows:
            degraded.add_metric(key, int(workload.episode is not None))
        if workload.use is not None:
            cpu.add_metric(key, workload.use.usage.cpu / MILLICORES_PER_CPU)
            memory.add_metric(key, workload.use.usage.memory * BYTES_PER_MIB)
        if "latency_ms" in workload.app:
            latency.add_metric(key, workload.app["latency_ms"][0] / _MS_PER_S)
        if "throughput" in workload.app:
            throughput.add_metric(key, workload.app["throughput"][0])
        if "fps" in workload.app:
            fps.add_metric(key, workload.app["fps"][0])
    yield from (cpu, memory, latency, throughput, fps, degraded)
