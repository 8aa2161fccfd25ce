"""The terminal while `watch` has it: keys as they are pressed, a screen of its own, given back in the end."""

import contextlib
import io
import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Final, Self

from rich.console import Console
from rich.text import Text

from components.cli.watch.figures import ASCII_OF
from components.cli.watch.view import Key

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""A screen of its own, no cursor, no wrapping at the edge."""

_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)

KEY_OF: Final = {
    b"\x1b[A": Key.UP,
    b"\x1bOA": Key.UP,
    b"\x1b[B": Key.DOWN,
    b"\x1bOB": Key.DOWN,
    b"\x1b[5~": Key.PAGE_UP,
    b"\x1b[6~": Key.PAGE_DOWN,
    b"\x1b[H": Key.HOME,
    b"\x1bOH": Key.HOME,
    b"\x1b[1~": Key.HOME,
    b"\x1b[F": Key.END,
    b"\x1bOF": Key.END,
    b"\x1b[4~": Key.END,
    b"\x1b[Z": Key.BACK_TAB,
    b"\t": Key.TAB,
    b"\r": Key.ENTER,
    b"\n": Key.ENTER,
    b"\x7f": Key.BACKSPACE,
    b"\b": Key.BACKSPACE,
    b"\x1b": Key.ESCAPE,
}


def keys_of(pressed: bytes) -> list[str]:
    """The keys in what a terminal sent at once; sequences that mean nothing here are left out."""
    keys: list[str] = []
    rest = pressed
    while rest:
        if rest[:1] == b"\x1b":
            end = _sequence_end(rest)
            key = KEY_OF.get(rest[:end])
            if key is not None:
                keys.append(key)
        elif rest[:1] in KEY_OF:
            end = 1
            keys.append(KEY_OF[rest[:1]])
        else:
            end = next((k for k in range(1, len(rest)) if rest[k : k + 1] in KEY_OF), len(rest))
            keys += [char for char in rest[:end].decode(errors="ignore") if char.isprintable()]
        rest = rest[end:]
    return keys


def _sequence_end(data: bytes) -> int:
    """Where an escape sequence ends: after its final byte, or after the escape alone."""
    if data[1:2] == b"O":
        return min(3, len(data))
    if data[1:2] != b"[":
        return 1
    return next((k + 1 for k in range(2, len(data)) if 0x40 <= data[k] <= 0x7E), len(data))


class Terminal:
    """Used as a context manager; between entering and leaving, the terminal is ours.

    It is given back in the end: also on SIGTERM and SIGHUP, which end the command, and while it is stopped
    with Ctrl-Z.
    """

    def __init__(self, console: Console, woken: Callable[[], None]) -> None:
        """`woken` is called, from another thread, when a key was pressed or the window changed."""
        self._console = console
        self._woken = woken
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._before: list[Any] | None = None
        self._shown: list[str] = []
        self._size = (0, 0)
        self._pressed: list[str] = []
        self._lock = threading.Lock()
        self._end_reader, self._reader_ends = os.pipe()
        self._reader = threading.Thread(target=self._read, name="keys", daemon=True)
        self._handlers = contextlib.ExitStack()
        knows_signs = "utf" in (sys.stdout.encoding or "").lower()
        self._replacements = {} if knows_signs else ASCII_OF

    def __enter__(self) -> Self:
        """Take the terminal."""
        try:
            for number in _ENDS:
                self._handle(number, self._ended)
            self._handle(signal.SIGTSTP, self._stopped)
            self._handle(signal.SIGWINCH, self._resized)
            self._take()
            self._reader.start()
        except BaseException:
            self._give_back()
            self._handlers.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Give the terminal back as it was."""
        self._give_back()
        self._handlers.close()
        os.close(self._reader_ends)
        if self._reader.ident is not None:
            self._reader.join()
        os.close(self._end_reader)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines now."""
        try:
            columns, lines = os.get_terminal_size(self._output)
        except OSError:
            return 80, 24
        return (columns or 80), (lines or 24)

    @property
    def resized(self) -> bool:
        """Whether what is shown was made for another size."""
        return self.size != self._size

    def pressed(self) -> list[str]:
        """The keys since last asked."""
        with self._lock:
            keys, self._pressed = self._pressed, []
        return keys

    def draw(self, lines: Sequence[Text]) -> None:
        """Show these lines, one for each of the screen; only those that changed are written, in one go."""
        if self.resized:
            self._size, self._shown = self.size, []
            self._write("\x1b[2J")
        rendered = [self._render(line) for line in lines[: self._size[1]]]
        changed = io.StringIO()
        for number, line in enumerate(rendered):
            if number >= len(self._shown) or self._shown[number] != line:
                changed.write(f"\x1b[{number + 1};1H{line}\x1b[0m")
        if len(rendered) < len(self._shown):
            changed.write(f"\x1b[{len(rendered) + 1};1H\x1b[J")
        self._shown = rendered
        self._write(changed.getvalue())

    def _render(self, line: Text) -> str:
        """The line as it is written, as wide as the screen: what it covers need not be erased."""
        line = line.copy()
        line.truncate(self._size[0], overflow="crop", pad=True)
        with self._console.capture() as capture:
            self._console.print(line, end="", no_wrap=True, overflow="crop", crop=True, width=self._size[0])
        text = capture.get()
        return text.translate(self._replacements)

    def _take(self) -> None:
        self._before = termios.tcgetattr(self._input)
        tty.setcbreak(self._input, termios.TCSANOW)
        self._shown, self._size = [], (0, 0)
        self._write(_ENTER)

    def _give_back(self) -> None:
        if self._before is None:
            return
        before, self._before = self._before, None
        with contextlib.suppress(OSError, termios.error):  # the terminal is gone: nothing to give back to
            self._write(_LEAVE)
            termios.tcsetattr(self._input, termios.TCSANOW, before)

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _handle(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        before = signal.signal(number, handler)
        self._handlers.callback(signal.signal, number, before)

    @staticmethod
    def _ended(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def _stopped(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: the shell gets its terminal, and we get it again with `fg`."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self._woken()

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        self._woken()

    def _read(self) -> None:
        for pressed in self._chunks():
            with self._lock:
                self._pressed += keys_of(pressed)
            self._woken()

    def _chunks(self) -> Iterator[bytes]:
        while True:
            ready, _, _ = select.select([self._input, self._end_reader], [], [])
            if self._end_reader in ready:
                return
            try:
                chunk = os.read(self._input, 1024)
            except OSError:
                return
            if not chunk:
                return
            yield chunk
