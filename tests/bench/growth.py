"""What one node and one container cost when there are more of them.

As CPU time, which a busy machine bends least.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Final

from tests.bench.baselines import cpu_seconds
from tests.bench.metrics_in import MONITORING, Server, flood
from tests.bench.plant import plant
from tests.bench.report import Report
from tests.bench.scale import Progress, Scale
from tests.bench.throughput import AT_ONCE, COMPONENTS, WORKLOADS, chain
from tests.system.foreign import ForeignClient

FULL: Final = {"nodes": (10, 100, 1000), "containers": (10, 110, 500)}
NODES_AT_ONCE: Final = 250
"""More that start on two processors in the same second do not come to speak before the broker's patience ends."""
SHORT: Final = {"nodes": (5, 10), "containers": (5, 10)}


def run(scale: Scale, progress: Progress) -> Report:
    """The exponent is that of cost per item against how many there are: 0 is flat, 1 doubles with them."""
    report = Report("growth")
    sizes = SHORT if scale.short else FULL
    costs: dict[str, dict[int, float]] = {}
    for nodes in progress.each(sizes["nodes"], "nodes: actions"):
        for name, cost in _actions(nodes, WORKLOADS, scale, report).items():
            costs.setdefault(f"{name}, ms an action, by nodes", {})[nodes] = cost
    for nodes in progress.each(sizes["nodes"], "nodes: metrics"):
        costs.setdefault("monitoring_server, µs a message, by nodes", {})[nodes] = _metrics(nodes, 20, scale)
    for containers in progress.each(sizes["containers"], "containers: actions"):
        for name, cost in _actions(2, containers, scale, report).items():
            costs.setdefault(f"{name}, ms an action, by containers", {})[containers] = cost
    for containers in progress.each(sizes["containers"], "containers: metrics"):
        cost = _metrics(20, containers, scale) / containers
        costs.setdefault("monitoring_server, µs a container, by containers", {})[containers] = cost
    for what, found in costs.items():
        for size, cost in found.items():
            report.add(f"{what}: {size}", cost, "")
        report.add(f"{what}: exponent", exponent(found), "")
    return report


def exponent(costs: Mapping[int, float]) -> float:
    """The slope of cost against size, both as logarithms, by least squares."""
    xs: Sequence[float] = [math.log(size) for size in costs]
    ys: Sequence[float] = [math.log(max(cost, 1e-9)) for cost in costs.values()]
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    return sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread


def _actions(nodes: int, containers: int, scale: Scale, report: Report) -> dict[str, float]:
    """CPU milliseconds of each component for one action."""
    count = scale.of(400, short=20)
    with plant(COMPONENTS) as running:
        with ForeignClient(running.broker.port, subscribe=("resources/state/#",)) as client:
            for first in range(0, nodes, NODES_AT_ONCE):
                more = min(NODES_AT_ONCE, nodes - first)
                running.add_nodes(more, containers, first=first)
                running.await_states(client, (first + more) * containers)
        driver = chain(running, nodes, min(AT_ONCE, nodes * containers // 2), report.wrong, containers)
        before = {name: cpu_seconds(running.processes[name].pid) for name in COMPONENTS}
        driver.run(count)
        return {
            name: (cpu_seconds(running.processes[name].pid) - before[name]) / count * 1000 for name in COMPONENTS
        }


def _metrics(nodes: int, containers: int, scale: Scale) -> float:
    """CPU microseconds of MonitoringServer for one message."""
    seconds = scale.of(10, short=2)
    with plant(()) as running, ForeignClient(running.broker.port, subscribe=("component/#",)) as client:
        server = Server(running, {"monitoring": MONITORING})
        server.await_ready(client)
        with flood(running.broker.port, nodes=nodes, containers=containers, seconds=seconds + 4, paced=False):
            time.sleep(3)
            handled, spent = server.handled, cpu_seconds(server.pid)
            time.sleep(seconds)
            return (cpu_seconds(server.pid) - spent) / max(1, server.handled - handled) * 1e6
