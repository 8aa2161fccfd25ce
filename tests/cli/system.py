"""piriscale as a user runs it: child processes with a configuration, and commands beside them."""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from broker.bus import Identity
from broker.client import MqttBus
from broker.configuration import MosquittoConfiguration
from broker.options import BrokerOptions
from components.cli.main import app
from schemas.codec import Frame, encode
from schemas.message import Message
from tests.fixtures.broker import RunningBroker, free_port, has_mosquitto, running_broker
from tests.requirements import require

PATIENCE_S = 40.0
PROGRAM = "from components.cli.main import main; main()"
NODE = "hpc-1"


def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


@dataclass(frozen=True)
class Configuration:
    """A configuration file of its own, with everything it names in one folder."""

    path: Path
    broker_port: int
    metrics_port: int = 0

    def cli(self, *arguments: str) -> Result:
        """Run a command in this process, as far as it does not need signals."""
        return CliRunner().invoke(app, list(arguments), env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        return {"PIRISCALE_CONFIG": str(self.path), "COLUMNS": "200", "NO_COLOR": "1"}

    @contextmanager
    def child(self, *arguments: str) -> Iterator["Child"]:
        """Run a command as a process of its own."""
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
        )
        child = Child(process)
        try:
            yield child
        except BaseException:
            process.kill()
            child.finish()
            print(
                f"{arguments}, exit code {process.returncode}\n{child.out}\n{child.err}"
            )  # shown if the test fails
            raise
        finally:
            if process.poll() is None:
                process.kill()
            child.finish()


class Child:
    """A running command."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.out = ""
        self.err = ""

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def read_line(self) -> str:
        """The next line of its output; blocks until it has one, or has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.out += line
        return line

    def read_error(self) -> str:
        """The next line of what it says of itself; blocks until it has one, or has ended."""
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        self.err += line
        return line

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        self.send(number)
        return self.finish()

    def close_output(self) -> None:
        """Read no more, as `head` does when it has its lines."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def close_errors(self) -> None:
        """Read no more of what it says of itself."""
        assert self._process.stderr is not None
        self._process.stderr.close()

    def finish(self) -> int:
        """Wait for its end; its exit code."""
        code = self._process.wait(PATIENCE_S)
        out, err = self._process.stdout, self._process.stderr
        if out is not None and not out.closed:
            self.out += out.read()
            out.close()
        if err is not None and not err.closed:
            self.err += err.read()
            err.close()
        return code


def configuration(
    folder: Path, *, broker: str = "", port: int | None = None, url: str | None = None, containers: int = 3
) -> Configuration:
    """Write a configuration; simulated containers, and the given lines under [broker]."""
    broker_port = port or free_port()
    metrics_port = free_port()
    where = f'url = "{url}"' if url else f"port = {broker_port}"
    path = folder / "piriscale.toml"
    path.write_text(
        f"""
[broker]
{where}
data_dir = "{folder}/broker"
{broker}
[resource_manager]
database = "{folder}/resource_manager.sqlite3"
[action_controller]
database = "{folder}/action_controller.sqlite3"
[policy_manager]
database = "{folder}/policy_manager.sqlite3"
[node_agent]
node = "{NODE}"
runtime = "simulated"
simulated_containers = {containers}
state_dir = "{folder}/agent"
[metrics]
port = {metrics_port}
[dashboard]
port = 0
""",
        encoding="utf-8",
    )
    return Configuration(path, broker_port, metrics_port)


def get(port: int, path: str) -> tuple[int, str] | None:
    """An answer over HTTP on loopback; None when nobody answers yet."""
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as client:
            client.request("GET", path)
            response = client.getresponse()
            return response.status, response.read().decode()
    except OSError:
        return None


@contextmanager
def running_system(folder: Path) -> Iterator[Configuration]:
    """`piriscale up` with simulated containers, when all of it is ready."""
    require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
    settings = configuration(folder)
    with settings.child("up", "--log-level", "warning") as child:
        until(lambda: not child.running or get(settings.metrics_port, "/healthz") == (200, "ok\n"), "healthy")
        until(lambda: not child.running or len(status(settings)["workloads"]) == 3, "workloads are known")
        yield settings
        assert child.end() == 0, child.err


def publish(port: int, *frames: Frame) -> None:
    """Say these, and see that the broker has them."""
    bus = MqttBus(BrokerOptions(port=port), Identity("publisher"), lambda _: True)
    bus.start()
    for frame in frames:
        bus.publish(frame)
    bus.stop(drain_s=20)
    assert bus.counts.published == len(frames)


@contextmanager
def retained(port: int, *messages: Message) -> Iterator[None]:
    """Messages that the broker keeps, until it is left."""
    frames = [encode(message) for message in messages]
    publish(port, *frames)
    try:
        yield
    finally:
        publish(port, *(Frame(frame.topic, b"", retain=True) for frame in frames))


@contextmanager
def guarded_broker() -> Iterator[RunningBroker]:
    """A broker that lets nobody in: its password file is empty."""
    with tempfile.TemporaryDirectory(prefix="piriscale-passwords-") as folder:
        Path(folder).chmod(0o755)  # the broker is not the user who runs the tests
        passwords = Path(folder) / "passwords"
        passwords.touch()
        with running_broker(MosquittoConfiguration(password_file=passwords)) as guarded:
            yield guarded


def status(settings: Configuration) -> dict[str, list[dict[str, Any]]]:
    """What `status --json` prints."""
    result = settings.cli("status", "--json")
    assert result.exit_code == 0, result.stderr
    document: dict[str, list[dict[str, Any]]] = json.loads(result.stdout)
    return document


def workload(settings: Configuration, name: str) -> dict[str, Any]:
    """The state of one workload."""
    return next(state for state in status(settings)["workloads"] if state["workload_id"] == name)
