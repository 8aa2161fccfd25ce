"""A real terminal for a command: a tmux of its own, keys sent to it, its screen read back."""

import os
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.system import PROGRAM, Configuration, until
from tests.requirements import require

LEFT = "left with"


class Pane:
    """One pane of a tmux server that nobody else uses."""

    def __init__(self, width: int, height: int, environment: dict[str, str]) -> None:
        self._server = f"piriscale-test-{uuid.uuid4().hex[:8]}"
        self._environment = {**os.environ, **environment, "LC_ALL": "C.UTF-8"}
        size = ("-x", str(width), "-y", str(height))
        shell = ("bash", "--norc", "--noprofile", "-i")
        self._tmux("-u", "-f", "/dev/null", "new-session", "-d", *size, *shell)
        self._tmux("set-option", "-g", "status", "off")
        self._tmux("resize-window", *size)

    def type(self, text: str) -> None:
        """Type letters, as they are."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: Enter, Tab, PageDown, C-c."""
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    @property
    def lines(self) -> list[str]:
        """What the screen shows now, line by line, without trailing space."""
        return self._tmux("capture-pane", "-p").split("\n")[:-1]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def coloured(self) -> str:
        """Likewise, with its colours as escape sequences."""
        return self._tmux("capture-pane", "-p", "-e")

    @property
    def given_back(self) -> bool:
        """Whether the terminal is as a shell expects it: its own screen, a cursor, lines that wrap."""
        flags = "#{alternate_on} #{cursor_flag} #{wrap_flag}"
        return self._tmux("display-message", "-p", flags).split() == ["0", "1", "1"]

    def record(self, path: Path) -> None:
        """Write all that the command sends to the terminal from now on into a file."""
        self._tmux("pipe-pane", f"cat > {shlex.quote(str(path))}")

    def wait(self, text: str) -> None:
        """Wait until the screen shows this."""
        until(lambda: text in self.text, f"{text!r} on the screen:\n{self.text}")

    def wait_gone(self, text: str) -> None:
        """Wait until the screen does not show this any more."""
        until(lambda: text not in self.text, f"no {text!r} on the screen")

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-L", self._server, *arguments],
            env=self._environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout


@contextmanager
def watching(settings: Configuration, width: int = 80, height: int = 24) -> Iterator[Pane]:
    """`piriscale watch`, started from a shell in a terminal of this size, when it is live."""
    require(shutil.which("tmux") is not None, "tmux (apt-get install tmux)")
    pane = Pane(width, height, {"PIRISCALE_CONFIG": str(settings.path), "PS1": "$ "})
    try:
        command = f"{shlex.quote(sys.executable)} -c {shlex.quote(PROGRAM)} watch; echo {LEFT} $?"
        pane.type(command)
        pane.press("Enter")
        pane.wait("● live")
        yield pane
    finally:
        pane.close()
