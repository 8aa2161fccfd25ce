"""The twelve invariants of the protocol as predicates, checked after every step against what really is so.

Each check derives its truth anew, from the kernel, the records and the frames; none calls the code it checks.
"""

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from components.action_controller.controller import ActionController
from components.component import Output
from components.resource_manager.manager import ResourceManager
from components.resource_manager.records import ActionRow, Key, Stage, WorkloadRecord
from schemas.codec import Cleared, Frame
from schemas.enums import DesiredOperation, Phase, SyncState
from schemas.limits import CPU_TOLERANCE_MILLICORES, MEMORY_TOLERANCE_MIB, Amount, Limits, mismatches
from schemas.resources import (
    DesiredReply,
    DesiredRequest,
    ResourceState,
    ValidateReply,
    ValidateRequest,
)
from tests.simulation.kernel import Truth, Witness, Write
from tests.simulation.processes import IDLE_TICK_S, Process, Watcher
from tests.simulation.spoken import Spoken
from tests.simulation.uses import Uses
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.system import System

LATE_S: Final = 2 * IDLE_TICK_S
"""How late a lease may be ended: ticks are not exact."""
_WORKING: Final = (Phase.RECORDING, Phase.UPDATING, Phase.CONFIRMING)


def allocation(record: WorkloadRecord, rows: list[ActionRow], used: Amount | None = None) -> tuple[int, int]:
    """allocated(w) of the protocol, CPU and memory: max over desired, actual, and target and rollback of rows.

    `used` is what an unlimited one counts; None: what the record says.
    """
    usage = record.usage if used is None else used
    if record.dormant:
        return 0, 0
    in_force = record.unlimited.union(*(row.rollback_unlimited for row in rows))
    counted = [(record.actual or Limits(), in_force, True)]
    if record.desired is not None and not record.withheld:
        counted.append((record.desired, record.unlimited, False))
    for row in rows:
        counted.append((row.target, frozenset(), False))
        counted.append((row.rollback, row.rollback_unlimited, False))
    cpu = memory = 0
    for limits, unlimited, absent_is_use in counted:
        wanted, use = limits.cpu_limit, usage.cpu
        cpu = max(cpu, use if "cpu_limit" in unlimited or (wanted is None and absent_is_use) else wanted or 0)
        wanted, use = limits.memory_limit, usage.memory
        memory = max(
            memory, use if "memory_limit" in unlimited or (wanted is None and absent_is_use) else wanted or 0
        )
    return cpu, memory


