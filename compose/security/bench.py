"""A secured bench of two nodes, from nothing, by the commands a person would type; see compose/secured-bench."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from network import BROKER_ADDRESS, Cable, NetworkError, lacking

from broker.mosquitto import find_mosquitto
from broker.secured import GUESTS_PORT, PORT
from components.cli.demo.system import free_port, toml
from components.node_agent.podman.private import PrivatePodman, PrivatePodmanError, missing

NODES: Final = ("hpc-1", "hpc-2")
WORKLOAD: Final = "navigation"
CONTROL_PLANE: Final = (
    "resource_manager",
    "action_controller",
    "policy_manager",
    "monitoring_server",
    "debug_tap",
    "dashboard",
)
ENGINEER: Final = "cli/engineer"
READY_WITHIN_S: Final = 90.0
END_WITHIN_S: Final = 15.0
PROGRAM: Final = str(Path(sys.executable).with_name("piriscale"))
RULES: Final = Path(__file__).parents[1] / "prometheus" / "rules.yml"


class BenchError(Exception):
    """The bench does not come up; the text says why."""


class Bench:
    """Everything that runs, and where. What is started is ended by `cleanup`."""

    def __init__(self, folder: Path, cleanup: contextlib.ExitStack, *, simulated: bool) -> None:
        self.folder = folder
        self.simulated = simulated
        self._cleanup = cleanup
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._scraped: dict[str, str] = {}
        self.cables: dict[str, Cable] = {}
        self.page = 0
        (folder / "log").mkdir()

    @property
    def certificates(self) -> Path:
        """Where the authority is; in real life not on a node."""
        return self.folder / "certs"

    @property
    def control(self) -> Path:
        """Configuration of the control plane and of people."""
        return self.folder / "control.toml"

    def build(self) -> None:
        """Network, certificates, broker, control plane, agents. Raises BenchError and what they raise."""
        for number, node in enumerate(NODES, 1):
            self.cables[node] = self._cleanup.enter_context(Cable(node, number))
            cable = self.cables[node]
            say(f"node {node}: network namespace {cable.namespace}, address {cable.address}")
        self._certify()
        self._start_broker()
        self._configure()
        for component in CONTROL_PLANE:
            self._start_component(component, self.control)
        for node in NODES:
            self._start_component("node_agent", self.folder / node / "agent.toml", node)
        self._await_ready()
        self._start_prometheus()

    def command(self, *words: str, identity: str = ENGINEER) -> "subprocess.CompletedProcess[str]":
        """Run piriscale as a person."""
        environment = {**os.environ, "PIRISCALE_CONFIG": str(self.control), "PIRISCALE_IDENTITY": identity}
        return subprocess.run(
            [PROGRAM, *words], env=environment, check=False, capture_output=True, text=True, timeout=120
        )

    def _certify(self) -> None:
        identities = [f"node_agent/{node}" for node in NODES]
        identities += [f"application/{NODES[0]}/{WORKLOAD}", ENGINEER, "admin/engineer"]
        self._do("certs", str(self.certificates), "--host", BROKER_ADDRESS, *identities)
        into = str(self.folder / "broker")
        self._do("broker-config", str(self.certificates), "--into", into, "--bind", BROKER_ADDRESS)
        for node in NODES:  # a node gets what is its own, and nothing else
            name = f"node_agent/{node}"
            shutil.copytree(self.certificates / name, self.folder / node / "certs" / name)

    def _do(self, *words: str) -> None:
        say(f"piriscale {' '.join(words)}")
        done = self.command(*words)
        if done.returncode != 0:
            raise BenchError(done.stderr)

    def _start_broker(self) -> None:
        configuration = self.folder / "broker" / "mosquitto.conf"
        say(f"mosquitto -c {configuration}")
        self._start("mosquitto", [find_mosquitto(), "-c", str(configuration)])

    def _configure(self) -> None:
        self.page = free_port()
        workload = {"workload": WORKLOAD, "latency_ms": 300}
        control: dict[str, Any] = {
            "broker": self._broker(self.certificates),
            "monitoring": {"window": 3, "needed": 2, "thresholds": [workload]},
            "policy": [{"workload": "*", "max": {"cpu": "2", "memory": "1Gi"}}],
            "metrics": {"port": 0},
            "dashboard": {"port": self.page},
        }
        for component in ("policy_manager", "resource_manager", "action_controller"):
            control[component] = {"database": str(self.folder / f"{component}.sqlite3")}
        self.control.write_text(toml(control), encoding="utf-8")
        for node in NODES:
            home = self.folder / node
            agent = {
                "broker": self._broker(home / "certs"),
                "node_agent": {"node": node, "state_dir": str(home / "state"), **self._runtime(node)},
                "metrics": {"host": self.cables[node].address},  # for Prometheus, which is not on the node
            }
            (home / "agent.toml").write_text(toml(agent), encoding="utf-8")

    def _broker(self, certificates: Path) -> dict[str, Any]:
        names = {"ca_file": "ca.pem", "cert_file": "cert.pem", "key_file": "key.pem"}
        files = {key: f"{certificates}/{{identity}}/{name}" for key, name in names.items()}
        return {"url": f"mqtts://{BROKER_ADDRESS}:{PORT}", "tls": files}

    def _runtime(self, node: str) -> dict[str, Any]:
        if self.simulated or node != NODES[0]:
            say(f"{node} has simulated containers")
            return {"runtime": "simulated", "simulated_containers": 2}
        podman = self._cleanup.enter_context(PrivatePodman(self.folder / "p"))
        podman.run(WORKLOAD, cpus=0.25, memory_mib=64)
        say(f"{node} has a real container, {WORKLOAD}, of a Podman of its own")
        return {"podman_url": podman.url}

    def _start_component(self, component: str, configuration: Path, node: str | None = None) -> None:
        port = 9464 if node else free_port()
        host = self.cables[node].address if node else "127.0.0.1"
        name = f"{component}/{node}" if node else component
        command = [PROGRAM, "run", component, "-c", str(configuration), "--metrics-port", str(port)]
        self._start(name, [*(self.cables[node].inside if node else ()), *command])
        self._scraped[name] = f"{host}:{port}"

    def _start(self, name: str, command: list[str]) -> None:
        with (self.folder / "log" / f"{name.replace('/', '-')}.log").open("wb") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._children[name] = child
        self._cleanup.callback(_end, child)

    def _await_ready(self) -> None:
        until = time.monotonic() + READY_WITHIN_S
        while (lack := self._lack()) is not None:
            for name, child in self._children.items():
                if child.poll() is not None:
                    raise BenchError(f"{name} ended:\n{self._log_of(name)}")
            if time.monotonic() > until:
                raise BenchError(f"not ready after {READY_WITHIN_S:g} s: {lack}")
            time.sleep(0.5)

    def _lack(self) -> str | None:
        done = self.command("status", "--json")
        if done.returncode != 0:
            return done.stderr
        seen = json.loads(done.stdout)
        ready = sum(one["state"] == "ready" for one in seen["components"])
        nodes = {one["node"] for one in seen["workloads"]}
        wanted = len(CONTROL_PLANE) + len(NODES)
        return None if ready >= wanted and nodes >= set(NODES) else f"{ready} of {wanted} are ready, {nodes} seen"

    def _log_of(self, name: str) -> str:
        text = (self.folder / "log" / f"{name.replace('/', '-')}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-10:])

    def _start_prometheus(self) -> None:
        program = shutil.which("prometheus")
        if program is None:
            say("prometheus is not installed (apt-get install prometheus), so it does not watch")
            return
        place, port = self.folder / "prometheus", free_port()
        place.mkdir()
        targets = json.dumps(list(self._scraped.values()))
        text = f"scrape_configs: [{{job_name: piriscale, static_configs: [{{targets: {targets}}}]}}]\n"
        text += f"global: {{scrape_interval: 5s}}\nrule_files: [{json.dumps(str(RULES))}]\n"
        (place / "prometheus.yml").write_text(text, encoding="utf-8")
        options = [f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/data"]
        self._start("prometheus", [program, *options, f"--web.listen-address=127.0.0.1:{port}"])
        say(f"Prometheus watches: http://127.0.0.1:{port}")

    def describe(self) -> str:
        """What a person can do with it."""
        ecu = self.certificates / "application" / NODES[0] / WORKLOAD
        node = " ".join(self.cables[NODES[0]].inside)
        tls = f"--cafile {ecu}/ca.pem --cert {ecu}/cert.pem --key {ecu}/key.pem"
        scaled = "sim-1" if self.simulated else WORKLOAD
        return f"""
