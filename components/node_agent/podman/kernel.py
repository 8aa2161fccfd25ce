"""Reads what the kernel enforces: the minimum from a container's own cgroup up to the root."""

import errno
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from components.node_agent.podman.cgroups import CgroupTree, Levels, Placement, read_text
from components.node_agent.podman.formats import FORMATS
from components.node_agent.podman.peaks import MemoryUse, RecentPeaks
from components.node_agent.podman.weights import Weights
from components.node_agent.runtime import (
    DEFAULT_PERIOD_US,
    Container,
    Enforced,
    Host,
    NotRunningError,
    QueryFailedError,
)
from schemas.limits import Amount, Limits, parse_cpuset
from schemas.units import BYTES_PER_MIB, MILLICORES_PER_CPU

PLACEMENTS_MAX: Final = 20_000

CONTROLLER_OF: Final = {
    "cpu_limit": "cpu",
    "cpu_shares": "cpu",
    "memory_limit": "memory",
    "cpuset_cpus": "cpuset",
}
NO_CGROUP: Final = (
    "the container has no cgroup of its own; create it without --cgroups=disabled, "
    "and rootless ones on a machine with cgroup v2"
)


def not_delegated(controller: str) -> str:
    """Why a limit cannot be changed where its controller is not delegated, and what to do."""
    return (
        f"the cgroup controller {controller} is not delegated here; for rootless Podman: "
        "`systemctl edit user@.service`, add [Service] Delegate=cpu cpuset io memory pids, and log in anew"
    )


@dataclass(frozen=True, slots=True)
class OwnValues:
    """What stands in a container's own cgroup, as the OCI runtime wrote it. None: unlimited."""

    quota_us: int | None
    period_us: int
    memory: int | None
    """Bytes."""
    swap: int | None
    """Memory and swap together, bytes."""
    swap_known: bool
    """Whether the kernel accounts for swap; without, `swap` must not be written."""


