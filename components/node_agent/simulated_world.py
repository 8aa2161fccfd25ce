"""The containers of the simulated runtime, what its kernel enforces on them, and hands to disturb them."""

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from components.node_agent.runtime import Container, ContainerState, Enforced, Host, NotRunningError, workload_name
from schemas.limits import Amount, Limits
from schemas.units import BYTES_PER_MIB, MILLICORES_PER_CPU


@dataclass
class _Member:
    container: Container
    created_with: Limits
    limits: Limits
    usage: Amount
    counted_at: float
    cpu_time_us: float = 0.0
    parents: Limits = field(default_factory=Limits)


class SimulatedWorld:
    """Thread-safe. Like Podman 4.3, it forgets updates when a container restarts."""

    def __init__(
        self,
        total: Amount,
        clock: Callable[[], float],
        epoch_ms: Callable[[], int],
        tell: Callable[[str, str], None],
    ) -> None:
        """`tell` hears of events: container id and action."""
        self.total = total
        self._clock = clock
        self._epoch_ms = epoch_ms
        self._tell = tell
        self._members: dict[str, _Member] = {}
        self._late: list[tuple[float, str, Limits]] = []
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    def add(
        self,
        name: str,
        limits: Limits,
        *,
        usage: Amount | None = None,
        image: str = "simulated",
        labels: Mapping[str, str] | None = None,
        infra: bool = False,
    ) -> Container:
        """Create and start a container, in place of one of the same name."""
        with self._lock:
            if self.find(name) is not None:
                self.remove(name)
            number = next(self._numbers)
            container = Container(
                name=workload_name(name, f"{number:064x}"),
                id=f"{number:064x}",
                state=ContainerState.RUNNING,
                image_id=image,
                started_at=self._epoch_ms(),
                pid=number,
                infra=infra,
                labels=labels or {},
            )
            self._members[container.id] = _Member(container, limits, limits, usage or Amount(), self._clock())
        self._tell(container.id, "start")
        return container

    def remove(self, name: str) -> None:
        """Remove a container. Raises KeyError when there is none; so do the others below."""
        with self._lock:
            container_id = self._named(name).container.id
            del self._members[container_id]
        self._tell(container_id, "remove")

    def stop(self, name: str) -> None:
        """Stop a container."""
        self._tell(self._set_state(name, ContainerState.STOPPED), "died")

    def pause(self, name: str) -> None:
        """Freeze a container."""
        self._tell(self._set_state(name, ContainerState.PAUSED), "pause")

    def restart(self, name: str) -> None:
        """Stop and start a container: the same id, and the limits of its creation."""
        with self._lock:
            member = self._named(name)
            member.limits = member.created_with
            member.cpu_time_us, member.counted_at = 0.0, self._clock()
            member.container = replace(member.container, started_at=self._epoch_ms())
        self._tell(self._set_state(name, ContainerState.RUNNING), "start")

    def set_limits(self, name: str, limits: Limits) -> None:
        """Change limits behind everybody's back."""
        with self._lock:
            member = self._named(name)
            member.limits = member.limits.merged(limits)

    def set_usage(self, name: str, usage: Amount) -> None:
        """Let a container use so much from now on."""
        with self._lock:
            member = self._named(name)
            self._count(member)
            member.usage = usage

    def set_parents(self, name: str, parents: Limits) -> None:
        """Let the container's pod or slice allow no more than this."""
        with self._lock:
            self._named(name).parents = parents

    def limits_of(self, name: str) -> Limits:
        """What the kernel enforces."""
        with self._lock:
            self._land()
            member = self._named(name)
            return member.limits.merged(_lower(member.limits, member.parents))

    def usage(self) -> Amount:
        """The use of all running containers together."""
        with self._lock:
            return sum((m.usage for m in self._members.values() if m.container.alive), Amount())

    def host(self) -> Host:
        """The machine."""
        return Host(self.total, frozenset(range(max(1, self.total.cpu // MILLICORES_PER_CPU))))

    def containers(self) -> Sequence[Container]:
        """All containers."""
        with self._lock:
            return [member.container for member in self._members.values()]

    def find(self, workload: str) -> Container | None:
        """The container of this exact name or id."""
        with self._lock:
            return next((c for c in self.containers() if workload in (c.name, c.id)), None)

    def read(self, container: Container) -> Enforced:
        """What the kernel enforces on a container now. Raises NotRunningError."""
        with self._lock:
            self._land()
            member = self._members.get(container.id)
            if member is None or not member.container.alive:
                raise NotRunningError(f"{container.name} does not run; start it first")
            self._count(member)
            every_cpu = f"0-{max(self.host().cpus)}"  # in short, as kernels write it
            own = Limits(cpu_shares=1024, cpuset_cpus=every_cpu).merged(member.limits)
            return Enforced(
                limits=own.merged(_lower(own, member.parents)),
                parents=member.parents,
                memory_bytes=member.usage.memory * BYTES_PER_MIB,
                cpu_time_us=round(member.cpu_time_us),
            )

    def apply(self, container_id: str, changes: Limits) -> bool:
        """Give a container limits; False when it is gone."""
        with self._lock:
            member = self._members.get(container_id)
            if member is not None:
                member.limits = member.limits.merged(changes)
            return member is not None

    def apply_at(self, moment: float, container_id: str, changes: Limits) -> None:
        """Give a container limits later, by the clock."""
        with self._lock:
            self._late.append((moment, container_id, changes))

    def _land(self) -> None:
        now = self._clock()
        due = [entry for entry in self._late if entry[0] <= now]
        self._late = [entry for entry in self._late if entry[0] > now]
        for _, container_id, changes in due:
            self.apply(container_id, changes)

    def _count(self, member: _Member) -> None:
        """Add the CPU time used since it was last counted: a millicore is 1 ms of CPU time a second."""
        now = self._clock()
        limit = member.limits.cpu_limit
        used = member.usage.cpu if limit is None else min(member.usage.cpu, limit)
        member.cpu_time_us += used * (now - member.counted_at) * 1000
        member.counted_at = now

    def _set_state(self, name: str, state: ContainerState) -> str:
        with self._lock:
            member = self._named(name)
            member.container = replace(member.container, state=state)
            return member.container.id

    def _named(self, name: str) -> _Member:
        for member in self._members.values():
            if member.container.name == name:
                return member
        raise KeyError(name)


def _lower(own: Limits, parents: Limits) -> Limits:
    """Those of the parents' limits that are numbers and bind more tightly than the container's own."""
    return parents.only(
        {
            name
            for name, above in parents.asked.items()
            if isinstance(above, int) and ((mine := getattr(own, name)) is None or above < mine)
        }
    )