The bench runs, in {self.folder}. The page: http://127.0.0.1:{self.page}
As an engineer, in another terminal:

  export PIRISCALE_CONFIG={self.control} PIRISCALE_IDENTITY={ENGINEER}
  {PROGRAM} status
  {PROGRAM} scale {scaled} --node {NODES[0]} --cpu 500m
  {PROGRAM} doctor

As an ECU of {NODES[0]}, which may say the latency of {WORKLOAD} and nothing else (mosquitto-clients):

  {node} mosquitto_pub -h {BROKER_ADDRESS} -p {GUESTS_PORT} {tls} \\
    -t metrics/{NODES[0]}/app/{WORKLOAD} -m '{{"latency_ms": 450}}'

Ctrl-C ends it and removes everything."""


def say(text: str) -> None:
    """One step, for whoever watches."""
    print(f"* {text}", flush=True)


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A short path, for a socket's sake, which the broker's user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="ps-secured-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Build the bench, and keep it until a signal."""
    parser = argparse.ArgumentParser(prog="compose/secured-bench", description=__doc__)
    parser.add_argument("--simulated", action="store_true", help="no Podman: simulated containers on both nodes")
    options = parser.parse_args()
    lack = lacking() or (None if options.simulated else missing())
    if lack is not None:
        print(f"secured-bench: needs {lack}", file=sys.stderr)
        return 1
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        with contextlib.ExitStack() as cleanup:
            bench = Bench(cleanup.enter_context(_folder()), cleanup, simulated=options.simulated)
            bench.build()
            print(bench.describe(), flush=True)
            while True:
                signal.pause()
    except (BenchError, NetworkError, PrivatePodmanError) as error:
        print(f"secured-bench: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
