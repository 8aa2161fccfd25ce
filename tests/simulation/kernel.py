"""The containers of one node: what the kernel enforces, and a runtime that is slow, hangs, fails, lies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from greenlet import getcurrent  # type: ignore[import-untyped]  # has no stubs

from components.node_agent.runtime import (
    Container,
    ContainerState,
    Enforced,
    EventStream,
    Host,
    NotRunningError,
    QueryFailedError,
    RuntimeInfo,
    RuntimeRefusedError,
    RuntimeTimeoutError,
    RuntimeUnavailableError,
    UnknownContainerError,
)
from schemas.limits import Amount, Limits
from schemas.units import BYTES_PER_MIB
from tests.simulation.processes import Process
from tests.simulation.world import World


class Mood(StrEnum):
    """How the runtime behaves for the time being."""

    WELL = "well"
    SLOW = "slow"
    HANGING = "hanging"
    FAILING = "failing"
    AWAY = "away"
    PARTIAL = "partial"
    LYING = "lying"
    """Says done and does nothing, or says failed and does it."""
    UNREADABLE = "unreadable"


@dataclass(eq=False)
class Truth:
    """One container as it really is."""

    name: str
    id: str
    image: str
    born_with: Limits
    limits: Limits
    running: bool = True
    started_at: int = 0
    usage: Amount = field(default_factory=Amount)
    cpu_time_us: float = 0.0
    metered_at: float = 0.0
    ours: dict[str, int] = field(default_factory=dict)
    """Generation of our write that each limit in force comes from; absent: not from us."""

    def seen(self) -> Container:
        """What the runtime tells of it."""
        state = ContainerState.RUNNING if self.running else ContainerState.STOPPED
        return Container(self.name, self.id, state, self.image, self.started_at, 4711 if self.running else 0)


@dataclass(eq=False)
class Write:
    """One update inside the runtime."""

    node: str
    truth: Truth
    changes: Limits
    order: Any
    """The command it carries out; None: by hand."""
    waits: bool = False
    """Hangs, and takes effect, or not, some time after its connection broke."""


class Witness:
    """What sees every write and read of the kernel; the invariants derive from it."""

    def write_begins(self, write: Write) -> None:
        """A write of an agent enters the runtime."""

    def write_ends(self, write: Write) -> None:
        """It can have no effect any more."""

    def kernel_changed(self, node: str, truth: Truth) -> None:
        """Something else is in force."""


class Kernel:
    """All containers of a node. Keeps the protocol `ContainerRuntime`, for calls that run in greenlets."""

    def __init__(
        self, world: World, node: str, total: Amount, settle_s: float, timeout_s: float, witness: Witness
    ) -> None:
        self.world = world
        self.node = node
        self.total = total
        self.mood = Mood.WELL
        self.containers_by_name: dict[str, Truth] = {}
        self.process: Process | None = None
        self.events: Callable[[], None] = lambda: None
        self.writing: list[Write] = []
        self.listed: Sequence[Container] | None = None
        """As the agent of the present life last saw them."""
        self.settle_s = settle_s
        self.timeout_s = timeout_s
        self._witness = witness
        self._ids = 0

    # What happens to containers.

    def create(self, name: str, image: str, limits: Limits, usage: Amount) -> Truth:
        """Make and start a container, in place of one of that name."""
        self._ids += 1
        truth = Truth(name, f"{self.node}-{name}-{self._ids}", image, limits, limits, usage=usage)
        self.containers_by_name[name] = truth
        truth.started_at = int(self.world.now * 1000) + 1
        self._told()
        return truth

    def remove(self, name: str) -> Truth | None:
        """Delete a container."""
        truth = self.containers_by_name.pop(name, None)
        if truth is not None:
            truth.running = False
            self._told()
        return truth

    def stop(self, name: str) -> None:
        """End its processes."""
        truth = self.containers_by_name.get(name)
        if truth is not None and truth.running:
            truth.running = False
            truth.ours = {}
            self._told()

    def begin(self, name: str) -> None:
        """Start it (again), with the limits it was created with."""
        truth = self.containers_by_name.get(name)
        if truth is not None:
            truth.running = True
            truth.limits, truth.ours = truth.born_with, {}
            most = truth.limits.memory_limit
            if most is not None and truth.usage.memory > most:  # its memory begins anew, and never exceeds a limit
                truth.usage = Amount(cpu=truth.usage.cpu, memory=most)
            truth.started_at = int(self.world.now * 1000) + 1
            self._told()

    def change_by_hand(self, name: str, changes: Limits) -> None:
        """Somebody else writes."""
        truth = self.containers_by_name.get(name)
        if truth is not None and truth.running:
            truth.limits = truth.limits.merged(changes)
            truth.ours = {k: v for k, v in truth.ours.items() if k not in changes.asked}
            self._witness.kernel_changed(self.node, truth)

    def _told(self) -> None:
        if not self.world.chance(0.1):  # events can be missed
            self.events()

    # The runtime, as the agent calls it.

    def info(self) -> RuntimeInfo:
        """What it is."""
        return RuntimeInfo("simulated", self.total, cgroup_version=2, simulated=True)

    def host(self) -> Host:
        """The machine."""
        return Host(self.total, frozenset(range(self.total.cpu // 1000)))

    def containers(self, *, fresh: bool) -> Sequence[Container]:
        """All containers."""
        if self.listed is not None and not fresh:
            return self.listed
        self._takes(0.002)
        if self.mood in (Mood.AWAY, Mood.UNREADABLE):
            raise RuntimeUnavailableError("no answer from the runtime")
        self.listed = [truth.seen() for truth in self.containers_by_name.values()]
        return self.listed

    def resolve(self, workload: str) -> Container:
        """The container of a name or id."""
        self._takes(0.002)
        if self.mood is Mood.AWAY:
            raise RuntimeUnavailableError("no answer from the runtime")
        for truth in self.containers_by_name.values():
            if workload in (truth.name, truth.id):
                return truth.seen()
        raise UnknownContainerError(f"no container {workload}")

    def read(self, container: Container) -> Enforced:
        """What is in force."""
        self._takes(0.001)
        if self.mood is Mood.UNREADABLE and self.world.chance(0.7):
            raise QueryFailedError("cannot read")
        truth = self._truth(container)
        if truth is None or not truth.running:
            raise NotRunningError(f"{container.name} does not run")
        truth.cpu_time_us += (self.world.now - truth.metered_at) * truth.usage.cpu * 1000
        truth.metered_at = self.world.now
        used = truth.usage.memory * BYTES_PER_MIB
        return Enforced(truth.limits, memory_bytes=used, cpu_time_us=int(truth.cpu_time_us))

    def update(self, container: Container, changes: Limits) -> None:
        """Write, as the mood is."""
        if self.mood is Mood.AWAY:
            raise RuntimeUnavailableError("no answer from the runtime")
        truth = self._truth(container)
        if truth is None or not truth.running:
            raise RuntimeRefusedError(f"{container.name} does not run")
        assert self.process is not None
        write = Write(self.node, truth, changes, order=getattr(getcurrent(), "order", None))
        self.writing.append(write)
        self._witness.write_begins(write)
        mood = self.mood if self.world.chance(0.8) else Mood.WELL
        if mood is Mood.HANGING:
            self._hang(write)
        took = self.world.rng.random() * (self.timeout_s * 0.9 if mood is Mood.SLOW else 0.05)
        applied = _what_applies(mood, changes, self.world)
        self.world.after(took * self.world.rng.random(), self._apply, write, applied)
        self.world.after(took, self._done, write)
        self.process.sleep(took)
        says_done = applied == changes if mood is not Mood.LYING else applied.empty
        if not says_done:
            raise RuntimeRefusedError("failed: exit status 1")

    def open_events(self, since: float | None) -> EventStream:
        """Events are given to the agent directly."""
        raise RuntimeUnavailableError("no stream here")

    def close(self) -> None:
        """Nothing to close."""

    def connection_breaks(self) -> None:
        """The agent died: what hangs has settle_s left to take effect."""
        for write in self.writing:
            if write.waits:
                self._settle(write)

    def _hang(self, write: Write) -> None:
        assert self.process is not None
        write.waits = True
        self.process.sleep(self.timeout_s)
        self._settle(write)
        raise RuntimeTimeoutError(f"no answer within {self.timeout_s} s")

    def _settle(self, write: Write) -> None:
        write.waits = False
        left = self.settle_s * 0.95 * self.world.rng.random()
        if self.world.chance(0.7):
            self.world.after(left * self.world.rng.random(), self._apply, write, write.changes)
        self.world.after(left, self._done, write)

    def _apply(self, write: Write, applied: Limits) -> None:
        truth = write.truth
        here = self.containers_by_name.get(truth.name) is truth and truth.running
        wanted = applied.memory_limit
        if wanted is not None and wanted < truth.usage.memory:
            applied = applied.only({"cpu_limit"})
        if here and not applied.empty:
            truth.limits = truth.limits.merged(applied)
            generation = getattr(write.order, "generation", None)
            for name in applied.asked:
                truth.ours.pop(name, None)
                if generation is not None:
                    truth.ours[name] = generation
            self.world.note("kernel {}: {} now has {}", self.node, truth.name, truth.limits)
            self._witness.kernel_changed(self.node, truth)

    def _done(self, write: Write) -> None:
        if write in self.writing:
            self.writing.remove(write)
            self._witness.write_ends(write)

    def _truth(self, container: Container) -> Truth | None:
        truth = self.containers_by_name.get(container.name)
        return truth if truth is not None and truth.id == container.id else None

    def _takes(self, seconds: float) -> None:
        assert self.process is not None
        if self.mood is Mood.SLOW:
            seconds *= 100
        self.process.sleep(seconds * (0.5 + self.world.rng.random()))


def _what_applies(mood: Mood, changes: Limits, world: World) -> Limits:
    if mood is Mood.FAILING:
        return Limits()
    if mood is Mood.PARTIAL and len(changes.asked) > 1:
        return changes.only({world.rng.choice(sorted(changes.asked))})
    if mood is Mood.LYING and world.chance(0.5):
        return Limits()
    return changes
