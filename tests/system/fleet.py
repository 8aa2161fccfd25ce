"""piriscale as it is deployed in pieces: every component a process of its own, to be killed and started again."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from components.cli.demo.system import toml
from tests.fixtures.broker import RunningBroker
from tests.system.foreign import Body, ForeignClient

NODE = "fleet-1"
COMPONENTS = ("resource_manager", "action_controller", "policy_manager", "monitoring_server", "node_agent")
START_WITHIN_S = 60.0
STOP_WITHIN_S = 15
REST_WITHIN_S = 90.0


@dataclass
class Fleet:
    """The processes, by component. Used as a context manager: starts all, ends all."""

    folder: Path
    url: str
    agent: dict[str, Any]
    sections: dict[str, Any] = field(default_factory=dict)
    agent_prefix: Sequence[str] = ()
    """Words before the agent's command, such as `ip netns exec NAME`."""
    agent_url: str | None = None
    """Where the agent finds the broker, if elsewhere than the others."""
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._configure("control.toml", self.url)
        self._configure("agent.toml", self.agent_url or self.url)
        for component in COMPONENTS:
            self.start(component)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _configure(self, name: str, url: str) -> None:
        body = {
            "broker": {"url": url},
            "node_agent": {"node": NODE, "state_dir": str(self.folder / "agent"), **self.agent},
            "metrics": {"port": 0},
            **self.sections,
        }
        for component in ("policy_manager", "resource_manager", "action_controller"):
            database = {"database": str(self.folder / f"{component}.sqlite3")}
            body[component] = {**database, **body.get(component, {})}
        (self.folder / name).write_text(toml(body), encoding="utf-8")

    def start(self, component: str) -> None:
        """Start a component; its log goes on where it ended."""
        agent = component == "node_agent"
        configuration = self.folder / ("agent.toml" if agent else "control.toml")
        command = [str(Path(sys.executable).with_name("piriscale")), "run", component, "-c", str(configuration)]
        with (self.folder / f"{component}.log").open("ab") as log:
            self.processes[component] = subprocess.Popen(
                [*(self.agent_prefix if agent else ()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self, component: str) -> None:
        """End it at once, wherever it is."""
        os.kill(self.processes[component].pid, signal.SIGKILL)
        self.processes[component].wait()

    def log(self, component: str, lines: int = 25) -> str:
        """The end of a component's log."""
        text = (self.folder / f"{component}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"--- {component}\n{self.log(component)}" for component in COMPONENTS)

    def await_ready(self, client: ForeignClient) -> None:
        """Wait until every component said that it is ready."""
        try:
            for component in COMPONENTS:
                instance = NODE if component == "node_agent" else "main"
                client.await_message(
                    f"component/{component}/{instance}", lambda b: b["state"] == "ready", timeout_s=START_WITHIN_S
                )
            client.await_message(
                f"resources/capacity/{NODE}", lambda b: b["total"]["cpu"] > 0, timeout_s=START_WITHIN_S
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from error

    def open_rows(self) -> list[str]:
        """Bodies of the ledger's rows that are open or held."""
        return self._read("resource_manager", "SELECT body FROM actions WHERE closed_ms = 0")

    def open_actions(self) -> list[str]:
        """Ids of the journal's actions that have not ended."""
        return self._read("action_controller", "SELECT action_id FROM actions WHERE final IS NULL")

    def _read(self, component: str, query: str) -> list[str]:
        path = self.folder / f"{component}.sqlite3"
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
        try:
            return [str(row[0]) for row in connection.execute(query)]
        finally:
            connection.close()

    def await_rest(self, client: ForeignClient, workload: str) -> Body:
        """Wait until nothing is open anywhere and the workload is SYNCHRONIZED; its state then."""
        end = time.monotonic() + REST_WITHIN_S
        while True:
            states = client.heard(f"resources/state/{NODE}/{workload}")
            agreed = bool(states) and states[-1]["sync_state"] == "SYNCHRONIZED"
            rows, actions = self.open_rows(), self.open_actions()
            if agreed and not rows and not actions:
                return states[-1]
            assert time.monotonic() < end, f"no rest: {states[-1:]} {rows} {actions}\n{self.logs()}"
            time.sleep(0.2)


def restart_broker(broker: RunningBroker) -> None:
    """Kill the broker and start it again."""
    broker.kill()
    broker.start()
