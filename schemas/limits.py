"""Limits of a workload and amounts of a node: the two shapes in which resources travel."""

from functools import lru_cache
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

CPU_SHARES_MIN: Final = 2
CPU_SHARES_MAX: Final = 262_144
CPU_TOLERANCE_MILLICORES: Final = 10
MEMORY_TOLERANCE_MIB: Final = 1
CPU_LISTS_REMEMBERED: Final = 1024
"""The same few come with every observation of every container."""
SHARES_PER_WEIGHT: Final = 32
"""A step of cgroup v2's weight, in shares, rounded up."""

LARGEST_QUANTITY: Final = 2**40
"""Far above any machine; keeps arithmetic and SQLite's integers safe from absurd numbers."""

Millicores = Annotated[int, Field(strict=True, gt=0, le=LARGEST_QUANTITY, description="CPU, millicores")]
MiB = Annotated[int, Field(strict=True, gt=0, le=LARGEST_QUANTITY, description="memory, MiB")]


@lru_cache(CPU_LISTS_REMEMBERED)
def parse_cpuset(text: str) -> frozenset[int]:
    """CPU numbers of a list such as "0-2,4". Raises ValueError when it is none, or empty."""
    cpus: set[int] = set()
    for part in text.split(","):
        ends = part.strip().split("-")
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
            raise ValueError(f"{text!r} is no CPU list; write 0-2,4")
        low, high = int(ends[0]), int(ends[-1])
        if low > high or high > 8191:
            raise ValueError(f"{text!r} is no CPU list; ranges rise and CPU numbers are at most 8191")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


class Limits(BaseModel):
    """Limits of one container.

    In a target or desired an absent field is not asked for and not compared; in an actual it is unlimited.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu_limit: Millicores | None = Field(None, description="CPU limit, millicores (2000 is 2 CPUs)")
    memory_limit: MiB | None = Field(None, description="memory limit, MiB")
    cpu_shares: Annotated[int, Field(strict=True, ge=CPU_SHARES_MIN, le=CPU_SHARES_MAX)] | None = Field(
        None, description="relative CPU weight, 2 to 262144"
    )
    cpuset_cpus: Annotated[str, Field(strict=True, max_length=1024)] | None = Field(
        None, description='CPUs it may run on, such as "0-2,4"'
    )

    @field_validator("cpuset_cpus")
    @classmethod
    def _is_cpu_list(cls, value: str | None) -> str | None:
        if value is not None:
            parse_cpuset(value)
        return value

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for."""
        return not self.model_fields_set or not self.asked

    @property
    def asked(self) -> dict[str, Any]:
        """The present fields by name."""
        return self.model_dump(exclude_none=True)

    def merged(self, newer: Self) -> Self:
        """These limits with every present field of `newer` in place of ours."""
        return self.model_copy(update=newer.asked)

    def only(self, names: set[str]) -> Self:
        """These limits reduced to the named fields."""
        return type(self)(**{name: value for name, value in self.asked.items() if name in names})


def mismatches(desired: Limits, actual: Limits) -> list[str]:
    """Names of the limits in `desired` that `actual` does not hold, within the kernel's rounding.

    CPU within 10m, memory within 1 MiB (runc, systemd and the page size round). Shares are compared through
    what cgroup v2 keeps of them, CPU lists as sets.
    """
    wrong = []
    for name, wanted in desired.asked.items():
        present = getattr(actual, name)
        if present is None or not _equal(name, wanted, present):
            wrong.append(name)
    return wrong


def _equal(name: str, wanted: Any, present: Any) -> bool:
    if name == "cpu_limit":
        return bool(abs(wanted - present) <= CPU_TOLERANCE_MILLICORES)
    if name == "memory_limit":
        return bool(abs(wanted - present) <= MEMORY_TOLERANCE_MIB)
    if name == "cpuset_cpus":
        return parse_cpuset(wanted) == parse_cpuset(present)
    if name == "cpu_shares":
        # cgroup v2 maps 2..262144 shares onto 1..10000 weights, and crun versions differ in the formula.
        return bool(abs(wanted - present) <= max(SHARES_PER_WEIGHT, wanted // 8))
    return bool(wanted == present)


class Amount(BaseModel):
    """CPU and memory of a node or in use: zero is a value, nothing is absent."""

    model_config = ConfigDict(frozen=True)

    cpu: int = Field(0, ge=0, le=LARGEST_QUANTITY, description="millicores")
    memory: int = Field(0, ge=0, le=LARGEST_QUANTITY, description="MiB")

    def __add__(self, other: "Amount") -> "Amount":
        """Sum of both."""
        return Amount(cpu=self.cpu + other.cpu, memory=self.memory + other.memory)

    def less(self, other: "Amount") -> "Amount":
        """What remains of this after `other`, never below 0."""
        return Amount(cpu=max(0, self.cpu - other.cpu), memory=max(0, self.memory - other.memory))

    def larger(self, other: "Amount") -> "Amount":
        """The larger of both, for CPU and memory apart."""
        return Amount(cpu=max(self.cpu, other.cpu), memory=max(self.memory, other.memory))
