"""What must be so some time after the last fault: invariants 8, 9, 11 and 12 at rest."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.resource_manager.records import Key, WorkloadRecord
from schemas.enums import Reason, SyncState
from schemas.limits import Limits, mismatches
from schemas.resources import ResourceState
from tests.simulation.bus import once
from tests.simulation.invariants import allocation
from tests.simulation.kernel import Truth

if TYPE_CHECKING:
    from tests.simulation.system import System


def unrest(system: "System") -> Iterator[str]:
    """Everything that is not as it must be in the end, in words."""
    ledger = system.monitor.ledger
    if ledger is None:
        yield "11: ResourceManager does not run"
        return
    yield from _open(system)
    for (node, name), record in ledger.workloads.items():
        yield from _workload(system, (node, name), record)
    for node, kernel in system.kernels.items():
        for name in kernel.containers_by_name:
            if (node, name) not in ledger.workloads:
                yield f"11: {node}/{name} is not known to ResourceManager"
    yield from _retained(system)


def _open(system: "System") -> Iterator[str]:
    """Whatever has no end yet."""
    for asked in system.requester.waiting:
        if asked not in system.monitor.spoken.excused:
            yield f"11: {asked} has no end"
    for task in system.action_controller.component.tasks:
        yield f"11: ActionController still works on {task.id} ({task.phase})"
    ledger = system.monitor.ledger
    for row in ledger._active_rows.values():
        record = ledger.workloads.get(row.key)
        if not (row.stage == "held" and record is not None and record.sync_state is SyncState.FAILED):
            yield f"9, 11: {row.action_id} is still {row.stage}"


def _workload(system: "System", key: Key, record: WorkloadRecord) -> Iterator[str]:
    truth = system.kernels[key[0]].containers_by_name.get(key[1])
    if truth is None or not truth.running:
        if record.running:
            yield f"11: {key} is taken for running"
        elif not record.dormant:
            yield f"11: {key} is absent, but its room is not free yet"
        return
    if not record.running or record.dormant or record.actual != truth.limits or not record.actual_known:
        yield f"11: {key} is not seen as it is: {record.actual}, really {truth.limits}"
    if record.reconcile is not None:
        yield f"11: a reconcile of {key} is under way"
    if record.managed:
        yield from _managed(system, key, record, truth)


def _managed(system: "System", key: Key, record: WorkloadRecord, truth: Truth) -> Iterator[str]:
    wrong = mismatches(record.desired or Limits(), truth.limits)
    if record.sync_state is SyncState.SYNCHRONIZED:
        if wrong:
            yield f"8: {key} is called SYNCHRONIZED, but {wrong} is not: {truth.limits} for {record.desired}"
    elif record.sync_state is not SyncState.FAILED:
        yield f"11: {key} is {record.sync_state}"
    elif not _true_reason(system, record, truth):
        yield f"11: {key} is FAILED ({record.reason}: {record.message}), but that is not so"


def _true_reason(system: "System", record: WorkloadRecord, truth: Truth) -> bool:
    """Whether what a failed workload says is the matter really is."""
    ledger = system.monitor.ledger
    node = ledger.nodes[record.node]
    desired = record.desired or Limits()
    if record.reason is Reason.BELOW_USAGE:
        margin = system.settings.node_agent.memory_margin_mib
        return desired.memory_limit is not None and desired.memory_limit < truth.usage.memory + margin
    if record.reason in (Reason.INSUFFICIENT_CPU, Reason.INSUFFICIENT_MEMORY) and record.withheld:
        records = [ledger.workloads[record.node, name] for name in ledger.by_node[record.node]]
        what = "cpu" if record.reason is Reason.INSUFFICIENT_CPU else "memory"
        reserved = getattr(system.settings.resource_manager.reserved.of(node.total), what)
        taken = sum(allocation(r, [])[what != "cpu"] for r in records if r.key != record.key)
        wanted: int = getattr(desired, f"{what}_limit") or 0
        return bool(taken + reserved + wanted > getattr(node.total, what))
    return False


def _retained(system: "System") -> Iterator[str]:
    """The broker's retained states tell what the ledger says, and of nothing else."""
    ledger = system.monitor.ledger
    told: dict[Key, ResourceState] = {}
    for topic, (_, frame) in system.broker.retained.items():
        if topic.startswith("resources/state/"):
            said = once(topic, frame.payload)
            assert isinstance(said, ResourceState)
            told[said.node, said.workload_id] = said
    for key, record in ledger.workloads.items():
        if record.dormant:
            continue
        state = told.get(key)
        if state is None or (state.sync_state, state.generation, state.desired) != (
            record.sync_state,
            record.generation if record.managed else 0,
            record.desired,
        ):
            yield f"11: retained state of {key} is not what the ledger says"
    for key in told:
        if key not in ledger.workloads or ledger.workloads[key].dormant:
            yield f"11: retained state of {key} is a ghost"
