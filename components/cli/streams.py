"""Standard output and standard error of a command, whose readers may go away."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def prepare_streams() -> None:
    """Make both streams of this process fit for any reader, and for none.

    What is said on stderr is said for whoever reads it: where nobody does, or its disk is full, the work goes on
    and its exit code counts. That stdout cannot be written is told to whoever writes it.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us: nobody wants to read it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode shows ? instead of a trace
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _unfailing(sys.stderr)


def _unfailing(stream: TextIO) -> TextIO:
    raw = _Unfailing(os.dup(stream.fileno()), "w", closefd=False)  # open until the process ends, as the other is
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors="replace", line_buffering=True
    )


class _Unfailing(io.FileIO):
    """A file to which what cannot be written counts as written."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError:  # and there is no other place to tell it
            return memoryview(data).nbytes


@contextlib.contextmanager
def reader_may_go(stream: TextIO) -> Iterator[None]:
    """Show something whose reader may close the pipe: the work goes on unseen, and its exit code counts."""
    try:
        yield
    except BrokenPipeError:
        discard(stream)


def discard(stream: TextIO) -> None:
    """Let what is still written there go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
