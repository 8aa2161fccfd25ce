"""piriscale as a user starts it, `piriscale up -c FILE`, on a broker and a Podman of its own."""

import contextlib
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from components.cli.demo.system import RunningSystem, toml
from tests.fixtures.broker import free_port, has_mosquitto
from tests.requirements import require
from tests.system.foreign import ForeignClient

NODE = "bench-1"
COMPONENTS = ("monitoring_server", "policy_manager", "action_controller", "resource_manager", "node_agent")
START_WITHIN_S = 60.0
SETTLE_WITHIN_S = 30.0
ROOM_SHARE = 0.6
"""Of what a node can give; enough for any test that does not fill it on purpose."""
SETTLED_FOR_S = 3.5
"""Longer than the hold of a container that is gone, as the benches of this folder configure it."""


@dataclass(frozen=True)
class Bench:
    """A running system, and a foreign client on its broker."""

    port: int
    metrics_port: int
    folder: Path
    configuration: Path
    system: RunningSystem
    client: ForeignClient

    def another_client(self, **options: Any) -> ForeignClient:
        """One more foreign client, to be used as a context manager."""
        return ForeignClient(self.port, **options)

    def await_room(self) -> None:
        """Wait until the room of earlier tests' containers is free again, which is held for a while."""
        end = time.monotonic() + SETTLE_WITHIN_S
        while True:
            now = self.client.heard(f"resources/capacity/{NODE}")[-1]
            if now["available"]["cpu"] >= ROOM_SHARE * (now["total"]["cpu"] - now["reserved"]["cpu"]):
                return
            assert time.monotonic() < end, f"no room for a test: {now}"
            time.sleep(0.05)

    def free_cpu(self) -> int:
        """Millicores available, once containers of earlier tests are forgotten and those of this one counted."""
        end = time.monotonic() + SETTLE_WITHIN_S
        before, since = None, 0.0
        while time.monotonic() < end:
            capacity = self.client.heard(f"resources/capacity/{NODE}")[-1]
            if capacity == before and time.monotonic() - since > SETTLED_FOR_S:
                return int(capacity["available"]["cpu"])
            if capacity != before:
                before, since = capacity, time.monotonic()
            time.sleep(0.1)
        raise AssertionError(f"capacity does not settle: {before}")

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels, as Prometheus would scrape them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        families = text_string_to_metric_families(text)
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    @property
    def log(self) -> str:
        """What piriscale logged."""
        return (self.folder / "piriscale.log").read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def running(agent: Mapping[str, Any], **sections: Any) -> Iterator[Bench]:
    """Start it with these keys of [node_agent] and further sections, and wait until everything is ready."""
    require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
    with tempfile.TemporaryDirectory(prefix="ps-bench-") as name:
        folder, port, metrics_port = Path(name), free_port(), free_port()
        body = {
            "broker": {"port": port, "data_dir": str(folder / "broker")},
            "node_agent": {"node": NODE, "state_dir": str(folder / "agent"), "metrics_interval_s": 0.5, **agent},
            "metrics": {"port": metrics_port},
            "dashboard": {"port": 0},
            **sections,
        }
        for component in ("policy_manager", "resource_manager", "action_controller"):
            body[component] = {"database": str(folder / f"{component}.sqlite3"), **body.get(component, {})}
        configuration = folder / "piriscale.toml"
        configuration.write_text(toml(body), encoding="utf-8")
        log = folder / "piriscale.log"
        with RunningSystem(configuration, log) as system, _connected(port, system) as client:
            _await_ready(client, system)
            yield Bench(port, metrics_port, folder, configuration, system, client)


@contextlib.contextmanager
def _connected(port: int, system: RunningSystem) -> Iterator[ForeignClient]:
    end = time.monotonic() + START_WITHIN_S
    while True:
        client = ForeignClient(port)
        try:
            client.__enter__()
            break
        except OSError:
            assert not system.ended and time.monotonic() < end, f"did not start:\n{system.log_tail(30)}"
            time.sleep(0.05)
    try:
        yield client
    finally:
        client.__exit__(None, None, None)


def _await_ready(client: ForeignClient, system: RunningSystem) -> None:
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
        raise AssertionError(f"{error}\n{system.log_tail(40)}") from error


def states_of(client: ForeignClient, workload: str) -> list[str]:
    """The synchronization states a workload went through."""
    return [body["sync_state"] for body in client.heard(f"resources/state/{NODE}/{workload}")]


def pretty(body: Any) -> str:
    """For messages of failing tests."""
    return json.dumps(body, indent=1, default=str)
