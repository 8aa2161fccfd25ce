"""CPU in use, from the CPU time that the kernel counts."""

from dataclasses import dataclass
from typing import Final

from components.node_agent.runtime import Container, Enforced
from schemas.limits import Amount
from schemas.units import BYTES_PER_MIB

SHORTEST_SPAN_S: Final = 0.2
"""Closer readings tell nothing: the kernel counts CPU time in steps of some milliseconds."""

YOUNGEST_AGE_MS: Final = 2000
"""Over a shorter life the average is that of the start alone, which can be more than the machine has."""


@dataclass(slots=True)
class _Sample:
    cpu_time_us: int
    at: float
    millicores: int


class UsageMeter:
    """Turns readings of containers into use per second. Bounded by the containers it is told are there."""

    def __init__(self) -> None:
        self._samples: dict[str, _Sample] = {}

    def usage(self, container: Container, reading: Enforced, at: float, epoch_ms: int) -> Amount:
        """Use between this reading, made `at` (seconds), and the one before.

        The first one counts over the container's life, if that was long enough to tell; else it is 0.
        """
        memory = reading.memory_bytes // BYTES_PER_MIB
        last = self._samples.get(container.id)
        if last is None or reading.cpu_time_us < last.cpu_time_us:
            age_ms = epoch_ms - container.started_at
            cpu = reading.cpu_time_us // age_ms if container.started_at and age_ms >= YOUNGEST_AGE_MS else 0
        elif at - last.at < SHORTEST_SPAN_S:
            return Amount(cpu=last.millicores, memory=memory)
        else:
            cpu = round((reading.cpu_time_us - last.cpu_time_us) / (at - last.at) / 1000)
        self._samples[container.id] = _Sample(reading.cpu_time_us, at, cpu)
        return Amount(cpu=cpu, memory=memory)

    def keep_only(self, container_ids: set[str]) -> None:
        """Forget containers that are gone."""
        for gone in self._samples.keys() - container_ids:
            del self._samples[gone]
