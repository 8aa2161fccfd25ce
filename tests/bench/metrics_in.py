"""How many metrics one MonitoringServer takes in, against a bare client that only counts them."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench.agents import node_name
from tests.bench.baselines import cpu_seconds
from tests.bench.plant import Plant, plant
from tests.bench.report import Report, quantile
from tests.bench.scale import Progress, Scale
from tests.bench.scrape import scraped
from tests.fixtures.broker import free_port
from tests.system.foreign import ForeignClient

CONTAINERS: Final = 20
WINDOW: Final = 3
GRACE_S: Final = 1.0
"""How much later than its window a degradation may be told."""
MONITORING: Final = {
    "window": WINDOW,
    "needed": WINDOW,
    "repeat_s": 300,
    "thresholds": [{"workload": "app-*", "cpu_percent": 90, "memory_percent": 1000}],
}
SETTLE_S: Final = 2.0


class Server:
    """One MonitoringServer, and how many messages it has handled."""

    def __init__(self, running: Plant, sections: Mapping[str, Any], name: str = "monitoring_server") -> None:
        self.port = free_port()
        configuration = running.configure(sections, name)
        program = str(Path(sys.executable).with_name("piriscale"))
        options = ["-c", str(configuration), "--metrics-port", str(self.port)]
        running.spawn(name, [program, "run", "monitoring_server", *options])
        self.pid = running.processes[name].pid

    def await_ready(self, client: ForeignClient) -> None:
        client.await_message(
            "component/monitoring_server/main", lambda body: body["state"] == "ready", timeout_s=60
        )

    @property
    def handled(self) -> int:
        return int(scraped(self.port, "piriscale_messages_total", direction="in"))

    @property
    def dropped(self) -> int:
        return int(scraped(self.port, "piriscale_messages_dropped_total", direction="in"))


class Listener:
    """The bare client."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-m", "tests.bench.listener", str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self.handled = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.handled = int(line)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def flood(port: int, **plan: Any) -> Iterator["subprocess.Popen[str]"]:
    """A publisher at work until the block is left."""
    wanted = {"containers": CONTAINERS, "loud": {}, "quiet_periods": 10**9, "mark": "", "paced": True, **plan}
    command = [sys.executable, "-m", "tests.bench.flood", str(port), json.dumps(wanted)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def run(scale: Scale, progress: Progress) -> Report:
    """A steady minute with degradations planted in it, then as fast as it goes."""
    report = Report("metrics in")
    nodes = scale.of(1000, short=20)
    with plant(()) as running, ForeignClient(running.broker.port, subscribe=("perf/#", "component/#")) as client:
        server = Server(running, {"monitoring": MONITORING})
        server.await_ready(client)
        for _ in progress.each(range(1), "a steady minute"):
            _steady(running, client, server, nodes, scale.of(60, short=10), report)
        _saturated(running, server, nodes, scale, progress, report)
    return report


def _steady(
    running: Plant, client: ForeignClient, server: Server, nodes: int, seconds: int, report: Report
) -> None:
    mark = running.folder / "degraded-at"
    loud = {str(node): [node % CONTAINERS] for node in range(0, nodes, max(1, nodes // 50))}
    handled, spent = server.handled, cpu_seconds(server.pid)
    plan = {"nodes": nodes, "seconds": seconds, "loud": loud, "quiet_periods": seconds // 3, "mark": str(mark)}
    with flood(running.broker.port, **plan) as publisher:
        told, _ = publisher.communicate(timeout=seconds + 120)
    sent = json.loads(told)["sent"]
    time.sleep(SETTLE_S)
    handled = server.handled - handled
    late = _detections(client, loud, float(mark.read_text(encoding="utf-8")), report)
    if server.dropped:
        report.wrong.append(f"{server.dropped} messages were dropped")
    report.add(f"handled of {sent:,} sent in {seconds} s", handled / sent * 100, "%", least=99.99, absolute=True)
    report.add("CPU of one core", (cpu_seconds(server.pid) - spent) / seconds * 100, "%")
    report.add(
        f"degradation told after its window of {WINDOW} s, p100",
        quantile(late, 1),
        "s",
        most=GRACE_S,
        absolute=True,
    )


def _detections(
    client: ForeignClient, loud: Mapping[str, Sequence[int]], since: float, report: Report
) -> list[float]:
    """How long after its window each planted degradation was told, seconds."""
    first: dict[tuple[str, str], float] = {}
    for body in client.heard("perf/degraded"):
        first.setdefault((body["node"], body["workload_id"]), body["ts"] / 1000)
    planted = {(node_name(int(node)), f"app-{number}") for node, numbers in loud.items() for number in numbers}
    if first.keys() != planted:
        report.wrong.append(f"{len(planted)} degradations planted, {len(first)} found: {planted ^ first.keys()}")
    return [told - since - WINDOW for told in first.values()]


def _saturated(
    running: Plant, server: Server, nodes: int, scale: Scale, progress: Progress, report: Report
) -> None:
    """In turns, so that both see the same machine."""
    seconds = scale.of(10, short=2)
    rates: dict[str, list[float]] = {"server": [], "bare": []}
    costs: dict[str, list[float]] = {"server": [], "bare": []}
    for _ in progress.each(range(scale.of(3, short=1)), "as fast as it goes, in turns"):
        running.pause("monitoring_server", paused=True)
        listener = Listener(running.broker.port)
        time.sleep(1)
        _turn(running, listener, nodes, seconds, rates["bare"], costs["bare"])
        listener.stop()
        running.pause("monitoring_server", paused=False)
        _drain(server)
        _turn(running, server, nodes, seconds, rates["server"], costs["server"])
        _drain(server)
    report.add(
        "messages a second at saturation", max(rates["server"]), "/s", baseline=max(rates["bare"]), least=0.5
    )
    report.add("CPU a message", min(costs["server"]), "µs", baseline=min(costs["bare"]))
    report.remarks.append(
        f"{nodes} nodes × {CONTAINERS} containers, two messages a second each; baseline: a paho "
        f"client with the same subscriptions that counts; in turns of {seconds} s, best of {len(rates['bare'])}"
    )


def _turn(
    running: Plant, hears: "Server | Listener", nodes: int, seconds: int, rates: list[float], costs: list[float]
) -> None:
    with flood(running.broker.port, nodes=nodes, seconds=seconds + 4, paced=False):
        time.sleep(3)
        began, handled, spent = time.monotonic(), hears.handled, cpu_seconds(hears.pid)
        time.sleep(seconds)
        took, handled = time.monotonic() - began, hears.handled - handled
        spent = cpu_seconds(hears.pid) - spent
    rates.append(handled / took)
    costs.append(spent / max(1, handled) * 1e6)


def _drain(server: Server) -> None:
    before = -1
    while server.handled != before:
        before = server.handled
        time.sleep(SETTLE_S / 2)
