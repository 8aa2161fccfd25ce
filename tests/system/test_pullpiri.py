"""A container as Pullpiri makes it, reached by whoever knows only its model's name."""

import json

from tests.fixtures.podman import MakeBox
from tests.system.bench import NODE, Bench

MODEL = "ecu-busy-drive"
LABELS = {
    "io.pullpiri.annotations.scenario": "driving",
    "io.pullpiri.annotations.package": "driving",
    "io.pullpiri.annotations.policy": "",
    "io.pullpiri.annotations.model": MODEL,
}
STRESS = {
    "process_name": "router",
    "pid": 4711,
    "core_masking": "0x3",
    "core_count": 2,
    "fps": 8.5,
    "latency": 450,
    "cpu_loads": [{"core_id": 0, "load": 91.0}, {"core_id": 1, "load": 12.5}],
}


def test_its_model_is_scaled_by_hand_and_by_its_stress_metric(bench: Bench, box: MakeBox) -> None:
    container = box(f"{MODEL}_router", "sh", "-c", "while :; do :; done", cpus=0.2, memory_mib=64, labels=LABELS)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    bench.client.await_message(
        f"node/{NODE}/actual", lambda b: any(c.get("labels", {}) == LABELS for c in b["containers"])
    )

    final = bench.client.final(bench.client.scale(NODE, MODEL, target={"cpu_limit": 150}))
    assert (final["outcome"], final["workload_id"]) == ("COMPLETED", container.name), final
    assert container.quota_and_period == (15_000, 100_000)

    since = bench.client.mark()
    for _ in range(100):
        bench.client.say(f"metrics/{NODE}/app/{MODEL}", json.dumps(STRESS).encode(), qos=0)
        if bench.client.heard("perf/degraded", since):
            break
        bench.client.await_message(f"metrics/{NODE}/containers", since=bench.client.mark())
    told = bench.client.await_message(
        "perf/outcome", lambda b: b["workload_id"] == container.name and b["outcome"] == "COMPLETED", since=since
    )
    assert container.quota_and_period == (30_000, 100_000), told
    assert not [b for b in bench.client.heard("deadletter/monitoring_server", since) if MODEL in b["topic"]]
