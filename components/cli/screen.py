"""How things are shown to people: consoles, tables, and quantities in words."""

import errno
import os
import sys
import time
from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemas.enums import ActionOutcome, ConnectionState, SyncState

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

    def on_broken_pipe(self) -> None:
        """Leave it to whoever shows something; rich would end the process, or the thread, with exit code 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console(stream: TextIO | None = None, *, soft_wrap: bool = False) -> Console:
    """A console on stdout, or another stream; colours on a terminal only. `soft_wrap` leaves lines as they are."""
    stream = stream or sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return _Screen(file=stream, width=width, highlight=False, emoji=False, markup=False, soft_wrap=soft_wrap)


def table(*columns: str, title: str | None = None) -> Table:
    """A table without frames, as command lines show them. What is too long for its column goes on below it."""
    made = Table(*columns, box=None, pad_edge=False, title=title, title_justify="left", header_style="bold")
    made.title_style = "bold"
    for column in made.columns:
        column.overflow = "fold"
    return made


def styled(text: str) -> str:
    """The style of a state or outcome; none for other words."""
    return STYLE_OF.get(text, "")


def ago(epoch_ms: int, now_ms: int | None = None) -> str:
    """How long ago, roughly: "12s", "5m", "3h", "2d"; empty when it is not known."""
    if epoch_ms <= 0:
        return ""
    seconds = max(0, ((now_ms if now_ms is not None else time.time_ns() // 1_000_000) - epoch_ms) // 1000)
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // divisor}{unit}"
    return f"{seconds // 86_400}d"
