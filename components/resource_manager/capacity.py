"""The arithmetic of room: what is allocated, what is available, and whether a change may be granted.

available = total - allocated - reserved, for CPU and memory apart, per node. Pure functions of records.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

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
    # While an action replaces "unlimited", the node's total that was written for it is still in force.
    in_force = record.unlimited.union(*(row.rollback_unlimited for row in active))
    sources = [_counted(record.actual or Limits(), record, in_force, unset_is_use=True)]
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

    Infeasible comes first, since it is final; then what is short now, CPU named first. What does not rise needs
    no room.
    """
    never = [_infeasible(one, room, one.of(after) > one.of(before), maximum, wanted) for one in _RESOURCES]
    short = [_short(one, room, one.of(after) - one.of(before)) for one in _RESOURCES]
    refusals = [refusal for refusal in never if refusal] or [refusal for refusal in short if refusal]
    if not refusals:
        return None
    return Refusal(refusals[0].reason, "; ".join(refusal.message for refusal in refusals))


@dataclass(frozen=True)
class _Resource:
    """CPU or memory: where it is found, and how it is written."""

    name: str
    field: str
    reason: Reason
    write: Callable[[int], str]

    def of(self, amount: Amount) -> int:
        value: int = getattr(amount, self.field)
        return value

    def limit(self, limits: Limits) -> int | None:
        value: int | None = getattr(limits, f"{self.field}_limit")
        return value


_RESOURCES: Final = (
    _Resource("CPU", "cpu", Reason.INSUFFICIENT_CPU, format_cpu),
    _Resource("memory", "memory", Reason.INSUFFICIENT_MEMORY, format_memory),
)


def _infeasible(
    one: _Resource, room: NodeCapacity, rises: bool, maximum: Limits, wanted: Limits
) -> Refusal | None:
    asked, limit, write = one.limit(wanted), one.limit(maximum), one.write
    if asked is None:
        return None
    most = one.of(room.total.less(room.reserved))
    if rises and asked > most:
        return Refusal(
            Reason.INFEASIBLE,
            f"{write(asked)} {one.name} can never be given on {room.node}: total {write(one.of(room.total))} − "
            f"reserved {write(one.of(room.reserved))} leaves {write(most)}; ask for at most that",
        )
    if limit is not None and asked > limit:
        return Refusal(
            Reason.INFEASIBLE,
            f"{write(asked)} {one.name} is above this workload's maximum, {write(limit)}; ask for less, or raise "
            f"`max` in its [[policy]]",
        )
    return None


def _short(one: _Resource, room: NodeCapacity, more: int) -> Refusal | None:
    total, taken, held = one.of(room.total), one.of(room.allocated), one.of(room.reserved)
    free = total - taken - held
    if more <= 0 or more <= free:
        return None
    write = one.write
    text = (
        f"needs {write(more)} more {one.name}, node {room.node} has {write(max(0, free))} available: "
        f"total {write(total)} − allocated {write(taken)} − reserved {write(held)}"
    )
    return Refusal(one.reason, text)
