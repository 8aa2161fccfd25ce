"""Quantities of the configuration: CPU and memory as people write them, limits, the share of the system."""

import re
from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from schemas.limits import Amount, Limits
from schemas.units import parse_cpu, parse_memory

RESERVED_CPU_MIN: Final = 100
RESERVED_MEMORY_MIN: Final = 256
CPU_LIMIT_MIN: Final = 10
"""Millicores; the kernel enforces no smaller quota, so a smaller number was meant as CPUs."""

MEMORY_LIMIT_MAX: Final = 2**24
"""MiB; no machine has 16 TiB for one container, so a larger number was meant as bytes."""


def _cpu(value: Any) -> Any:
    millicores = parse_cpu(value) if isinstance(value, str) else value
    if isinstance(millicores, int) and millicores < CPU_LIMIT_MIN:
        raise ValueError(f'this is {millicores}m, at least {CPU_LIMIT_MIN}m are needed; "2" in quotes is 2 CPUs')
    return millicores


def _memory(value: Any) -> Any:
    mib = parse_memory(value) if isinstance(value, str) else value
    if isinstance(mib, int) and mib > MEMORY_LIMIT_MAX:
        raise ValueError(f"this is {mib} MiB, at most {MEMORY_LIMIT_MAX} can be; bytes are written in quotes")
    return mib


Cpu = Annotated[int, BeforeValidator(_cpu), Field(gt=0, strict=True)]
Memory = Annotated[int, BeforeValidator(_memory), Field(gt=0, strict=True)]


class LimitSettings(BaseModel):
    """Limits as people write them: cpu "2" or "500m", memory "2Gi" or "512Mi"; as on the wire, too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: Cpu | None = Field(None, validation_alias=AliasChoices("cpu", "cpu_limit"))
    memory: Memory | None = Field(None, validation_alias=AliasChoices("memory", "memory_limit"))

    @property
    def limits(self) -> Limits:
        """In millicores and MiB."""
        return Limits(cpu_limit=self.cpu, memory_limit=self.memory)


class ReservedSettings(BaseModel):
    """The share of each node kept for the system: a percentage ("10%") or a quantity ("500m", "1Gi")."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: str = "10%"
    memory: str = "10%"

    @model_validator(mode="after")
    def _readable(self) -> "ReservedSettings":
        self.of(Amount(cpu=1000, memory=1024))
        return self

    def of(self, total: Amount) -> Amount:
        """What is kept of a node; a percentage keeps at least 100m and 256 MiB."""
        return Amount(
            cpu=_share(self.cpu, total.cpu, parse_cpu, RESERVED_CPU_MIN),
            memory=_share(self.memory, total.memory, parse_memory, RESERVED_MEMORY_MIN),
        )


def _share(text: str, total: int, parse: Any, least: int) -> int:
    if not text.endswith("%"):
        return 0 if text.strip() == "0" else int(parse(text))
    percent = float(text[:-1]) if re.fullmatch(r"[0-9]{1,3}(\.[0-9]+)?%", text) else -1.0
    if not 0 <= percent <= 100:
        raise ValueError(f"{text!r} is no share; write 0% to 100%, or a quantity")
    return max(least, int(total * percent / 100))
