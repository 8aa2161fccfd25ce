"""How things are shown to people: consoles, tables, and quantities in words."""

import sys
import time
from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemas.enums import ActionOutcome, ConnectionState, SyncState
from schemas.limits import Limits, parse_cpuset
from schemas.units import format_cpu, format_memory

PIPE_WIDTH: Final = 200
"""Columns when the output is no terminal: tables are not squeezed for a script."""

STYLE_OF: Final[dict[str, str]] = {
    SyncState.SYNCHRONIZED: "green",
    SyncState.PENDING: "cyan",
    SyncState.APPLYING: "cyan",
    SyncState.DRIFT_DETECTED: "yellow",
    SyncState.FAILED: "red",
    SyncState.UNKNOWN: "dim",
    ActionOutcome.COMPLETED: "green",
    ActionOutcome.REJECTED: "yellow",
    ActionOutcome.INCONSISTENT: "red",
    ConnectionState.READY: "green",
    ConnectionState.INIT: "cyan",
    ConnectionState.DISCONNECTED: "yellow",
    ConnectionState.LOST: "red",
}


def printable(text: str) -> str:
    """The text with control characters escaped: what strangers sent must not command a terminal or fake lines."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class _Screen(Console):
    """A console on which text is only shown. For a `Text` made of what came from the bus, see `printable`."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console(stream: TextIO | None = None) -> Console:
    """A console on stdout, or another stream; colours on a terminal only."""
    stream = stream or sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return _Screen(file=stream, width=width, highlight=False, emoji=False, markup=False)


def table(*columns: str, title: str | None = None) -> Table:
    """A table without frames, as command lines show them."""
    made = Table(*columns, box=None, pad_edge=False, title=title, title_justify="left", header_style="bold")
    made.title_style = "bold"
    return made


def styled(text: str) -> str:
    """The style of a state or outcome; none for other words."""
    return STYLE_OF.get(text, "")


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


def ranges(cpus: frozenset[int]) -> str:
    """CPU numbers as a short list: "0-2,4"."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def ago(epoch_ms: int, now_ms: int | None = None) -> str:
    """How long ago, roughly: "12s", "5m", "3h", "2d"; empty when it is not known."""
    if epoch_ms <= 0:
        return ""
    seconds = max(0, ((now_ms if now_ms is not None else time.time_ns() // 1_000_000) - epoch_ms) // 1000)
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // divisor}{unit}"
    return f"{seconds // 86_400}d"
