"""The control plane as it is deployed, a process for each component, and many simulated nodes."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.cli.demo.system import toml
from tests.fixtures.broker import RunningBroker, running_broker
from tests.system.foreign import ForeignClient

READY_WITHIN_S = 180.0
STOP_WITHIN_S = 30
NO_METRICS_S = 86_400.0


@dataclass
class Plant:
    """What runs, and where."""

    folder: Path
    broker: RunningBroker
    processes: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.broker.port}"

    def configure(self, sections: Mapping[str, Mapping[str, Any]] | None = None, name: str = "piriscale") -> Path:
        """Write the configuration of the control plane, or of the one process of this name."""
        body: dict[str, Any] = {"broker": {"url": self.url}, "metrics": {"port": 0}}
        for component in ("policy_manager", "resource_manager", "action_controller"):
            body[component] = {"database": str(self.folder / f"{component}.sqlite3")}
        for key, section in (sections or {}).items():
            body[key] = {**body.get(key, {}), **section} if isinstance(section, Mapping) else section
        path = self.folder / f"{name}.toml"
        path.write_text(toml(body), encoding="utf-8")
        return path

    def start(self, component: str, configuration: Path) -> None:
        """Start a component as `piriscale run` does."""
        program = str(Path(sys.executable).with_name("piriscale"))
        self.spawn(component, [program, "run", component, "-c", str(configuration)])

    def spawn(self, name: str, command: Sequence[str]) -> None:
        """Start a process that ends with the plant."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def add_nodes(self, nodes: int, containers: int, *, first: int = 0, metrics_s: float = NO_METRICS_S) -> None:
        """Start a process of so many simulated nodes, with numbers from `first` on."""
        told = (self.url, first, nodes, containers, metrics_s, self.folder / "nodes")
        name = f"agents-{first}" if first else "agents"
        self.spawn(name, [sys.executable, "-m", "tests.bench.agents", *map(str, told)])

    def await_states(self, client: ForeignClient, count: int) -> None:
        """Wait until so many workloads are known."""
        end = time.monotonic() + READY_WITHIN_S
        while len(client.topics("resources/state/")) < count:
            assert time.monotonic() < end, (
                f"only {len(client.topics('resources/state/'))} of {count} came\n{self.logs()}"
            )
            assert not self.ended, f"{self.ended} ended\n{self.logs()}"
            time.sleep(0.1)

    def pause(self, name: str, *, paused: bool) -> None:
        """Let a process stand still, or go on."""
        self.processes[name].send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    @property
    def ended(self) -> list[str]:
        """Processes that are no more."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def logs(self) -> str:
        """The ends of all logs."""
        ends = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            ends.append("\n".join([f"--- {path.name}", *lines]))
        return "\n".join(ends)

    def rows(self, component: str, query: str) -> list[tuple[Any, ...]]:
        """What a component's database says."""
        connection = sqlite3.connect(f"file:{self.folder / component}.sqlite3?mode=ro", uri=True, timeout=10)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def stop(self) -> None:
        """End all processes."""
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def plant(components: Sequence[str], sections: Mapping[str, Any] | None = None) -> Iterator[Plant]:
    """A broker and these components, until the block is left."""
    with tempfile.TemporaryDirectory(prefix="ps-bench-") as name, running_broker() as broker:
        running = Plant(Path(name), broker)
        configuration = running.configure(sections)
        try:
            for component in components:
                running.start(component, configuration)
            yield running
        finally:
            running.stop()
