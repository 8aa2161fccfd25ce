"""The whole of piriscale as a child process, as a user would start it: `piriscale up -c piriscale.toml`."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

STOP_WITHIN_S: Final = 15.0


def free_port() -> int:
    """A TCP port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def toml(sections: dict[str, dict[str, Any]]) -> str:
    """Write configuration sections; a list is written as repeated tables."""
    lines = []
    for name, body in sections.items():
        tables = {key: value for key, value in body.items() if isinstance(value, list)}
        lines.append(f"[{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in body.items() if key not in tables]
        for key, rows in tables.items():
            for row in rows:
                lines.append(f"[[{name}.{key}]]")
                lines += [f"{column} = {json.dumps(value)}" for column, value in row.items()]
    return "\n".join(lines) + "\n"


class RunningSystem:
    """`piriscale up` with a configuration file, its output in a log file; stopped when left."""

    def __init__(self, configuration: Path, log: Path) -> None:
        self._configuration = configuration
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        program = "from components.cli.main import main; main()"
        command = [sys.executable, "-c", program, "up", "-c", str(self._configuration)]
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, first politely."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STOP_WITHIN_S)
        if child.poll() is None:
            child.kill()
            child.wait()

    @property
    def ended(self) -> bool:
        """Whether it stopped by itself."""
        return self._child is not None and self._child.poll() is not None

    def log_tail(self, lines: int = 15) -> str:
        """The end of its log."""
        if not self._log.exists():
            return ""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
