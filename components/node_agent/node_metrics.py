"""Use of the node as a whole."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import psutil

from schemas.limits import Amount
from schemas.units import BYTES_PER_MIB, MILLICORES_PER_CPU


@dataclass(frozen=True, slots=True)
class NodeSample:
    """One look at the node. Bytes; counters since it booted."""

    cpu_percent: float
    cpu_count: int
    used_memory: int
    total_memory: int
    rx_bytes: int = 0
    tx_bytes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0


class NodeSampler(Protocol):
    """Looks at the node. Not called at the same time from two threads."""

    def sample(self) -> NodeSample:
        """The use now; of CPU since the sample before."""


class HostSampler:
    """The machine this runs on."""

    def __init__(self) -> None:
        psutil.cpu_percent()  # the first call only remembers where counting begins

    def sample(self) -> NodeSample:
        """The use of the machine."""
        memory = psutil.virtual_memory()
        network = psutil.net_io_counters()
        disks = psutil.disk_io_counters()  # None where there are no disks
        return NodeSample(
            cpu_percent=max(0.0, psutil.cpu_percent()),
            cpu_count=psutil.cpu_count() or 1,
            used_memory=memory.total - memory.available,
            total_memory=memory.total,
            rx_bytes=network.bytes_recv if network else 0,
            tx_bytes=network.bytes_sent if network else 0,
            read_bytes=disks.read_bytes if disks else 0,
            write_bytes=disks.write_bytes if disks else 0,
        )


class SimulatedSampler:
    """A simulated machine: the use of its containers, and nothing else."""

    def __init__(self, total: Amount, usage: Callable[[], Amount]) -> None:
        self._total = total
        self._usage = usage

    def sample(self) -> NodeSample:
        """The use of the simulated machine."""
        usage = self._usage()
        return NodeSample(
            cpu_percent=min(100.0, 100 * usage.cpu / self._total.cpu),
            cpu_count=max(1, self._total.cpu // MILLICORES_PER_CPU),
            used_memory=usage.memory * BYTES_PER_MIB,
            total_memory=self._total.memory * BYTES_PER_MIB,
        )
