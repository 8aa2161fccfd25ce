"""One MonitoringServer against two that share the nodes, on the same flood."""

import time
from typing import Final

from tests.bench.metrics_in import CONTAINERS, MONITORING, Server, flood
from tests.bench.plant import Plant, plant
from tests.bench.report import Report
from tests.bench.scale import Progress, Scale
from tests.system.foreign import ForeignClient

PARTS: Final = ("1/2", "2/2")
SETTLE_S: Final = 3.0
EPISODES_WITHIN_S: Final = 60.0


def run(scale: Scale, progress: Progress) -> Report:
    """How many messages of the flood each takes in; and that each episode is told once."""
    report = Report("scale out")
    nodes, seconds = scale.of(1000, short=20), scale.of(10, short=2)
    alone: list[float] = []
    shared: list[float] = []
    for _ in progress.each(range(scale.of(3, short=1)), "one, then two"):
        alone.append(_rate(("1/1",), nodes, seconds, report))
        shared.append(_rate(PARTS, nodes, seconds, report))
    report.add("messages a second decoded and judged by two", max(shared), "/s", baseline=max(alone))
    report.remarks.append(
        f"{nodes} nodes × {CONTAINERS} containers as fast as the broker passes them on; baseline: one "
        "server. Each of the two hears all, and drops the half that is not its own before decoding it"
    )
    return report


def _rate(parts: tuple[str, ...], nodes: int, seconds: int, report: Report) -> float:
    with plant(()) as running, ForeignClient(running.broker.port, subscribe=("perf/#", "component/#")) as client:
        servers = [
            Server(running, {"monitoring": {**MONITORING, "partition": part}}, f"monitoring_server_{number}")
            for number, part in enumerate(parts, 1)
        ]
        for part in parts:
            name = "main" if part == "1/1" else part.replace("/", "-of-")
            client.await_message(
                f"component/monitoring_server/{name}", lambda body: body["state"] == "ready", timeout_s=60
            )
        _check_episodes(running, client, report)
        with flood(running.broker.port, nodes=nodes, seconds=seconds + 4, paced=False):
            time.sleep(SETTLE_S)
            began, before = time.monotonic(), sum(server.handled for server in servers)
            time.sleep(seconds)
            handled, took = sum(server.handled for server in servers) - before, time.monotonic() - began
    return handled / len(parts) / took


def _check_episodes(running: Plant, client: ForeignClient, report: Report) -> None:
    """Every planted degradation is told by exactly one of them."""
    loud = {str(node): [0] for node in range(20)}
    plan = {"nodes": 20, "seconds": 5, "loud": loud, "quiet_periods": 0}
    with flood(running.broker.port, **plan) as publisher:
        publisher.communicate(timeout=EPISODES_WITHIN_S)
    time.sleep(SETTLE_S)
    told = {(body["node"], body["episode_id"]) for body in client.heard("perf/degraded")}
    if len(told) != len(loud) or len({node for node, _ in told}) != len(loud):
        report.wrong.append(f"{len(loud)} episodes planted, {len(told)} told")
