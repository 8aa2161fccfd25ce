"""What the agent needs of a container runtime: a small blocking protocol, each call bounded in time.

Podman (`podman/`) and the simulated runtime (`simulated.py`) keep it. Errors are typed, and each knows its Reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final, Protocol

from schemas.enums import Reason
from schemas.limits import Amount, Limits
from schemas.message import is_name
from schemas.units import BYTES_PER_MIB

DEFAULT_PERIOD_US: Final = 100_000
NO_LIMITS: Final = Limits()
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def workload_name(name: str, container_id: str) -> str:
    """What a container is called on the bus: its name, or its full id where no topic can hold the name.

    Left out it would not be counted, and more would be granted on its node than is there.
    """
    return name if is_name(name) else container_id


class ContainerState(StrEnum):
    """What a container does, as far as limits care."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    """Created, exited, or being removed: it has no processes, and no limits in force."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container as the runtime tells of it."""

    name: str
    """See `workload_name`."""
    id: str
    """The full id; a re-created container has another one."""
    state: ContainerState
    image_id: str = ""
    started_at: int = 0
    """UTC epoch ms; 0: never started."""
    pid: int = 0
    """Its first process in the host's PID namespace; 0: none."""
    infra: bool = False
    """Holds the namespaces of a pod, and runs nothing of the user's."""
    pod: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    @property
    def alive(self) -> bool:
        """Running or paused: it holds resources and can be given others."""
        return self.state is not ContainerState.STOPPED


@dataclass(frozen=True, slots=True)
class Enforced:
    """What the kernel enforces on a container, and what it uses, read at one moment."""

    limits: Limits
    """The minimum over the container's own cgroup and everything above it."""
    parents: Limits = NO_LIMITS
    """The minimum above the container: what its pod and slices allow."""
    period_us: int = DEFAULT_PERIOD_US
    """CFS period of the container, microseconds."""
    memory_bytes: int = 0
    """Memory that cannot be taken back without harm (without the inactive page cache)."""
    cpu_time_us: int = 0
    """CPU time since the container started, microseconds."""
    unchangeable: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Limits that cannot be changed for this container, and why, with the remedy."""
    peak_bytes: int = 0
    """The most of it that was needed of late, as far as is known; 0: not known."""

    @property
    def memory_used(self) -> int:
        """Memory in use, MiB, rounded up."""
        return -(-self.memory_bytes // BYTES_PER_MIB)

    @property
    def memory_needed(self) -> int:
        """Memory in use now or a moment ago, MiB, rounded up."""
        return -(-max(self.memory_bytes, self.peak_bytes) // BYTES_PER_MIB)


@dataclass(frozen=True, slots=True)
class Host:
    """The machine."""

    total: Amount
    cpus: frozenset[int]
    """Numbers of the CPUs that are online."""


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """What a runtime is and can do on this node."""

    version: str
    total: Amount
    cgroup_version: int = 0
    rootless: bool = False
    simulated: bool = False
    unsupported: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Limits that can be changed on no container here, and why, with the remedy."""


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """Something happened to a container. Events can be missed, and come twice."""

    container_id: str
    action: str
    time_nano: int


class ContainerRuntimeError(Exception):
    """The runtime could not do what it was asked. The text says what to do."""

    reason: ClassVar[Reason] = Reason.RUNTIME_ERROR


class UnknownContainerError(ContainerRuntimeError):
    """No container has this exact name or full id."""

    reason = Reason.UNKNOWN_WORKLOAD


class NotRunningError(ContainerRuntimeError):
    """The container has no processes, so no limits are in force."""

    reason = Reason.NOT_RUNNING


class RuntimeUnavailableError(ContainerRuntimeError):
    """The runtime could not be reached; nothing was asked of it."""


class RuntimeRefusedError(ContainerRuntimeError):
    """The runtime answered with an error. What it did before that, only the kernel knows."""


class RuntimeTimeoutError(ContainerRuntimeError):
    """The connection broke, or no answer came in time: the outcome is unknown, and may still come."""

    reason = Reason.RUNTIME_TIMEOUT


class QueryFailedError(ContainerRuntimeError):
    """What is in force could not be read."""

    reason = Reason.QUERY_FAILED


class EventStream(Protocol):
    """An open stream of events."""

    def __iter__(self) -> Iterator[RuntimeEvent]:
        """Wait for events; ends when closed or long idle. Raises ContainerRuntimeError when it breaks."""

    def close(self) -> None:
        """End the iteration, from whatever thread."""


class ContainerRuntime(Protocol):
    """A container runtime of one node. Called from several threads at once; every call is bounded in time."""

    def info(self) -> RuntimeInfo:
        """What it is and can do. May be slow. Raises ContainerRuntimeError."""

    def host(self) -> Host:
        """The machine as the kernel shows it. Cheap. Raises QueryFailedError."""

    def containers(self, *, fresh: bool) -> Sequence[Container]:
        """All containers, stopped ones too.

        Not `fresh`: as last seen, without asking the runtime if that can be avoided; and when it cannot be asked.
        Raises ContainerRuntimeError.
        """

    def resolve(self, workload: str) -> Container:
        """The container with this exact name or full id, as it is now.

        Raises UnknownContainerError when there is none, or another ContainerRuntimeError when that cannot be told.
        """

    def read(self, container: Container) -> Enforced:
        """What the kernel enforces now. Raises NotRunningError, or QueryFailedError."""

    def update(self, container: Container, changes: Limits) -> None:
        """Give a running container these limits, in one call, and leave the others as they are.

        Raises RuntimeUnavailableError when nothing was sent, RuntimeRefusedError when the runtime answered with an
        error, RuntimeTimeoutError when the outcome is unknown.
        """

    def open_events(self, since: float | None) -> EventStream:
        """Events of containers from `since` (epoch seconds; None: from now) on. Returns when the stream stands."""

    def close(self) -> None:
        """Close connections."""
