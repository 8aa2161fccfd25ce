"""Everything degrades at once: how soon each event has its outcome, and whether the bus still answers others."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, Self

from broker.plain import PlainClient
from tests.bench.agents import node_name
from tests.bench.plant import plant
from tests.bench.report import Report, quantile
from tests.bench.scale import Progress, Scale
from tests.system.foreign import ForeignClient

COMPONENTS: Final = ("resource_manager", "action_controller", "policy_manager", "monitoring_server")
WORKLOADS: Final = 5
HEARTBEAT: Final = "bench/heartbeat"
HEARTBEAT_S: Final = 0.02
QUIET_S: Final = 5.0
OUTCOMES_WITHIN_S: Final = 180.0
SECTIONS: Final[Mapping[str, Any]] = {
    "monitoring": {
        "window": 1,
        "needed": 1,
        "repeat_s": 600,
        "thresholds": [{"workload": "sim-*", "latency_ms": 300, "cpu_percent": 1000, "memory_percent": 1000}],
    },
    "policy": [{"workload": "sim-*", "cpu_percent": 1, "cooldown_s": 600}],
}


class Heart:
    """Publishes to itself, and notes how long each beat took to come back."""

    def __init__(self, port: int) -> None:
        self.delays: list[float] = []
        self._client = PlainClient("127.0.0.1", port, "bench-heart", self._hear, (HEARTBEAT,))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._client.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._client.__exit__(None, None, None)

    def taken(self) -> list[float]:
        """The delays since the last call, seconds."""
        taken, self.delays = self.delays, []
        return taken

    def _hear(self, _topic: str, payload: bytes, _retained: bool) -> None:
        self.delays.append(time.perf_counter() - float(payload))

    def _beat(self) -> None:
        while not self._stopped.wait(HEARTBEAT_S):
            self._client.publish(HEARTBEAT, str(time.perf_counter()).encode(), 1)


def run(scale: Scale, progress: Progress) -> Report:
    """One burst."""
    report = Report("burst")
    nodes = scale.of(100, short=4)
    count = nodes * WORKLOADS
    with plant(COMPONENTS, SECTIONS) as running:
        running.add_nodes(nodes, WORKLOADS, metrics_s=2.0)
        with ForeignClient(running.broker.port, subscribe=("perf/#", "resources/#", "scaling/#")) as client:
            running.await_states(client, count)
            with Heart(running.broker.port) as heart:
                time.sleep(QUIET_S)
                quiet = heart.taken()
                for _ in progress.each(range(1), f"{count} workloads degrade at once"):
                    took = _burst(client, nodes, count, report)
                loud = heart.taken()
    report.add("event → outcome, p50", quantile(took, 0.5), "s")
    report.add("event → outcome, p99", quantile(took, 0.99), "s")
    report.add("outcomes a second", count / max(took), "/s")
    report.add("heartbeat, p99", quantile(loud, 0.99) * 1000, "ms", baseline=quantile(quiet, 0.99) * 1000)
    report.remarks.append(
        f"{nodes} nodes × {WORKLOADS} workloads; baseline of the heartbeat: the same bus before the burst"
    )
    return report


def _burst(client: ForeignClient, nodes: int, count: int, report: Report) -> list[float]:
    """Degrade all; seconds from each event to its outcome."""
    since = client.mark()
    for node in range(nodes):
        for number in range(1, WORKLOADS + 1):
            client.say(f"metrics/{node_name(node)}/app/sim-{number}", {"latency_ms": 450})
    end = time.monotonic() + OUTCOMES_WITHIN_S
    while len(client.heard("perf/outcome", since)) < count and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(1)  # for outcomes that should not be
    began = {body["event_id"]: body["ts"] for body in client.heard("perf/degraded", since)}
    outcomes: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for body in client.heard("perf/outcome", since):
        outcomes[body["event_id"]].setdefault(f"{body['outcome']} {body.get('reason', '')}".strip(), body["ts"])
    if len(began) != count:
        report.wrong.append(f"{count} workloads degraded, {len(began)} events")
    several = [told for told in outcomes.values() if len(told) != 1]
    if several or outcomes.keys() != began.keys():
        report.wrong.append(f"{len(began)} events, {len(outcomes)} outcomes, {len(several)} with several")
    other = [told for told in outcomes.values() if "COMPLETED" not in told]
    if other:
        report.wrong.append(f"{len(other)} were not scaled, such as {other[0]}")
    return [(min(told.values()) - began[event]) / 1000 for event, told in outcomes.items() if event in began]
