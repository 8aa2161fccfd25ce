"""The arithmetic of room: what is allocated, what is available, and whether a change may be granted.

available = total - allocated - reserved, for CPU and memory apart, per node. Pure functions of records.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from components.resource_manager.records import ActionRow, Key, NodeRecord, WorkloadRecord
from schemas.enums import Reason
from schemas.limits import Amount, Limits
from schemas.resources import NodeCapacity
from schemas.units import format_cpu, format_memory

_NO_LIMITS: Final = Limits()


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
    sources = [_counted(record.actual or _NO_LIMITS, record, in_force, unset_is_use=True)]
    if record.desired is not None and not record.withheld:
        sources.append(_counted(record.desired, record, record.unlimited))
    for row in active:
        sources.append(_counted(row.target, record, frozenset()))
        sources.append(_counted(row.rollback, record, row.rollback_unlimited))
    return Amount(cpu=max(cpu for cpu, _ in sources), memory=max(memory for _, memory in sources))


def _counted(
    limits: Limits, record: WorkloadRecord, unlimited: frozenset[str], *, unset_is_use: bool = False
) -> tuple[int, int]:
    """CPU and memory; plain numbers, since many are compared for each request."""
    cpu, memory = limits.cpu_limit, limits.memory_limit
    if "cpu_limit" in unlimited or (cpu is None and unset_is_use):
        cpu = record.usage.cpu
    if "memory_limit" in unlimited or (memory is None and unset_is_use):
        memory = record.usage.memory
    return cpu or 0, memory or 0


class Allocations:
    """`allocated`, remembered for as long as a workload's record and rows are the very same objects.

    A request changes one workload of its node, and asks for the sum of all.
    """

    def __init__(self) -> None:
        self._known: dict[Key, tuple[WorkloadRecord, Sequence[ActionRow], Amount]] = {}

    def of(self, record: WorkloadRecord, rows: Sequence[ActionRow]) -> Amount:
        """What one workload takes."""
        known = self._known.get(record.key)
        if known is not None and known[0] is record and _same(known[1], rows):
            return known[2]
        amount = allocated(record, rows)
        self._known[record.key] = (record, rows, amount)
        return amount

    def forget(self, key: Key) -> None:
        """A workload is no more."""
        self._known.pop(key, None)


def _same(some: Sequence[ActionRow], others: Sequence[ActionRow]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def capacity(
    node: NodeRecord, reserved: Amount, workloads: Iterable[tuple[WorkloadRecord, Amount]]
) -> NodeCapacity:
    """The published view of a node's room, of its workloads and what each of them takes."""
    total = node.total or Amount()
    cpu = memory = 0
    unlimited = []
    for record, amount in workloads:
        cpu += amount.cpu
        memory += amount.memory
        if record.running and record.actual is not None and _has_no_limit(record):
            unlimited.append(record.name)
    taken = Amount(cpu=cpu, memory=memory)
    return NodeCapacity(
        node=node.node,
        total=total,
        allocated=taken,
        reserved=reserved,
        available=total.less(taken).less(reserved),
        unlimited=tuple(unlimited),
    )


def _has_no_limit(record: WorkloadRecord) -> bool:
    actual = record.actual or _NO_LIMITS
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
