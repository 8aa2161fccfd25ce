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


def toml(sections: dict[str, Any]) -> str:
    """Write configuration sections as TOML; a list of sections becomes repeated tables."""
    lines: list[str] = []
    for name, body in sections.items():
        for table in body if isinstance(body, list) else [body]:
            lines.append(f"[[{name}]]" if isinstance(body, list) else f"[{name}]")
            nested = {key: rows for key, rows in table.items() if isinstance(rows, list)}
            lines += [f"{key} = {_value(value)}" for key, value in table.items() if key not in nested]
            lines += [toml({f"{name}.{key}": rows}) for key, rows in nested.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


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
