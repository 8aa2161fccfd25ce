"""`compose/secured-bench`: from nothing to two nodes in their own namespaces, and everybody kept to his part."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.node_agent.podman.private import missing
from tests.fixtures.broker import has_mosquitto
from tests.requirements import require

ROOT = Path(__file__).parents[2]
START_WITHIN_S = 240.0
WAIT_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass
class Bench:
    """The running command, and what it printed."""

    output: str
    process: "subprocess.Popen[str]"

    def found(self, pattern: str) -> str:
        match = re.search(pattern, self.output)
        assert match is not None, self.output
        return match.group(1)

    @property
    def folder(self) -> Path:
        return Path(self.found(r"The bench runs, in (\S+)\."))

    @property
    def broker(self) -> str:
        return self.found(r"mosquitto_pub -h (\S+)")

    def namespace(self, node: str) -> str:
        return self.found(rf"node {node}: network namespace (\S+),")

    def person(self, *words: str, identity: str = "cli/engineer") -> "subprocess.CompletedProcess[str]":
        environment = {
            "PIRISCALE_CONFIG": str(self.folder / "control.toml"),
            "PIRISCALE_IDENTITY": identity,
            "COLUMNS": "160",
        }
        program = ROOT / ".venv" / "bin" / "piriscale"
        return subprocess.run(
            [program, *words],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        done = self.person("status", "--json")
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def ecu(
        self, identity: str, node: str, topic: str, body: str, *options: str
    ) -> "subprocess.CompletedProcess[str]":
        """Publish from within a node, as a foreign client with that identity's certificate."""
        folder = self.folder / "certs" / identity
        inside = ["nsenter", f"--net=/run/netns/{self.namespace(node)}"]
        tls = ["--cafile", f"{folder}/ca.pem", "--cert", f"{folder}/cert.pem", "--key", f"{folder}/key.pem"]
        port = "8884" if identity.startswith("application/") else "8883"
        place = ["-h", self.broker, "-p", port, "-q", "1"]
        return subprocess.run(
            [*inside, "mosquitto_pub", *place, *tls, "-t", topic, "-m", body, *options],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )


