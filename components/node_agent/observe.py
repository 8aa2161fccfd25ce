"""Looks at containers and at the node: blocking work that the component hands out, and what comes back from it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from components.node_agent.runtime import (
    Container,
    ContainerRuntime,
    ContainerRuntimeError,
    Enforced,
    NotRunningError,
)
from components.node_agent.stamps import Stamps
from schemas.enums import Reason
from schemas.limits import Amount


@dataclass(frozen=True, slots=True)
class Look:
    """One container, and what binds it; no reading: it is stopped, or cannot be read."""

    container: Container
    reading: Enforced | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """Containers, read after the stamp was taken."""

    seq: int
    at: float
    """Seconds of the clock that never jumps."""
    looks: tuple[Look, ...]
    total: Amount
    """What the machine has."""
    problem: str | None = None
    """Something that could not be read, and what to do."""
    complete: bool = True
    """Whether there are no other containers; else the runtime could not be asked, and these are as last seen."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Nothing could be observed, and why."""

    reason: Reason
    text: str


class Observer:
    """Reads containers. Thread-safe."""

    def __init__(self, runtime: ContainerRuntime, stamps: Stamps, clock: Callable[[], float]) -> None:
        self._runtime = runtime
        self._stamps = stamps
        self._clock = clock

    def all(self, *, fresh: bool) -> Observation | Unseen:
        """Every container. Not `fresh`: the runtime is asked only if what it said last turns out to be stale.

        While the runtime cannot be asked, the kernel still can: about the containers that were seen last.
        """
        try:
            observation, stale = self._look(self._runtime.containers(fresh=fresh))
            if stale and not fresh:
                observation, _ = self._look(self._runtime.containers(fresh=True))
        except ContainerRuntimeError as error:
            return self._last_seen(f"cannot tell which containers there are: {error}")
        return observation

    def _last_seen(self, problem: str) -> Observation | Unseen:
        try:
            observation, _ = self._look(self._runtime.containers(fresh=False))
        except ContainerRuntimeError:
            return Unseen(Reason.QUERY_FAILED, problem)
        living = tuple(look for look in observation.looks if look.reading is not None)
        return replace(observation, looks=living, problem=problem, complete=False)

    def one(self, workload: str) -> Observation | Unseen:
        """One container, by exact name or full id."""
        try:
            observation, _ = self._look([self._runtime.resolve(workload)])
        except ContainerRuntimeError as error:
            unknown = error.reason is Reason.UNKNOWN_WORKLOAD
            return Unseen(error.reason if unknown else Reason.QUERY_FAILED, str(error))
        if observation.problem is not None:
            return Unseen(Reason.QUERY_FAILED, observation.problem)
        return observation

    def _look(self, containers: Iterable[Container]) -> tuple[Observation, bool]:
        """Read each one that lives; also, whether one is dead though the runtime said it lives."""
        seq, at = self._stamps.next(), self._clock()
        looks, stale, problem = [], False, None
        for container in containers:
            reading = None
            if container.alive:
                try:
                    reading = self._runtime.read(container)
                except NotRunningError:
                    stale = True
                except ContainerRuntimeError as error:
                    problem = str(error)
            looks.append(Look(container, reading))
        return Observation(seq, at, tuple(looks), self._runtime.host().total, problem), stale
