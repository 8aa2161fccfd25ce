"""What Prometheus sees of a running system: base units, and no series of what is gone."""

import time

import pytest

from tests.fixtures.podman import MakeBox
from tests.system.bench import COMPONENTS, NODE, Bench


def eventually_zero(bench: Bench, name: str, **labels: str) -> None:
    end = time.monotonic() + 20
    while bench.metric(name, **labels) != 0:
        assert time.monotonic() < end, f"{name}{labels} is still there"
        time.sleep(0.2)


def test_states_limits_and_actions_are_shown_in_base_units(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    before = bench.metric("piriscale_scaling_actions_total", outcome="COMPLETED")
    bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": 300, "memory_limit": 96}))
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED")
    labels = {"node": NODE, "workload": container.name}
    assert bench.metric("piriscale_sync_state", state="SYNCHRONIZED", **labels) == 1
    assert bench.metric("piriscale_sync_state", **labels) == 1, "one state at a time"
    assert bench.metric("piriscale_desired_cpu_cores", **labels) == pytest.approx(0.3)
    assert bench.metric("piriscale_actual_cpu_cores", **labels) == pytest.approx(0.3)
    assert bench.metric("piriscale_desired_memory_bytes", **labels) == 96 * 1024 * 1024
    assert bench.metric("piriscale_actual_memory_bytes", **labels) == 96 * 1024 * 1024
    assert bench.metric("piriscale_scaling_actions_total", outcome="COMPLETED") == before + 1
    for phase in ("validating", "recording", "updating", "confirming", "accepted_to_verified"):
        assert bench.metric("piriscale_scaling_duration_seconds_count", phase=phase) >= 1
    container.podman.command("rm", "--force", "--time", "0", container.name)
    eventually_zero(bench, "piriscale_sync_state", **labels)


def test_capacity_adds_up(bench: Bench) -> None:
    kinds = ("total", "allocated", "reserved", "available")
    total, allocated, reserved, available = (
        bench.metric("piriscale_node_capacity_cores", node=NODE, kind=kind) for kind in kinds
    )
    assert total > 0
    assert available == pytest.approx(max(0.0, total - allocated - reserved))


def test_every_component_is_up(bench: Bench) -> None:
    for component in COMPONENTS:
        assert bench.metric("piriscale_component_up", component=component) == 1
        assert bench.metric("piriscale_messages_total", component=component, direction="in") > 0