def until(what: Callable[[], bool], why: str) -> None:
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end, f"never: {why}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    require(missing() is None, missing() or "")
    require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
    for program, package in {"ip": "iproute2", "mosquitto_pub": "mosquitto-clients"}.items():
        require(shutil.which(program) is not None, f"{program} (apt-get install {package})")
    process = subprocess.Popen(
        [ROOT / "compose" / "secured-bench"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    output = ""
    started = time.monotonic()
    try:
        for line in process.stdout:
            output += line
            assert time.monotonic() - started < START_WITHIN_S, output
            if line.startswith("Ctrl-C"):
                break
        assert process.poll() is None, output
        running = Bench(output, process)
        folder, namespaces = running.folder, [running.namespace(node) for node in ("hpc-1", "hpc-2")]
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        process.stdout.close()
        process.wait(WAIT_S)
    assert process.returncode == 0
    assert not folder.exists()
    assert not [name for name in namespaces if Path("/run/netns", name).exists()]


def test_everybody_is_ready_each_with_his_own_identity(bench: Bench) -> None:
    ready = {
        (one["component"], one["instance"]) for one in bench.status()["components"] if one["state"] == "ready"
    }
    assert ready >= {("node_agent", "hpc-1"), ("node_agent", "hpc-2"), ("resource_manager", "main")}
    log = (bench.folder / "log" / "mosquitto.log").read_text()
    for identity in ("resource_manager", "action_controller", "node_agent/hpc-1", "node_agent/hpc-2", "debug_tap"):
        assert f"u'{identity}')" in log
    assert "Denied" not in log
    assert sorted((bench.folder / "hpc-1" / "certs").rglob("key.pem")) == [
        bench.folder / "hpc-1" / "certs" / "node_agent" / "hpc-1" / "key.pem"
    ], "a node has its own key and nobody else's"


@pytest.mark.parametrize(("node", "workload"), [("hpc-1", "navigation"), ("hpc-2", "sim-1")])
def test_an_engineer_scales_on_both_nodes(node: str, workload: str, bench: Bench) -> None:
    done = bench.person("scale", workload, "--node", node, "--cpu", "600m", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["actual"]["cpu_limit"] == 600
    (state,) = [one for one in bench.status()["workloads"] if one["workload_id"] == workload]
    assert state["sync_state"] == "SYNCHRONIZED"


def test_an_ecu_is_heard_about_its_own_workload_and_about_nothing_else(bench: Bench) -> None:
    ecu = "application/hpc-1/navigation"
    for _ in range(4):
        assert bench.ecu(ecu, "hpc-1", "metrics/hpc-1/app/navigation", '{"latency_ms": 450}').returncode == 0

    def decided() -> list[dict[str, Any]]:
        document: dict[str, list[dict[str, Any]]] = json.loads(bench.person("history", "--json").stdout)
        return [one for one in document["decisions"] if one["workload_id"] == "navigation"]

    until(lambda: bool(decided()), "its degradation is decided on")

    action = {"action_id": "by-an-ecu", "node": "hpc-1", "workload_id": "navigation", "target": {"cpu_limit": 900}}
    bench.ecu(ecu, "hpc-1", "scaling/action", json.dumps(action))
    bench.ecu(ecu, "hpc-1", "metrics/hpc-2/app/sim-1", '{"latency_ms": 450}')
    assert bench.person("scale", "navigation", "--node", "hpc-1", "--cpu", "500m").returncode == 0
    history = json.loads(bench.person("history", "--json").stdout)
    assert "by-an-ecu" not in {one["action_id"] for one in history["actions"]}
    assert {one["workload_id"] for one in history["decisions"]} == {"navigation"}


def test_a_node_cannot_speak_for_the_other(bench: Bench) -> None:
    bench.ecu("node_agent/hpc-2", "hpc-2", "node/hpc-1/info", "", "--retain", "-i", "forger")
    bench.ecu(
        "node_agent/hpc-2", "hpc-2", "component/node_agent/hpc-1", '{"state": "lost"}', "--retain", "-i", "forger"
    )
    states = {
        one["instance"]: one["state"] for one in bench.status()["components"] if one["component"] == "node_agent"
    }
    assert states == {"hpc-1": "ready", "hpc-2": "ready"}
    log = (bench.folder / "log" / "mosquitto.log").read_text()
    assert "u'node_agent/hpc-2')" in log


def test_an_engineer_watches_and_examines(bench: Bench) -> None:
    with subprocess.Popen(
        [ROOT / ".venv" / "bin" / "piriscale", "tail", "#", "--json"],
        env={
            **os.environ,
            "PIRISCALE_CONFIG": str(bench.folder / "control.toml"),
            "PIRISCALE_IDENTITY": "cli/engineer",
        },
        stdout=subprocess.PIPE,
        text=True,
    ) as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline(), "what is retained comes first, so it hears now"
        asked = bench.person("scale", "sim-2", "--node", "hpc-2", "--cpu", "700m")
        assert asked.returncode == 0, asked.stderr
        heard = (json.loads(line)["topic"] for line in tail.stdout)
        assert next(topic for topic in heard if topic.startswith("scaling/"))
        tail.terminate()
    examined = json.loads(bench.person("doctor", "--json").stdout)
    about_the_bus = [one for one in examined if one["area"] in ("broker", "rights", "limits", "agents")]
    assert len(about_the_bus) > 3
    assert [one for one in about_the_bus if one["level"] != "ok"] == []


def test_prometheus_and_the_page_see_it(bench: Bench) -> None:
    page = bench.found(r"The page: (\S+)")
    with urllib.request.urlopen(page, timeout=WAIT_S) as answer:  # noqa: S310 - on loopback
        assert answer.status == 200
    require(shutil.which("prometheus") is not None, "prometheus (apt-get install prometheus)")
    prometheus = bench.found(r"Prometheus watches: (\S+)")

    def up() -> set[str]:
        query = f"{prometheus}/api/v1/query?query=up%7Bjob%3D%22piriscale%22%7D%3D%3D1"
        with urllib.request.urlopen(query, timeout=WAIT_S) as answer:  # noqa: S310 - on loopback
            return {one["metric"]["instance"] for one in json.load(answer)["data"]["result"]}

    until(lambda: len(up()) == 8, "Prometheus scrapes six components and two agents")


def test_only_the_nodes_own_address_serves_its_metrics(bench: Bench) -> None:
    address = bench.found(r"node hpc-1: .* address (\S+)")
    socket.create_connection((address, 9464), timeout=5).close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", 9464), timeout=5)