class Monitor(Watcher, Witness):
    """Looks on at every step."""

    def __init__(self, system: "System") -> None:
        self.system = system
        self.ledger: Any = None
        self.generations: dict[Key, int] = defaultdict(int)
        """Highest ever recorded, as far as anybody can know."""
        self.images: dict[tuple[Key, int], str] = {}
        self.retired: dict[Key, set[int]] = defaultdict(set)
        """Generations whose rollback was confirmed."""
        self.spoken = Spoken(system)
        self.ledger_lost_at: float | None = None
        self.checked = 0
        self._last_write: dict[tuple[str, str, int], tuple[tuple[int, int], Any]] = {}
        self._leases: dict[tuple[int, int, str], float] = {}
        self.uses = Uses()
        self._before: tuple[dict[Key, WorkloadRecord], dict[str, ActionRow]] = ({}, {})

    def fail(self, invariant: str, text: str) -> None:
        """Say that an invariant does not hold."""
        raise Violation(invariant, text)

    # Around the steps of processes.

    def before(self, process: Process, item: object) -> None:
        """Keep what a turn of ResourceManager may change."""
        if isinstance(process.component, ResourceManager):
            self.ledger = process.component.ledger
            self._before = dict(self.ledger.workloads), dict(self.ledger._active_rows)

    def after(self, process: Process, item: object, outputs: list[Output]) -> None:
        """Judge what a step changed."""
        self.checked += 1
        if isinstance(process.component, ResourceManager):
            self._after_turn(process, item, outputs)
        elif isinstance(process.component, ActionController):
            self._one_running_action(process.component)

    def _after_turn(self, process: Process, item: object, outputs: list[Output]) -> None:
        workloads, rows = self._before
        self.uses.take(process, item, self.ledger)
        changed = False
        for key, record in self.ledger.workloads.items():
            old = workloads.get(key)
            if record is not old:
                changed = True
                self._record_changed(key, old, record, item)
        active = self.ledger._active_rows
        for action_id in {*rows, *active}:
            if active.get(action_id) is not rows.get(action_id):
                changed = True
                self._row_changed(rows.get(action_id), active.get(action_id) or self.ledger.row(action_id))
        self._grants(process, item, outputs)
        if item == "tick":
            self._reservations_end(process)
        if changed:
            self._kernel_is_covered()

    def _record_changed(self, key: Key, old: WorkloadRecord | None, new: WorkloadRecord, item: object) -> None:
        before = old.generation if old else 0
        if new.generation != before and new.desired is not None:
            if isinstance(item, ResourceState) or (item == "tick" and self._is_retained(key, new)):
                self.generations[key] = max(self.generations[key], new.generation)
            elif new.generation <= self.generations[key]:
                text = f"{key}: {new.generation} recorded after {self.generations[key]}"
                self.fail("3 (generations increase)", text)
            else:
                self.images[key, new.generation] = new.image_id
            self.generations[key] = max(self.generations[key], new.generation)
        dropped = old is not None and old.desired is not None and new.desired is None
        if old is not None and dropped and not isinstance(item, Cleared) and new.image_id == old.image_id:
            self.fail("12 (desired limits return)", f"{key}: the desired limits were dropped by {item!r}")
        drifted = new.sync_state is SyncState.DRIFT_DETECTED
        if drifted and (old is None or old.sync_state is not SyncState.DRIFT_DETECTED):
            self._drift_is_real(key, old or new, new)

    def _is_retained(self, key: Key, record: WorkloadRecord) -> bool:
        """Whether it is what a lost ledger had said; taken over late, if the disk was full when it came."""
        state = self.system.retained_state(*key)
        return state is not None and (state.generation, state.desired) == (record.generation, record.desired)

    def _drift_is_real(self, key: Key, old: WorkloadRecord, record: WorkloadRecord) -> None:
        invariant = "10 (drift under the rules)"
        if record.busy or any(row.open for row in self._rows(key)):
            self.fail(invariant, f"{key}: judged while busy or with an open action")
        if record.stamp <= record.confirmed_stamp and record.confirmed_generation == record.generation:
            self.fail(invariant, f"{key}: judged from {record.stamp}, confirmed by {record.confirmed_stamp}")
        if record.confirmed_generation not in (old.generation, record.generation):
            self.fail(invariant, f"{key}: generation {record.generation} was never confirmed")
        truth = self.system.kernels[key[0]].containers_by_name.get(key[1])
        if truth is None or not truth.running or self.ledger_lost_at is not None or record.desired is None:
            return
        by_us = [n for n in mismatches(record.desired, truth.limits) if n in truth.ours]
        if by_us:
            self.fail(invariant, f"{key}: {by_us} is drift that our own write caused: {truth.limits}")

    def _row_changed(self, old: ActionRow | None, new: ActionRow) -> None:
        self.spoken.rows[new.action_id] = new
        if sum(row.open for row in self._rows(new.key)) > 1:
            self.fail("5 (one open row)", f"{new.key}: {[r.action_id for r in self._rows(new.key) if r.open]}")
        record = self.ledger.workloads.get(new.key)
        closes = old is not None and old.stage is Stage.HELD and new.stage is Stage.CLOSED
        if closes and record is not None and record.confirmed_generation >= new.rollback_generation > 0:
            self.retired[new.key].add(new.generation)

    def _rows(self, key: Key) -> list[ActionRow]:
        ids = self.ledger.active.get(key, ())
        return [self.ledger._active_rows[action_id] for action_id in sorted(ids)]

    def _grants(self, process: Process, item: object, outputs: list[Output]) -> None:
        """Invariant 1: whoever rises fits."""
        granted = any(
            (isinstance(o, ValidateReply) and o.allowed and isinstance(item, ValidateRequest) and item.reserve)
            or (
                isinstance(o, DesiredReply)
                and o.success
                and isinstance(item, DesiredRequest)
                and item.operation is DesiredOperation.RECORD
            )
            for o in outputs
        )
        if not granted or not isinstance(item, ValidateRequest | DesiredRequest):
            return
        node = self.ledger.nodes[item.node]
        keys = [key for key in self.ledger.workloads if key[0] == item.node]
        uses = {key: self.uses.of(process, key) for key in keys}
        now = {key: allocation(self.ledger.workloads[key], self._rows(key), uses[key]) for key in keys}
        workloads, rows = self._before
        fresh = item.action_id in self.ledger._active_rows and item.action_id not in rows
        if fresh and (untold := self.uses.untold(process, item.node, self.ledger)):
            self.fail("1 (grants fit)", f"granted beside {untold}, whose use nobody has told this process")
        for key in keys:
            held = [row for row in rows.values() if row.key == key and row.counts]
            then = allocation(workloads[key], held, uses[key]) if key in workloads else (0, 0)
            reserved = self.system.settings.resource_manager.reserved.of(node.total)
            for place, what in enumerate(("cpu", "memory")):
                total = sum(amounts[place] for amounts in now.values()) + getattr(reserved, what)
                if now[key][place] > then[place] and total > getattr(node.total, what):
                    self.fail("1 (grants fit)", f"{key}: {what} {total} of {getattr(node.total, what)} allocated")

    def _reservations_end(self, process: Process) -> None:
        """Invariant 9."""
        if self.system.storage_broken:
            self._leases.clear()  # that a reservation ended cannot be written down
            return
        now = self.system.world.now
        lease = self.system.settings.resource_manager.lease_s
        for ids in self.ledger.active.values():
            for action_id in ids:
                row = self.ledger._active_rows[action_id]
                if row.stage is not Stage.RESERVED:
                    continue
                since = self._leases.setdefault((id(process), process.life, f"{action_id}:{row.attempt}"), now)
                if now - since > lease + LATE_S:
                    self.fail("9 (reservations end)", f"{action_id} holds room for {now - since:.0f} s")

    def _one_running_action(self, controller: ActionController) -> None:
        """Whether they name the container, or gave its id."""
        at_work = [task for task in controller.tasks if task.phase in _WORKING]
        actions = [(task.action.node, task.name) for task in at_work if task.reconcile is None]
        reconciles = [task.key for task in at_work if task.reconcile is not None]
        for named in (actions, reconciles):
            if len(named) != len(set(named)):
                self.fail("5 (one running action)", f"{sorted(named)}")

    def said(self, process: Process, frame: Frame) -> None:
        """Judge a frame as it leaves."""
        self.spoken.said(process, frame)

    def memory_is_lost(self, *, ledger: bool = False) -> None:
        """Keep in mind only which generations somebody still knows: ledger, retained states, fences of agents.

        While the clock of ResourceManager never went back, it knows by that alone what was used before.
        """
        if ledger:
            self.ledger_lost_at = self.system.world.now
            self.spoken.ledger_lost = True
            self.ledger = None
        if self.ledger_lost_at is None or not self.system.central.set_back:
            return
        kept = self.ledger.generations if self.ledger is not None else {}
        for node, name in self.generations:
            state = self.system.retained_state(node, name)
            agent = self.system.agents[node]
            fence = agent.component._commands.fence_of(name) if agent.alive else None
            known = state.generation if state else 0, fence.generation if fence else 0
            self.generations[node, name] = max(kept.get((node, name), 0), *known)

    # The kernel.

    def write_begins(self, write: Write) -> None:
        """Invariants 4, 8 and 12 when a write enters the runtime."""
        kernel = self.system.kernels[write.node]
        order, truth = write.order, write.truth
        key = (write.node, truth.name)
        self.system.world.note(
            "kernel {}: write begins on {}: {} by {}", write.node, truth.name, write.changes, order
        )
        others = [w for w in kernel.writing if w.truth is truth and w is not write]
        if others:
            self.fail("4 (one write at a time)", f"{key}: {write.changes} while {others[0].changes} is under way")
        if order is None or order.generation is None:
            return
        assert kernel.process is not None
        place = (*key, kernel.process.component.boot_id)
        rank = (order.generation, order.attempt)
        last = self._last_write.get(place)
        if last is not None and last[1] is not order and rank <= last[0]:
            self.fail("4 (writes in order)", f"{key}: {rank} after {last[0]}")
        self._last_write[place] = (rank, order)
        if order.generation in self.retired[key]:
            self.fail("8 (no write after its rollback)", f"{key}: {rank} was rolled back")
        image = self.images.get((key, order.generation))
        if image and image != truth.image and self.ledger_lost_at is None:
            self.fail("12 (another image gets nothing)", f"{key}: {rank} was for {image}, this is {truth.image}")
        self._kernel_is_covered()

    def kernel_changed(self, node: str, truth: Truth) -> None:
        """Invariant 2, when something takes effect."""
        self._kernel_is_covered()

    def _kernel_is_covered(self) -> None:
        """Invariant 2: what is in force through us, or may come into force, is allocated."""
        if self.ledger is None or self._rebuilding():
            return
        for node, kernel in self.system.kernels.items():
            for truth in kernel.containers_by_name.values():
                if truth.running and (truth.ours or kernel.writing):
                    forced = [truth.limits.only(set(truth.ours))]
                    forced += [w.changes for w in kernel.writing if w.truth is truth and _commanded(w)]
                    self._covers((node, truth.name), forced)

    def _covers(self, key: Key, forced: list[Limits]) -> None:
        record = self.ledger.workloads.get(key)
        has = allocation(record, self._rows(key)) if record is not None else (0, 0)
        for limits in forced:
            cpu, memory = limits.cpu_limit or 0, limits.memory_limit or 0
            unlimited = record.unlimited if record else frozenset()
            for row in self._rows(key):
                unlimited |= row.rollback_unlimited
            short = cpu > has[0] + CPU_TOLERANCE_MILLICORES and "cpu_limit" not in unlimited
            short |= memory > has[1] + MEMORY_TOLERANCE_MIB and "memory_limit" not in unlimited
            if short:
                self.fail("2 (the kernel is covered)", f"{key}: {limits} in force or under way, allocated {has}")

    def _rebuilding(self) -> bool:
        """Whether a lost ledger may not have seen everything again."""
        lease = self.system.settings.resource_manager.lease_s
        return self.ledger_lost_at is not None and self.system.world.now < self.ledger_lost_at + 2 * lease


def _commanded(write: Write) -> bool:
    return write.order is not None and write.order.generation is not None
