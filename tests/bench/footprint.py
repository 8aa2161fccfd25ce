"""Memory, CPU and start of each component: idle, and with many containers."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from components.cli.demo.system import toml
from components.node_agent.podman.private import PrivatePodman
from tests.bench.baselines import cpu_seconds, resident_mib
from tests.bench.plant import plant
from tests.bench.report import Report, quantile
from tests.bench.scale import Progress, Scale
from tests.fixtures.broker import RunningBroker, running_broker
from tests.system.foreign import ForeignClient

PROGRAM: Final = str(Path(sys.executable).with_name("piriscale"))
CONTROL_PLANE: Final = ("monitoring_server", "policy_manager", "action_controller", "resource_manager")
NODE: Final = "footprint-1"


def run(scale: Scale, progress: Progress) -> Report:
    """Each thing after the other, since they would disturb each other."""
    report = Report("footprint")
    steps = (_help, _idle, _whole, _agents)
    for step in progress.each(steps, "footprint"):
        step(scale, report)
    return report


def _help(scale: Scale, report: Report) -> None:
    bare, full = [], []
    for _ in range(scale.of(10, short=2)):
        bare.append(_seconds([sys.executable, "-c", "pass"]))
        full.append(_seconds([PROGRAM, "--help"]))
    report.add("piriscale --help", quantile(full, 0.5), "s", baseline=quantile(bare, 0.5), most=0.3, absolute=True)


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _idle(scale: Scale, report: Report) -> None:
    """Components with nothing to do."""
    seconds = scale.of(20, short=2)
    with plant(()) as running, ForeignClient(running.broker.port, subscribe=("component/#",)) as client:
        configuration = running.configure()
        for component in CONTROL_PLANE:
            began = time.monotonic()
            running.start(component, configuration)
            client.await_message(f"component/{component}/main", lambda b: b["state"] == "ready", timeout_s=60)
            report.add(f"{component}: start to ready", time.monotonic() - began, "s")
        before = {name: cpu_seconds(process.pid) for name, process in running.processes.items()}
        time.sleep(seconds)
        for name, process in running.processes.items():
            report.add(
                f"{name}: idle, CPU of a core", (cpu_seconds(process.pid) - before[name]) / seconds * 100, "%"
            )
            report.add(f"{name}: idle, memory", resident_mib(process.pid), "MiB")


def _whole(scale: Scale, report: Report) -> None:
    """All components in one process, as `piriscale up` runs them, with 20 containers and metrics each second."""
    with running_broker() as broker, _one_process(broker, "up", {"simulated_containers": 20}) as (pid, client):
        client.await_message("component/resource_manager/main", lambda b: b["state"] == "ready", timeout_s=60)
        client.await_message(f"metrics/{NODE}/containers", timeout_s=60)
        seconds = scale.of(20, short=2)
        before = cpu_seconds(pid)
        time.sleep(seconds)
        report.add("up, 20 containers: CPU of a core", (cpu_seconds(pid) - before) / seconds * 100, "%")
        report.add("up, 20 containers: memory", resident_mib(pid), "MiB", most=120, absolute=True)


def _agents(scale: Scale, report: Report) -> None:
    """An agent beside a real Podman, with metrics each second."""
    seconds = scale.of(30, short=3)
    with (
        tempfile.TemporaryDirectory(prefix="ps-bench-", dir="/tmp") as name,
        PrivatePodman(Path(name) / "podman") as podman,
        running_broker() as broker,
        _one_process(broker, "run", {"runtime": "podman", "podman_url": podman.url}) as (pid, client),
    ):
        made = 0
        for count in (scale.of(20, short=2), scale.of(110, short=4)):
            while made < count:
                made += 1
                podman.run(f"box-{made}", "sleep", "100000", cpus=0.01, memory_mib=16)
            _measure_agent(pid, client, count, seconds, report)


def _measure_agent(pid: int, client: ForeignClient, count: int, seconds: int, report: Report) -> None:
    client.await_message(
        f"metrics/{NODE}/containers", lambda b: len(b["containers"]) == count, since=client.mark(), timeout_s=60
    )
    before = cpu_seconds(pid)
    time.sleep(seconds)
    spent = (cpu_seconds(pid) - before) / seconds * 100
    goals: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    if count == 20:
        goals = ({"most": 1.5, "absolute": True}, {"most": 45, "absolute": True})
    report.add(f"node_agent, {count} containers: CPU of a core", spent, "%", **goals[0])
    report.add(f"node_agent, {count} containers: memory", resident_mib(pid), "MiB", **goals[1])


@contextmanager
def _one_process(
    broker: RunningBroker, command: str, agent: Mapping[str, Any]
) -> Iterator[tuple[int, ForeignClient]]:
    """`piriscale up`, or `run node_agent`, as a child."""
    with tempfile.TemporaryDirectory(prefix="ps-bench-") as name:
        folder = Path(name)
        body: dict[str, Any] = {
            "broker": {"url": f"mqtt://127.0.0.1:{broker.port}"},
            "node_agent": {"node": NODE, "runtime": "simulated", "state_dir": str(folder / "agent"), **agent},
            "metrics": {"port": 0},
            "dashboard": {"port": 0},
        }
        for component in CONTROL_PLANE[1:]:
            body[component] = {"database": str(folder / f"{component}.sqlite3")}
        configuration = folder / "piriscale.toml"
        configuration.write_text(toml(body), encoding="utf-8")
        arguments = ["up"] if command == "up" else ["run", "node_agent"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [PROGRAM, *arguments, "-c", str(configuration)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            with ForeignClient(broker.port, subscribe=("component/#", "metrics/#")) as client:
                yield process.pid, client
        finally:
            process.terminate()
            process.wait()
