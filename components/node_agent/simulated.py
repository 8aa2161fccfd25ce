"""A container runtime that exists in memory only: for development without Podman, benchmarks and fault tests.

It says so: `simulated` in NodeInfo, and in its version.
"""

import itertools
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Final

from components.node_agent.runtime import (
    Container,
    Enforced,
    Host,
    RuntimeEvent,
    RuntimeInfo,
    RuntimeRefusedError,
    RuntimeTimeoutError,
    RuntimeUnavailableError,
    UnknownContainerError,
)
from components.node_agent.simulated_world import SimulatedWorld
from schemas.limits import Amount, Limits

VERSION: Final = "simulated"
TOTAL_MIN: Final = Amount(cpu=8000, memory=16_384)
CPU_AT_FIRST: Final = 500
MEMORY_AT_FIRST: Final = 256
USAGE_AT_FIRST: Final = Amount(cpu=250, memory=64)
ROOM: Final = 8
"""A node made for n containers has room for so many times what they have at first."""


class Fault(Enum):
    """How an update goes wrong."""

    FAIL = auto()
    """Refused; nothing changes."""
    PARTIAL = auto()
    """Refused after memory was applied."""
    HANG = auto()
    """No answer within the time-out. It takes effect `late_after_s` after it began, or never."""
    LIE = auto()
    """Success is said, nothing changes."""
    UNAVAILABLE = auto()
    """The runtime cannot be reached."""


class SimulatedRuntime:
    """Keeps the protocol `ContainerRuntime`; what a person or a test does to its containers is done to `world`."""

    def __init__(
        self,
        total: Amount = TOTAL_MIN,
        *,
        delay_s: float = 0.0,
        timeout_s: float = 10.0,
        late_after_s: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`delay_s` is what each update takes; `sleep` and `clock` can be those of a simulation."""
        self.world = SimulatedWorld(total, clock, epoch_ms, self._tell)
        self.updates = 0
        """How many updates were asked for."""
        self.late_after_s = late_after_s
        self._delay_s = delay_s
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._clock = clock
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._streams: list[SimulatedEvents] = []
        self._events = itertools.count(1)
        self._down = False
        self._last_seen: Sequence[Container] = ()
        self._lock = threading.Lock()

    def fault(self, name: str, *faults: Fault) -> None:
        """Let the next updates of a container go wrong, each in its way."""
        with self._lock:
            self._faults[name].extend(faults)

    def set_down(self, *, down: bool) -> None:
        """Let the whole runtime be out of reach, or back."""
        with self._lock:
            self._down = down
            broken = list(self._streams) if down else []
        for stream in broken:
            stream.put(RuntimeUnavailableError("the simulated runtime ended its event stream"))

    def info(self) -> RuntimeInfo:
        """A simulated runtime, which says so."""
        self._check_up()
        return RuntimeInfo(version=VERSION, total=self.world.total, cgroup_version=2, simulated=True)

    def host(self) -> Host:
        """The simulated machine."""
        return self.world.host()

    def containers(self, *, fresh: bool) -> Sequence[Container]:
        """All containers; without `fresh`, while the runtime is out of reach, as last seen."""
        if not self._down:
            self._last_seen = self.world.containers()
        elif fresh or not self._last_seen:
            self._check_up()
        return self._last_seen

    def resolve(self, workload: str) -> Container:
        """The container of this name or id."""
        found = self.world.find(workload)
        if found is None:
            self._check_up()
            raise UnknownContainerError(f"no container is named {workload} or has it as its full id")
        return found

    def read(self, container: Container) -> Enforced:
        """What the simulated kernel enforces."""
        return self.world.read(container)

    def update(self, container: Container, changes: Limits) -> None:
        """Change limits, after the delay, or go wrong as told."""
        with self._lock:
            self.updates += 1
            waiting = self._faults[container.name]
            fault = waiting.popleft() if waiting else None
        self._check_up()
        if fault is Fault.UNAVAILABLE:
            raise RuntimeUnavailableError("the simulated runtime cannot be reached")
        if fault is Fault.HANG:
            self._hang(container, changes)
        if self._delay_s > 0:
            self._sleep(self._delay_s)
        if fault is Fault.FAIL:
            raise RuntimeRefusedError("the simulated runtime refused")
        if fault is Fault.PARTIAL:
            self.world.apply(container.id, changes.only({"memory_limit"}))
            raise RuntimeRefusedError("the simulated runtime refused the CPU limit")
        if fault is not Fault.LIE and not self.world.apply(container.id, changes):
            raise UnknownContainerError(f"the simulated runtime has no container {container.name}")

    def _hang(self, container: Container, changes: Limits) -> None:
        if self.late_after_s is not None:
            self.world.apply_at(self._clock() + self.late_after_s, container.id, changes)
        self._sleep(self._timeout_s)
        raise RuntimeTimeoutError(f"the simulated runtime gave no answer within {self._timeout_s:g} s")

    def open_events(self, since: float | None) -> "SimulatedEvents":
        """Events from now on."""
        self._check_up()
        stream = SimulatedEvents(self._forget)
        with self._lock:
            self._streams.append(stream)
        return stream

    def close(self) -> None:
        """Nothing to close."""

    def _check_up(self) -> None:
        if self._down:
            raise RuntimeUnavailableError("the simulated runtime is switched off; switch it on")

    def _tell(self, container_id: str, action: str) -> None:
        with self._lock:
            streams, number = list(self._streams), next(self._events)
        for stream in streams:
            stream.put(RuntimeEvent(container_id, action, number))

    def _forget(self, stream: "SimulatedEvents") -> None:
        with self._lock:
            self._streams.remove(stream)


class SimulatedEvents:
    """A stream of simulated events."""

    def __init__(self, ended: Callable[["SimulatedEvents"], None]) -> None:
        self._queue: queue.SimpleQueue[RuntimeEvent | RuntimeUnavailableError | None] = queue.SimpleQueue()
        self._ended = ended

    def put(self, event: RuntimeEvent | RuntimeUnavailableError) -> None:
        """Tell an event, or that the runtime died."""
        self._queue.put(event)

    def __iter__(self) -> Iterator[RuntimeEvent]:
        """Wait for events."""
        try:
            while (event := self._queue.get()) is not None:
                if isinstance(event, RuntimeUnavailableError):
                    raise event
                yield event
        finally:
            self._ended(self)

    def close(self) -> None:
        """End the iteration."""
        self._queue.put(None)


def populated(containers: int, *, timeout_s: float = 10.0) -> SimulatedRuntime:
    """A runtime with containers `sim-1` to `sim-n`, on a node with room to scale all of them."""
    room = Amount(cpu=CPU_AT_FIRST * ROOM * containers, memory=MEMORY_AT_FIRST * ROOM * containers)
    runtime = SimulatedRuntime(room.larger(TOTAL_MIN), timeout_s=timeout_s)
    limits = Limits(cpu_limit=CPU_AT_FIRST, memory_limit=MEMORY_AT_FIRST)
    for number in range(1, containers + 1):
        runtime.world.add(f"sim-{number}", limits, usage=USAGE_AT_FIRST)
    return runtime
