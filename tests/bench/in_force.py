"""From a published metric to a limit in force, against Podman's own REST call and command."""

import os
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from components.node_agent.podman.private import PrivatePodman
from tests.bench.baselines import BareRest, update_by_command
from tests.bench.floor import Floor, chain_of
from tests.bench.report import Report, quantile
from tests.bench.scale import Progress, Scale
from tests.fixtures.broker import running_broker
from tests.fixtures.podman import Box
from tests.system.fleet import NODE, Fleet
from tests.system.foreign import Body, ForeignClient

ECU: Final = "ecu-1"
FEW_CPU: Final = 20_000
"""Quota of the application at first; microseconds of each 100,000."""
MORE_CPU: Final = 40_000
"""What policy gives it."""
UNDER_THE_TOLERANCE: Final = 500
"""A bare call changes the quota by so much: for the kernel a change, for piriscale within 10m, so no drift."""
LOOK_S: Final = 0.0002
IN_FORCE_WITHIN_S: Final = 20.0
COMMAND_EVERY: Final = 4
REST_S: Final = 0.3
"""Before whatever is measured the machine is idle for so long: a change of limits comes out of a quiet."""

HOPS: Final = (
    ("metric → degraded", "perf/degraded"),
    ("→ action", "scaling/action"),
    ("→ validate", "resources/validate"),
    ("→ granted", "resources/validate/reply"),
    ("→ desired", "resources/desired"),
    ("→ desired recorded", "resources/desired/reply"),
    ("→ update", f"node/{NODE}/update"),
    ("→ in force", "in force"),
    ("→ verified", f"node/{NODE}/update/reply"),
    ("→ actual", "resources/actual"),
    ("→ actual recorded", "resources/actual/reply"),
    ("→ outcome", "perf/outcome"),
)
"""Steps of the chain, as a bystander hears them on the bus."""


