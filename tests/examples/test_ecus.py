"""Each example runs in a real container, under a real CPU limit; what it measures there gets it more CPU."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.node_agent.podman.private import PrivatePodman
from tests.examples.ecus import ecus, options
from tests.fixtures.podman import MakeBox
from tests.system.bench import NODE, Bench, running

pytestmark = pytest.mark.slow

SLOW_MS = 30
"""All three need more than that in a fifth of a CPU, where the kernel lets them run 20 ms of every 100."""


@pytest.fixture(scope="module")
def bench(private_podman: PrivatePodman) -> Iterator[Bench]:
    with running(
        {"podman_url": private_podman.url},
        monitoring={
            "window": 3,
            "needed": 2,
            "repeat_s": 2,
            "thresholds": [
                {"workload": "ecu-*", "latency_ms": SLOW_MS, "cpu_percent": 1000, "memory_percent": 1000}
            ],
        },
        policy=[{"workload": "ecu-*", "cpu_percent": 70, "max": {"cpu": "400m"}, "cooldown_s": 0}],
        resource_manager={"reserved": {"cpu": "200m", "memory": "1Gi"}, "absent_hold_s": 2},
    ) as bench:
        yield bench


@pytest.mark.parametrize("language", ["python", "c", "shell"])
def test_a_foreign_ecu_gets_the_cpu_that_it_lacks(
    bench: Bench, box: MakeBox, tmp_path: Path, language: str
) -> None:
    workload = f"ecu-{language}"
    ecu = ecus(tmp_path)[language]
    bench.await_room()
    since = bench.client.mark()
    command = ecu.shell(bench.port, NODE, workload)
    container = box(workload, "sh", "-c", command, cpus=ecu.cpus, memory_mib=256, options=options(tmp_path))

    told = bench.client.await_message(
        "perf/outcome",
        lambda b: b["workload_id"] == workload and b["outcome"] == "COMPLETED",
        since=since,
        timeout_s=100,
    )

    assert container.quota_and_period == (40_000, 100_000), "from 0.2 to 0.4 CPUs, in the kernel"
    event = bench.client.await_message("perf/degraded", lambda b: b["event_id"] == told["event_id"], since=since)
    topic = f"metrics/{NODE}/app/{workload}"
    measured = bench.client.heard(topic, since)
    (indicator,) = event["indicators"]
    assert indicator["metric"] == "latency_ms"
    assert indicator["value"] in [body["latency_ms"] for body in measured], "what it published is what was judged"
    bench.client.await_message(topic, lambda b: b["latency_ms"] != indicator["value"])  # measured, not made up
    letters = bench.client.heard("deadletter/monitoring_server", since)
    assert [letter for letter in letters if workload in letter["topic"]] == []
    assert bench.metric("piriscale_app_latency_seconds", node=NODE, workload=workload) > 0
