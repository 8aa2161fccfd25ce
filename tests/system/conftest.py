"""One running system for most tests of this folder; those that disturb it start their own."""

from collections.abc import Iterator

import pytest

from components.node_agent.podman.private import PrivatePodman
from tests.fixtures.podman import box as box
from tests.fixtures.podman import own_podman as own_podman
from tests.fixtures.podman import private_podman as private_podman
from tests.system.bench import Bench, running


@pytest.fixture(scope="session")
def bench(private_podman: PrivatePodman) -> Iterator[Bench]:
    """The whole system beside a real Podman; quick to retry, and strict on latency of workloads named ecu-*."""
    with running(
        {"podman_url": private_podman.url, "sync_interval_s": 5},
        monitoring={
            "window": 3,
            "needed": 2,
            "repeat_s": 2,
            "thresholds": [{"workload": "ecu-*", "latency_ms": 300, "cpu_percent": 1000, "memory_percent": 1000}],
        },
        policy=[
            {"workload": "ecu-busy*", "cpu_percent": 80, "cooldown_s": 1},
            {"workload": "ecu-capped*", "max": {"cpu": "200m"}, "cooldown_s": 0},
            {"workload": "capped*", "max": {"cpu": "500m"}},
        ],
        action_controller={"retry_interval_s": 0.5},
        resource_manager={"reserved": {"cpu": "200m", "memory": "1Gi"}, "absent_hold_s": 2},
    ) as bench:
        yield bench


@pytest.fixture(autouse=True)
def room(request: pytest.FixtureRequest) -> None:
    """Begin each test on the shared system with room for its containers."""
    if "bench" in request.fixturenames:
        shared = request.getfixturevalue("bench")
        if isinstance(shared, Bench):
            shared.await_room()