class Bystander(ForeignClient):
    """Hears everything, and notes when."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.moments: defaultdict[str, list[float]] = defaultdict(list)

    def _hear(self, topic: str, payload: bytes, retained: bool) -> None:
        self.moments[topic].append(time.perf_counter())
        super()._hear(topic, payload, retained)


@dataclass
class Taken:
    """Seconds, round by round."""

    bare: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    command: list[float] = field(default_factory=list)
    in_force: list[float] = field(default_factory=list)
    verified: list[float] = field(default_factory=list)
    hops: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def run(scale: Scale, progress: Progress) -> Report:
    """Scale a real container again and again, with a bare call of the same kind before each time."""
    report = Report("event to in force")
    with tempfile.TemporaryDirectory(prefix="ps-bench-", dir="/tmp") as name, running_broker() as broker:
        folder = Path(name)
        with (
            PrivatePodman(folder / "podman") as podman,
            Fleet(folder, f"mqtt://127.0.0.1:{broker.port}", _agent(podman), _sections()) as fleet,
        ):
            with Bystander(broker.port) as client:
                fleet.await_ready(client)
            taken = _measure(podman, broker.port, scale, progress)
    _figures(report, taken)
    return report


def _agent(podman: PrivatePodman) -> dict[str, Any]:
    return {"podman_url": podman.url}


def _sections() -> dict[str, Any]:
    return {
        "monitoring": {
            "window": 1,
            "needed": 1,
            "thresholds": [{"workload": "ecu-*", "latency_ms": 300, "cpu_percent": 1000, "memory_percent": 1000}],
        },
        "policy": [{"workload": "ecu-*", "cpu_percent": 1, "cooldown_s": 0}],
    }


def _measure(podman: PrivatePodman, port: int, scale: Scale, progress: Progress) -> Taken:
    """The rounds that count have no bystander: to hear each message takes as much CPU as to send it."""
    identity = podman.run(ECU, "sh", "-c", "while :; do :; done", cpus=FEW_CPU / 100_000, memory_mib=64)
    box = Box(podman, ECU, identity)
    rest = BareRest(podman.socket)
    quota = os.open(box.directory("cpu") / _quota_file(box), os.O_RDONLY)
    taken = Taken()
    with Bystander(port) as bystander:
        bystander.state(NODE, ECU, lambda body: "actual" in body)
        _await_use(bystander, bystander.mark())
        since = bystander.mark()
        _hops(bystander, quota, Taken())  # the first of all is not counted
        chain = chain_of(bystander.order(since), f"metrics/{NODE}/app/{ECU}", f"node/{NODE}/update")
    _back(port)
    with Floor(port, chain) as floor:
        for number in progress.each(range(scale.of(150, short=5)), "event to in force"):
            with ForeignClient(port, subscribe=("perf/outcome",)) as client:
                time.sleep(REST_S)
                taken.floor.append(_at_least(floor, rest, box))
                time.sleep(REST_S)
                taken.bare.append(rest.update(box.id, _limits(FEW_CPU + UNDER_THE_TOLERANCE)))
                if number % COMMAND_EVERY == 0:
                    time.sleep(REST_S)
                    taken.command.append(update_by_command(podman, box.name, FEW_CPU - UNDER_THE_TOLERANCE))
                rest.update(box.id, _limits(FEW_CPU))
                time.sleep(REST_S)
                _one_scaling(client, quota, taken)
            _back(port)
    for _ in progress.each(range(scale.of(30, short=2)), "hop by hop"):
        with Bystander(port) as bystander:
            _hops(bystander, quota, taken)
        _back(port)
    os.close(quota)
    rest.close()
    return taken


def _at_least(floor: Floor, rest: BareRest, box: Box) -> float:
    began = time.perf_counter()
    floor.pass_on()
    rest.update(box.id, _limits(FEW_CPU - UNDER_THE_TOLERANCE))
    return time.perf_counter() - began


def _limits(quota_us: int) -> dict[str, Any]:
    return {"cpu": {"quota": quota_us, "period": 100_000}}


def _quota_file(box: Box) -> str:
    return "cpu.max" if (box.directory("cpu") / "cpu.max").exists() else "cpu.cfs_quota_us"


def _one_scaling(client: ForeignClient, quota: int, taken: Taken) -> None:
    began, in_force = _degrade(client, quota)
    taken.in_force.append(in_force - began)
    client.await_message("perf/outcome", lambda body: body["outcome"] == "COMPLETED")
    taken.verified.append(time.perf_counter() - began)


def _degrade(client: ForeignClient, quota: int) -> tuple[float, float]:
    """Say that the application is slow; when that was, and when the limit was in force."""
    watcher = QuotaWatcher(quota, MORE_CPU)
    began = time.perf_counter()
    client.say(f"metrics/{NODE}/app/{ECU}", {"latency_ms": 450})
    in_force = watcher.moment()
    assert in_force is not None, f"not scaled: {client.heard('perf/outcome')}"
    return began, in_force


def _hops(bystander: Bystander, quota: int, taken: Taken) -> None:
    before = {topic: len(bystander.moments[topic]) for _, topic in HOPS}
    last, in_force = _degrade(bystander, quota)
    bystander.await_message("perf/outcome", lambda body: body["outcome"] == "COMPLETED")
    moments = {topic: bystander.moments[topic][before[topic]] for _, topic in HOPS if topic != "in force"}
    moments["in force"] = in_force
    for hop, topic in HOPS:
        taken.hops[hop].append(moments[topic] - last)
        last = moments[topic]


class QuotaWatcher:
    """Looks at a cgroup file until it says what is wanted. The kernel does not tell, so it is looked at often."""

    def __init__(self, descriptor: int, wanted: int) -> None:
        self._descriptor = descriptor
        self._wanted = str(wanted).encode()
        self._moment: float | None = None
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def moment(self) -> float | None:
        """When it was seen, on the clock of `perf_counter`; None: not in time."""
        self._thread.join(IN_FORCE_WITHIN_S + 1)
        return self._moment

    def _look(self) -> None:
        end = time.perf_counter() + IN_FORCE_WITHIN_S
        while time.perf_counter() < end:
            if os.pread(self._descriptor, 64, 0).split()[:1] == [self._wanted]:
                self._moment = time.perf_counter()
                return
            time.sleep(LOOK_S)


def _back(port: int) -> None:
    """Healthy again, and small again, ready for the next round."""
    with ForeignClient(port) as client:
        client.state(NODE, ECU, lambda body: "actual" in body)  # by then it hears
        since = client.mark()
        client.say(f"metrics/{NODE}/app/{ECU}", {"latency_ms": 20})
        client.await_message("perf/recovered", since=since)
        told = client.final(client.scale(NODE, ECU, target={"cpu_limit": FEW_CPU // 100}))
        assert told["outcome"] == "COMPLETED", told
        _await_use(client, since)


def _await_use(client: ForeignClient, since: int) -> None:
    """Policy asks what the container uses; it must have been told."""

    def used(body: Body) -> bool:
        return any(one["workload_id"] == ECU and one["usage"]["cpu"] > 0 for one in body["containers"])

    client.await_message(f"metrics/{NODE}/containers", used, since=since)


def _figures(report: Report, taken: Taken) -> None:
    ms = 1000
    bare50, bare99 = quantile(taken.bare, 0.5) * ms, quantile(taken.bare, 0.99) * ms
    report.add("metric → in force, p50", quantile(taken.in_force, 0.5) * ms, "ms", baseline=bare50, most=1.5)
    report.add("metric → in force, p99", quantile(taken.in_force, 0.99) * ms, "ms", baseline=bare99, most=3)
    report.add(
        "metric → in force, p50, against `podman update`",
        quantile(taken.in_force, 0.5) * ms,
        "ms",
        baseline=quantile(taken.command, 0.5) * ms,
        most=0.4,
    )
    report.add(
        "metric → in force, p50, against bare paho clients and a REST update",
        quantile(taken.in_force, 0.5) * ms,
        "ms",
        baseline=quantile(taken.floor, 0.5) * ms,
    )
    report.add("bare paho clients and a REST update, p50", quantile(taken.floor, 0.5) * ms, "ms", baseline=bare50)
    report.add("metric → verified and told, p50", quantile(taken.verified, 0.5) * ms, "ms", baseline=bare50)
    for hop, seconds in taken.hops.items():
        report.add(f"  {hop}", quantile(seconds, 0.5) * ms, "ms", baseline=bare50)
    report.remarks.append(
        f"baselines: REST update of the same container (p50 {bare50:.1f} ms), {len(taken.bare)} calls, and "
        f"`podman update` ({len(taken.command)}), between the {len(taken.in_force)} rounds; hops: "
        f"{len(taken.hops['→ action'])} more rounds"
    )