class KernelReader:
    """Limits and use of containers, read from cgroup files. Thread-safe; remembers where containers lie."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Raises QueryFailedError when no cgroup hierarchy is mounted below `root`."""
        self._root = root
        self._tree = CgroupTree(root)
        self.weights = Weights()
        self._peaks = RecentPeaks()
        self._placements: dict[tuple[str, int], tuple[str, Placement]] = {}

    @property
    def version(self) -> int:
        """The cgroup version, 1 or 2."""
        return self._tree.version

    def alive(self, container: Container) -> bool:
        """Whether the container's first process runs, and is still the container's."""
        try:
            return container.pid > 0 and bool(self._placement(container).levels["cpu"].own)
        except (NotRunningError, QueryFailedError):
            return False

    def read(self, container: Container) -> Enforced:
        """What binds the container now. Raises NotRunningError or QueryFailedError."""
        try:
            return self._read(container, self._placement(container))
        except (OSError, ValueError) as error:
            raise _named(container, error) from error

    def own_values(self, container: Container) -> OwnValues:
        """What the OCI runtime wrote for the container. Raises NotRunningError or QueryFailedError."""
        placement = self._placement(container)
        form, cpu, memory = FORMATS[placement.version], placement.levels["cpu"].own, placement.levels["memory"].own
        if not cpu or not memory:
            raise QueryFailedError(NO_CGROUP)
        try:
            # crun wrote into the scope only, into the cgroup below it only, or into both, by version.
            quotas = [form.quota(level) for level in cpu]
            limits = [(form.memory(level), level) for level in memory]
            quota, period = next((pair for pair in quotas if pair[0]), quotas[0])
            limit, level = next((pair for pair in limits if pair[0] is not None), limits[0])
            return OwnValues(quota, period, limit, *form.memory_and_swap(level))
        except (OSError, ValueError) as error:
            raise _named(container, error) from error

    def host(self) -> Host:
        """CPUs that are online and usable, and memory of the machine. Raises QueryFailedError."""
        try:
            cpus = parse_cpuset(read_text(str(self._root / "sys/devices/system/cpu/online")).strip())
            memory = next(
                int(line.split()[1]) * 1024
                for line in read_text(str(self._root / "proc/meminfo")).splitlines()
                if line.startswith("MemTotal:")
            )
            top = self._tree.root_directory("cpuset")
            usable = None if top is None else FORMATS[self.version].cpuset(top)
        except (OSError, ValueError, StopIteration) as error:
            raise QueryFailedError(f"cannot tell CPUs and memory of the machine: {error}") from error
        if usable:
            cpus &= parse_cpuset(usable)
        return Host(Amount(cpu=len(cpus) * MILLICORES_PER_CPU, memory=memory // BYTES_PER_MIB), cpus)

    def _placement(self, container: Container) -> Placement:
        """Where the container lies. Its process's membership is read anew each time, since pids are used again."""
        if container.pid <= 0:
            raise NotRunningError(f"{container.name} does not run; start it first")
        memberships = self._tree.memberships(container.pid)
        key = (container.id, container.pid)
        known = self._placements.get(key)
        if known is not None and known[0] == memberships:
            return known[1]
        placement = self._tree.place(container.id, memberships)
        if len(self._placements) >= PLACEMENTS_MAX:
            self._placements.clear()
        self._placements[key] = (memberships, placement)
        return placement

    def _read(self, container: Container, placement: Placement) -> Enforced:
        form = FORMATS[placement.version]
        cpu, memory = placement.levels["cpu"], placement.levels["memory"]
        cpuset = placement.levels.get("cpuset", Levels((), ()))
        quotas = [form.quota(level) for level in cpu.own]
        parents = Limits(
            cpu_limit=_least(_millicores(*form.quota(level)) for level in cpu.above),
            memory_limit=_mib(_least(map(form.memory, memory.above))),
            cpuset_cpus=_first(form.cpuset, cpuset.above),
        )
        limits = Limits(
            cpu_limit=_least((*(_millicores(*quota) for quota in quotas), parents.cpu_limit)),
            memory_limit=_least((_mib(_least(map(form.memory, memory.own))), parents.memory_limit)),
            cpu_shares=form.shares(cpu.own[0], container.id, self.weights) if cpu.own else None,
            cpuset_cpus=_first(form.cpuset, cpuset.own) or parents.cpuset_cpus,
        )
        memory_use, cpu_time = MemoryUse(0), 0
        if cpu.own and memory.own:
            memory_use = form.memory_use(memory.own[-1])
            cpu_time = form.cpu_time_us(placement.levels.get("cpuacct", cpu).own[-1])
        period = next((period for quota, period in quotas if quota), quotas[0][1] if quotas else DEFAULT_PERIOD_US)
        peak = self._peaks.seen((container.id, container.pid), memory_use, time.monotonic())
        return Enforced(limits, parents, period, memory_use.used, cpu_time, _unchangeable(placement), peak)


def _unchangeable(placement: Placement) -> dict[str, str]:
    """Limits that have no file to be written to, and why. Raises FileNotFoundError when the cgroup is gone."""
    missing = {}
    for limit, file in FORMATS[placement.version].file_of.items():
        levels = placement.levels.get(CONTROLLER_OF[limit])
        if levels is None:
            missing[limit] = not_delegated(CONTROLLER_OF[limit])
        elif not levels.own:
            missing[limit] = NO_CGROUP
        elif not os.access(f"{levels.own[0]}/{file}", os.F_OK):
            Path(levels.own[0]).stat()
            missing[limit] = not_delegated(CONTROLLER_OF[limit])
    return missing


def _named(container: Container, error: OSError | ValueError) -> NotRunningError | QueryFailedError:
    if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENODEV):
        return NotRunningError(f"{container.name} has just stopped")
    return QueryFailedError(f"cannot read the cgroup of {container.name}: {error}")


def _millicores(quota_us: int | None, period_us: int) -> int | None:
    return None if quota_us is None else max(1, round(quota_us * MILLICORES_PER_CPU / period_us))


def _mib(value: int | None) -> int | None:
    return None if value is None else max(1, value // BYTES_PER_MIB)


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _first(read: Callable[[str], str | None], directories: Iterable[str]) -> str | None:
    return next((text for text in map(read, directories) if text is not None), None)
