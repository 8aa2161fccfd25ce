"""The arithmetic of room: what is allocated, what is available, and whether a change may be granted.

available = total - allocated - reserved, for CPU and memory apart, per node. Pure functions of records, and
the sums that they add up to.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

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


class Share(NamedTuple):
    """What one workload takes of its node."""

    cpu: int = 0
    memory: int = 0
    unlimited: bool = False
    """Whether it runs without a limit of its own, so that it is counted by its use."""


NO_SHARE: Final = Share()


def share(record: WorkloadRecord | None, rows: Iterable[ActionRow]) -> Share:
    """What a workload takes; nothing if there is none."""
    if record is None:
        return NO_SHARE
    amount = allocated(record, rows)
    return Share(amount.cpu, amount.memory, record.running and record.actual is not None and _has_no_limit(record))


class Shares:
    """What all workloads take, by node. Kept as sums, since a request changes one workload of hundreds."""

    def __init__(self) -> None:
        self._shares: dict[Key, Share] = {}
        self._taken: defaultdict[str, Amount] = defaultdict(Amount)
        self._unlimited: defaultdict[str, set[str]] = defaultdict(set)

    def put(self, key: Key, new: Share) -> None:
        """Let a workload take this from now on."""
        node, name = key
        self._taken[node] = _instead(self._taken[node], self._shares.pop(key, NO_SHARE), new)
        (self._unlimited[node].add if new.unlimited else self._unlimited[node].discard)(name)
        if new != NO_SHARE:
            self._shares[key] = new
        if self._taken[node] == Amount() and not self._unlimited[node]:
            del self._taken[node], self._unlimited[node]  # nodes come and go

    def of_node(self, node: str, changed: Mapping[Key, Share]) -> tuple[Amount, tuple[str, ...]]:
        """What a node's workloads take together, and the unlimited ones, if some took what `changed` says."""
        taken, unlimited = self._taken.get(node, Amount()), self._unlimited.get(node, set())
        for key, new in changed.items():
            taken = _instead(taken, self._shares.get(key, NO_SHARE), new)
            unlimited = unlimited | {key[1]} if new.unlimited else unlimited - {key[1]}
        return taken, tuple(sorted(unlimited))


def _instead(taken: Amount, old: Share, new: Share) -> Amount:
    return Amount(cpu=taken.cpu - old.cpu + new.cpu, memory=taken.memory - old.memory + new.memory)


def capacity(node: NodeRecord, reserved: Amount, taken: Amount, unlimited: tuple[str, ...]) -> NodeCapacity:
    """The published view of a node's room, of what its workloads take."""
    total = node.total or Amount()
    return NodeCapacity(
        node=node.node,
        total=total,
        allocated=taken,
        reserved=reserved,
        available=total.less(taken).less(reserved),
        unlimited=unlimited,
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
