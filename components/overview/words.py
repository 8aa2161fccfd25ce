"""Limits, amounts and indicators in a few words, as pages and terminals show them."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from schemas.limits import Amount, Limits, parse_cpuset
from schemas.performance import Indicator
from schemas.units import format_cpu, format_memory

_DIGITS: Final = re.compile(r"([0-9]{1,18})")


def describe(limits: Limits | None) -> str:
    """Limits in a few words: "2000m CPU, 2048Mi"; "–" when nothing is known."""
    if limits is None:
        return "–"
    parts = []
    if limits.cpu_limit is not None:
        parts.append(f"{format_cpu(limits.cpu_limit)} CPU")
    if limits.memory_limit is not None:
        parts.append(format_memory(limits.memory_limit))
    if limits.cpu_shares is not None:
        parts.append(f"{limits.cpu_shares} shares")
    if limits.cpuset_cpus is not None:
        parts.append(f"CPUs {ranges(parse_cpuset(limits.cpuset_cpus))}")
    return ", ".join(parts) or "unlimited"


def describe_actual(actual: Limits | None, desired: Limits | None = None) -> str:
    """What is in force, as far as it matters: CPU and memory always, the rest when it is desired."""
    if actual is None:
        return "–"
    cpu = f"{format_cpu(actual.cpu_limit)} CPU"
    others = describe(actual.only(set((desired or Limits()).asked) - {"cpu_limit", "memory_limit"}))
    memory = "unlimited memory" if actual.memory_limit is None else format_memory(actual.memory_limit)
    return ", ".join([cpu, memory, *([others] if others != "unlimited" else [])])


def describe_amount(amount: Amount) -> str:
    """An amount: "2000m CPU, 2048Mi"."""
    return f"{amount.cpu}m CPU, {amount.memory}Mi"


def describe_indicators(indicators: Iterable[Indicator]) -> str:
    """What is over its threshold: "latency_ms 450 (threshold 300)"."""
    return ", ".join(f"{one.metric} {one.value:g} (threshold {one.threshold:g})" for one in indicators)


def ranges(cpus: frozenset[int]) -> str:
    """CPU numbers as a short list: "0-2,4"."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def joined(*parts: str | None) -> str:
    """The parts that say something, with a space between."""
    return " ".join(part for part in parts if part)


def listed(*parts: str | None) -> str:
    """The parts that say something, with a semicolon between."""
    return "; ".join(part for part in parts if part)


@lru_cache(maxsize=65_536)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """For sorting as people do: "cam-2" before "cam-10"."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(name) if part)


def lasting(milliseconds: float) -> str:
    """A duration in at most 6 letters: "54 ms", "1.2 s", "42 s", "12 min", "3 h", "2 d"."""
    if milliseconds < 1000:
        return f"{max(0.0, milliseconds):.0f} ms"
    whole = milliseconds / 1000
    if whole < 10:
        return f"{int(whole * 10) / 10:g} s"
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if whole < limit:
            return f"{whole // divisor:.0f} {unit}"
    return f"{whole // 86_400:.0f} d"
