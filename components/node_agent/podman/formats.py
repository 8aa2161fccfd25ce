"""How cgroup v1 and v2 write down limits and use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from components.node_agent.podman.cgroups import read_text
from components.node_agent.podman.peaks import MemoryUse
from components.node_agent.podman.weights import Weights
from components.node_agent.runtime import DEFAULT_PERIOD_US
from schemas.limits import CPU_SHARES_MAX, CPU_SHARES_MIN

UNLIMITED_BYTES: Final = 2**60
"""cgroup v1 writes "unlimited" as the largest page count, 9223372036854771712 with pages of 4 KiB."""


class CgroupFiles(Protocol):
    """One version's files. Memory in bytes; None: unlimited. Unreadable files raise OSError or ValueError."""

    @property
    def file_of(self) -> Mapping[str, str]:
        """The file that each limit is written to; absent where the kernel or a missing delegation forbids it."""

    def quota(self, directory: str) -> tuple[int | None, int]:
        """CFS quota and period, microseconds."""

    def memory(self, directory: str) -> int | None:
        """Memory limit."""

    def memory_and_swap(self, directory: str) -> tuple[int | None, bool]:
        """Limit of memory and swap together, and whether the kernel accounts for swap at all."""

    def memory_use(self, directory: str) -> MemoryUse:
        """Memory in use; the inactive page cache counts as droppable, as in kubelet's working set."""

    def cpu_time_us(self, directory: str) -> int:
        """CPU time used since the cgroup was made."""

    def cpuset(self, directory: str) -> str | None:
        """CPUs in effect; None: not told here."""

    def shares(self, directory: str, container_id: str, weights: Weights) -> int | None:
        """CPU shares; None: not told here."""


class _V1:
    """One hierarchy per controller."""

    file_of: Mapping[str, str] = MappingProxyType(
        {
            "cpu_limit": "cpu.cfs_quota_us",
            "cpu_shares": "cpu.shares",
            "memory_limit": "memory.limit_in_bytes",
            "cpuset_cpus": "cpuset.cpus",
        }
    )

    def quota(self, directory: str) -> tuple[int | None, int]:
        quota = _text(f"{directory}/cpu.cfs_quota_us")
        if quota is None:  # a kernel built without CFS bandwidth control
            return None, DEFAULT_PERIOD_US
        return (int(quota) if int(quota) > 0 else None), int(read_text(f"{directory}/cpu.cfs_period_us"))

    def memory(self, directory: str) -> int | None:
        return _bounded(read_text(f"{directory}/memory.limit_in_bytes"))

    def memory_and_swap(self, directory: str) -> tuple[int | None, bool]:
        text = _text(f"{directory}/memory.memsw.limit_in_bytes")
        return (None, False) if text is None else (_bounded(text), True)

    def memory_use(self, directory: str) -> MemoryUse:
        used = int(read_text(f"{directory}/memory.usage_in_bytes"))
        droppable = _field(read_text(f"{directory}/memory.stat"), "total_inactive_file")
        highest = int(_text(f"{directory}/memory.max_usage_in_bytes") or 0)
        return MemoryUse(max(0, used - droppable), droppable, highest)

    def cpu_time_us(self, directory: str) -> int:
        return int(read_text(f"{directory}/cpuacct.usage")) // 1000

    def cpuset(self, directory: str) -> str | None:
        return _text(f"{directory}/cpuset.effective_cpus") or _text(f"{directory}/cpuset.cpus")

    def shares(self, directory: str, container_id: str, weights: Weights) -> int | None:
        return min(CPU_SHARES_MAX, max(CPU_SHARES_MIN, int(read_text(f"{directory}/cpu.shares"))))


class _V2:
    """One hierarchy. A file is absent where its controller is not enabled, and at the root."""

    file_of: Mapping[str, str] = MappingProxyType(
        {
            "cpu_limit": "cpu.max",
            "cpu_shares": "cpu.weight",
            "memory_limit": "memory.max",
            "cpuset_cpus": "cpuset.cpus",
        }
    )

    def quota(self, directory: str) -> tuple[int | None, int]:
        text = _text(f"{directory}/cpu.max")
        if text is None:
            return None, DEFAULT_PERIOD_US
        quota, period = text.split()
        return (None if quota == "max" else int(quota)), int(period)

    def memory(self, directory: str) -> int | None:
        return _unless_max(_text(f"{directory}/memory.max"))

    def memory_and_swap(self, directory: str) -> tuple[int | None, bool]:
        text = _text(f"{directory}/memory.swap.max")
        swap = _unless_max(text)
        return (None if swap is None else swap + (self.memory(directory) or 0)), text is not None

    def memory_use(self, directory: str) -> MemoryUse:
        used = int(_text(f"{directory}/memory.current") or 0)
        droppable = _field(_text(f"{directory}/memory.stat") or "", "inactive_file")
        highest = int(_text(f"{directory}/memory.peak") or 0)  # since Linux 5.19
        return MemoryUse(max(0, used - droppable), droppable, highest)

    def cpu_time_us(self, directory: str) -> int:
        return _field(_text(f"{directory}/cpu.stat") or "", "usage_usec")

    def cpuset(self, directory: str) -> str | None:
        return _text(f"{directory}/cpuset.cpus.effective")

    def shares(self, directory: str, container_id: str, weights: Weights) -> int | None:
        weight = _text(f"{directory}/cpu.weight")
        return None if weight is None else weights.shares(container_id, int(weight))


FORMATS: Final[Mapping[int, CgroupFiles]] = MappingProxyType({1: _V1(), 2: _V2()})


def _text(path: str) -> str | None:
    """A file's text; None when it is absent or empty, or its directory is gone."""
    try:
        return read_text(path).strip() or None
    except FileNotFoundError:
        return None


def _field(text: str, name: str) -> int:
    start = f"{name} "
    return next((int(line[len(start) :]) for line in text.splitlines() if line.startswith(start)), 0)


def _bounded(text: str) -> int | None:
    value = int(text)
    return None if value >= UNLIMITED_BYTES else value


def _unless_max(text: str | None) -> int | None:
    return None if text is None or text == "max" else int(text)
