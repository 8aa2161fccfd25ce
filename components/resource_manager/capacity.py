"""The arithmetic of room: what is allocated, what is available, and whether a change may be granted.

available = total - allocated - reserved, for CPU and memory apart, per node. Pure functions of records.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from components.resource_manager.records import ActionRow, NodeRecord, WorkloadRecord
from schemas.enums import Reason
from schemas.limits import Amount, Limits
from schemas.resources import NodeCapacity
from schemas.units import format_cpu, format_memory


@dataclass(frozen=True)
class Refusal:
    """Why something is not granted. A refusal is data; an exception means that something broke."""

    reason: Reason
    message: str


def allocated(record: WorkloadRecord, rows: Iterable[ActionRow]) -> Amount:
    """Room one workload takes: the largest of all that is, may be, or may become its limits again.

    That is desired, actual (last known; measured use where unlimited), and target and rollback of every action
    open or held.
    """
    if record.dormant:
        return Amount()
    active = [row for row in rows if row.counts]
    sources = [_counted(record.actual or Limits(), record, record.unlimited, unset_is_use=True)]
    if record.desired is not None and not record.withheld:
        sources.append(_counted(record.desired, record, record.unlimited))
    for row in active:
        sources.append(_counted(row.target, record, frozenset()))
        sources.append(_counted(row.rollback, record, row.rollback_unlimited))
    total = Amount()
    for source in sources:
        total = total.larger(source)
    return total


def _counted(
    limits: Limits, record: WorkloadRecord, unlimited: frozenset[str], *, unset_is_use: bool = False
) -> Amount:
    def one(name: str, value: int | None, use: int) -> int:
        if name in unlimited or (value is None and unset_is_use):
            return use
        return value or 0

    return Amount(
        cpu=one("cpu_limit", limits.cpu_limit, record.usage.cpu),
        memory=one("memory_limit", limits.memory_limit, record.usage.memory),
    )


def capacity(
    node: NodeRecord, reserved: Amount, workloads: Iterable[tuple[WorkloadRecord, Iterable[ActionRow]]]
) -> NodeCapacity:
    """The published view of a node's room."""
    total = node.total or Amount()
    taken = Amount()
    unlimited = []
    for record, rows in workloads:
        taken += allocated(record, rows)
        if record.running and record.actual is not None and _has_no_limit(record):
            unlimited.append(record.name)
    return NodeCapacity(
        node=node.node,
        total=total,
        allocated=taken,
        reserved=reserved,
        available=total.less(taken).less(reserved),
        unlimited=tuple(unlimited),
    )


def _has_no_limit(record: WorkloadRecord) -> bool:
    actual = record.actual or Limits()
    return actual.cpu_limit is None or actual.memory_limit is None or bool(record.unlimited)


def judge(room: NodeCapacity, before: Amount, after: Amount, maximum: Limits, wanted: Limits) -> Refusal | None:
    """Whether a workload's allocation may go from `before` to `after` on a node; None: granted, whole.

    Infeasible comes first, since it is final; then what is short now, CPU named first.
    """
    return _infeasible(room, maximum, wanted) or _short(room, before, after)


def _infeasible(room: NodeCapacity, maximum: Limits, wanted: Limits) -> Refusal | None:
    usable = room.total.less(room.reserved)
    for name, asked, most, whole, held, write in (
        ("CPU", wanted.cpu_limit, usable.cpu, room.total.cpu, room.reserved.cpu, format_cpu),
        ("memory", wanted.memory_limit, usable.memory, room.total.memory, room.reserved.memory, format_memory),
    ):
        if asked is not None and asked > most:
            return Refusal(
                Reason.INFEASIBLE,
                f"{write(asked)} {name} can never be given on {room.node}: total {write(whole)} − reserved "
                f"{write(held)} leaves {write(most)}; ask for at most that",
            )
    for name, asked, limit, write in (
        ("CPU", wanted.cpu_limit, maximum.cpu_limit, format_cpu),
        ("memory", wanted.memory_limit, maximum.memory_limit, format_memory),
    ):
        if asked is not None and limit is not None and asked > limit:
            return Refusal(
                Reason.INFEASIBLE,
                f"{write(asked)} {name} is above this workload's maximum, {write(limit)}; ask for less, or raise "
                f"`max` in its [[policy]]",
            )
    return None


def _short(room: NodeCapacity, before: Amount, after: Amount) -> Refusal | None:
    short = []
    for reason, name, old, new, free, whole, taken, held, write in (
        (
            Reason.INSUFFICIENT_CPU,
            "CPU",
            before.cpu,
            after.cpu,
            room.total.cpu - room.allocated.cpu - room.reserved.cpu,
            room.total.cpu,
            room.allocated.cpu,
            room.reserved.cpu,
            format_cpu,
        ),
        (
            Reason.INSUFFICIENT_MEMORY,
            "memory",
            before.memory,
            after.memory,
            room.total.memory - room.allocated.memory - room.reserved.memory,
            room.total.memory,
            room.allocated.memory,
            room.reserved.memory,
            format_memory,
        ),
    ):
        more = new - old
        if more > 0 and more > free:
            text = (
                f"needs {write(more)} more {name}, node {room.node} has {write(max(0, free))} available: "
                f"total {write(whole)} − allocated {write(taken)} − reserved {write(held)}"
            )
            short.append(Refusal(reason, text))
    if not short:
        return None
    return Refusal(short[0].reason, "; ".join(refusal.message for refusal in short))
