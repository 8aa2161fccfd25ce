"""What ResourceManager shows to Prometheus, in base units: cores and bytes.

Nothing is shown of what is gone: no workload that was removed, no node that was forgotten. Labels are names of
nodes and workloads that the ledger knows, and words of enums.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from components.presence import away
from components.resource_manager.ledger import Ledger
from components.resource_manager.records import WorkloadRecord
from components.resource_manager.turn import Live
from schemas.enums import SyncState
from schemas.limits import Amount, Limits
from schemas.units import BYTES_PER_MIB, MILLICORES_PER_CPU

_WORKLOAD: Final = ("node", "workload")


def families(ledger: Ledger, live: Live) -> Iterable[Metric]:
    """All metric families."""
    present = [record for record in ledger.workloads.values() if not record.dormant]
    yield _states(present)
    yield from _limits(present)
    yield from _capacity(live)
    yield _nodes(ledger, live)
    drifts = CounterMetricFamily(
        "piriscale_drift",
        "Times that limits in force were found to differ from those desired",
        labels=("node", "cause"),
    )
    for (node, cause), count in live.drifts.items():
        if node in ledger.nodes:
            drifts.add_metric([node, cause], count)
    yield drifts
    reconciles = CounterMetricFamily(
        "piriscale_reconcile_attempts", "Reconciles that ended, by verdict", labels=("result",)
    )
    for result, count in live.reconciles.items():
        reconciles.add_metric([result], count)
    yield reconciles
    yield GaugeMetricFamily(
        "piriscale_reservations",
        "Actions that hold room: open, or ended without it being known what is in force",
        sum(map(len, ledger.active.values())),
    )


def _nodes(ledger: Ledger, live: Live) -> Metric:
    family = GaugeMetricFamily(
        "piriscale_node_up",
        "1 while the agent of a node can be reached and tells what is in force, 0 while it is away or silent; "
        "before it spoke it counts as there",
        labels=("node",),
    )
    for node in ledger.nodes:
        presence = live.agents.get(node)
        here = node not in live.silent and (presence is None or not away(presence))
        family.add_metric([node], int(here))
    return family


def _states(present: list[WorkloadRecord]) -> Metric:
    family = GaugeMetricFamily(
        "piriscale_sync_state",
        "1 for the present synchronization state of a workload, 0 for the others",
        labels=(*_WORKLOAD, "state"),
    )
    for record in present:
        for state in SyncState:
            family.add_metric([record.node, record.name, state], int(record.sync_state is state))
    return family


def _limits(present: list[WorkloadRecord]) -> Iterator[Metric]:
    for kind, text in (("desired", "limit that is desired"), ("actual", "limit in force")):
        cpu = GaugeMetricFamily(
            f"piriscale_{kind}_cpu_cores", f"CPU {text}, cores; absent: none", labels=_WORKLOAD
        )
        memory = GaugeMetricFamily(
            f"piriscale_{kind}_memory_bytes", f"Memory {text}, bytes; absent: none", labels=_WORKLOAD
        )
        for record in present:
            limits = _shown(record, kind)
            if limits.cpu_limit is not None:
                cpu.add_metric([record.node, record.name], limits.cpu_limit / MILLICORES_PER_CPU)
            if limits.memory_limit is not None:
                memory.add_metric([record.node, record.name], limits.memory_limit * BYTES_PER_MIB)
        yield from (cpu, memory)


def _shown(record: WorkloadRecord, kind: str) -> Limits:
    if kind == "desired":
        return record.desired or Limits()
    return (record.actual if record.actual_known else None) or Limits()


def _capacity(live: Live) -> Iterator[Metric]:
    labels = ("node", "kind")
    cores = GaugeMetricFamily(
        "piriscale_node_capacity_cores",
        "CPU of a node, cores: available is total without allocated and reserved",
        labels=labels,
    )
    size = GaugeMetricFamily(
        "piriscale_node_capacity_bytes",
        "Memory of a node, bytes: available is total without allocated and reserved",
        labels=labels,
    )
    for node, room in live.capacities.items():
        kinds: dict[str, Amount] = {
            "total": room.total,
            "allocated": room.allocated,
            "reserved": room.reserved,
            "available": room.available,
        }
        for kind, amount in kinds.items():
            cores.add_metric([node, kind], amount.cpu / MILLICORES_PER_CPU)
            size.add_metric([node, kind], amount.memory * BYTES_PER_MIB)
    yield from (cores, size)
