"""What a person sees of the demo: the events as they come, and the ending with its table and latency line."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from components.cli.demo.recorder import Heard
from components.cli.demo.result import Result
from components.cli.screen import console
from schemas.limits import Limits
from schemas.message import Message
from schemas.node import UpdateReply, UpdateRequest
from schemas.performance import PerfDegraded, PerfEvent, PerfOutcome, PerfRecovered
from schemas.resources import ActualReport, DesiredReply, Reconcile, ResourceState, ValidateReply, ValidateRequest
from schemas.scaling import ScalingAction, ScalingStatus
from schemas.units import format_cpu, format_memory

BARS: Final = "▁▂▃▄▅▆▇█"
LINE_WIDTH: Final = 64


class Screen:
    """Prints lines; colour on a terminal, plain text elsewhere.

    Raises BrokenPipeError when they go to stdout and nobody reads them.
    """

    def __init__(self, *, to_stderr: bool) -> None:
        self._console = console(sys.stderr if to_stderr else sys.stdout, soft_wrap=True)
        self._begin = time.monotonic()

    def step(self, text: str) -> None:
        """Say what is being done."""
        self._console.print(Text("• ", "bold cyan") + Text(text))

    def trouble(self, text: str) -> None:
        """Say what went wrong and what to do."""
        self._console.print(Text("✗ ", "bold red") + Text(text))

    def event(self, heard: Heard) -> None:
        """Show one event of the chain; the rest of the traffic is not part of the story."""
        told = describe(heard.message)
        if told is None:
            return
        style, text = told
        line = Text(f"{heard.at - self._begin:7.3f} s  ", "dim")
        line += Text(f"{heard.topic:<34} ", style)
        self._console.print(line + Text(text))

    def ending(self, result: Result, latencies: Sequence[float], threshold_ms: float) -> None:
        """Show before and after, and the latency over time."""
        mark = "  (simulated runtime: no container, no kernel)" if result.simulated else ""
        table = Table(title=f"{result.runtime}{mark}")
        for column in ("", "CPU limit", "memory limit", "latency p50"):
            table.add_column(column)
        for name, side in (("before", result.before), ("after", result.after)):
            cpu, memory = format_cpu(side.cpu_limit), format_memory(side.memory_limit)
            table.add_row(name, cpu, memory, f"{side.latency_ms_p50:.0f} ms")
        self._console.print()
        self._console.print(table)
        self._console.print(latency_line(latencies, threshold_ms))
        verified = f"{result.event_to_verified_ms:.0f} ms" if result.event_to_verified_ms else "not verified"
        summary = f"event to verified: {verified}   desired against actual: {result.sync_state or 'not known'}"
        self._console.print(summary)


def describe(message: Message) -> tuple[str, str] | None:
    """Colour and text of one event; None for what is not shown."""
    found = _DESCRIPTIONS.get(type(message))
    return None if found is None else (found[0], found[1](message))


def _indicators(event: PerfEvent) -> str:
    values = (f"{i.metric} {i.value:.0f} (threshold {i.threshold:.0f})" for i in event.indicators)
    return ", ".join(values)


def _question(request: ValidateRequest) -> str:
    wanted = Limits(cpu_limit=request.requested_cpu, memory_limit=request.requested_memory)
    return f"may it have {_limits(wanted)}?"


def _status(status: ScalingStatus) -> str:
    outcome = f" {status.outcome}" if status.outcome else ""
    reason = f" {status.reason}: {status.message}" if status.reason else ""
    return f"{status.state} {status.phase}{outcome}{reason}"


def _limits(limits: Limits | None) -> str:
    if limits is None:
        return "unknown"
    parts = []
    if limits.cpu_limit is not None:
        parts.append(f"CPU {format_cpu(limits.cpu_limit)}")
    if limits.memory_limit is not None:
        parts.append(f"memory {format_memory(limits.memory_limit)}")
    return ", ".join(parts) or "no limit"


_DESCRIPTIONS: Final[dict[type[Message], tuple[str, Callable[[Any], str]]]] = {
    PerfDegraded: ("bold red", lambda m: f"DEGRADED: {_indicators(m)}"),
    PerfRecovered: ("bold green", lambda m: f"RECOVERED: {_indicators(m)}"),
    ScalingAction: ("bold yellow", lambda m: f"{_limits(m.current)} → {_limits(m.target)}"),
    ScalingStatus: ("cyan", _status),
    ValidateRequest: ("yellow", _question),
    ValidateReply: ("yellow", lambda m: "allowed, reserved" if m.allowed else f"{m.reason}: {m.message}"),
    DesiredReply: ("yellow", lambda m: f"recorded as generation {m.generation}" if m.success else f"{m.reason}"),
    UpdateRequest: ("magenta", lambda m: f"set {_limits(m.limits)}"),
    UpdateReply: (
        "magenta",
        lambda m: f"in force: {_limits(m.actual)}" if m.success else f"{m.reason}: {m.message}",
    ),
    ActualReport: ("yellow", lambda m: f"{m.result}: {_limits(m.actual)}"),
    Reconcile: ("red", lambda m: f"restore {_limits(m.desired)} ({m.cause})"),
    ResourceState: ("blue", lambda m: f"{m.sync_state}: desired {_limits(m.desired)}, actual {_limits(m.actual)}"),
    PerfOutcome: ("bold green", lambda m: " ".join(filter(None, (m.outcome, m.reason, m.message)))),
}


def latency_line(latencies: Sequence[float], threshold_ms: float) -> Text:
    """A sparkline of the latencies: red where they are over the threshold, green where not."""
    shown = _thinned(latencies, LINE_WIDTH)
    top = max([*shown, threshold_ms])
    line = Text("latency ", "bold")
    for value in shown:
        bar = BARS[min(len(BARS) - 1, int(value / top * len(BARS)))]
        line += Text(bar, "red" if value > threshold_ms else "green")
    return line + Text(f"  0–{top:.0f} ms, threshold {threshold_ms:.0f} ms", "dim")


def _thinned(values: Sequence[float], width: int) -> list[float]:
    if len(values) <= width:
        return list(values)
    return [values[index * len(values) // width] for index in range(width)]
