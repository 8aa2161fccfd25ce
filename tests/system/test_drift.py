"""Whatever changes a managed container behind our back is found and corrected, or adopted, as configured."""

import time
from collections.abc import Callable, Iterator

import pytest

from components.node_agent.podman.private import PrivatePodman
from tests.fixtures.podman import Box, MakeBox
from tests.system.bench import NODE, Bench, running
from tests.system.foreign import Body

WITHIN_S = 20.0


def managed(bench: Bench, container: Box, cpu: int = 300) -> Body:
    """Give a container limits through the chain; its state then."""
    since = bench.client.mark()
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    final = bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": cpu}))
    assert final["outcome"] == "COMPLETED", final
    return bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED", since=since)


def eventually(condition: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def by_podman_update(container: Box) -> None:
    container.podman.command("update", "--cpus", "0.5", container.name)


def by_a_write_into_the_cgroup(container: Box) -> None:
    (container.directory("cpu") / "cpu.cfs_quota_us").write_text("45000", encoding="utf-8")


def by_a_restart(container: Box) -> None:
    container.podman.command("restart", "--time", "0", container.name)


def by_stop_and_start(container: Box) -> None:
    container.podman.command("stop", "--time", "0", container.name)
    container.podman.command("start", container.name)


def by_a_new_container_of_the_same_name_and_image(container: Box) -> None:
    container.podman.command("rm", "--force", "--time", "0", container.name)
    container.podman.run(container.name, cpus=0.2, memory_mib=64)


CHANGES = (
    by_podman_update,
    by_a_write_into_the_cgroup,
    by_a_restart,
    by_stop_and_start,
    by_a_new_container_of_the_same_name_and_image,
)


KEPT_SINCE = (5, 1)
"""Podman versions from this on keep updated limits over a restart."""


def keeps_limits(container: Box, change: Callable[[Box], None]) -> bool:
    """Whether this Podman itself takes care that the change changes no limit."""
    version = container.podman.command("version", "--format", "{{.Client.Version}}")
    major, minor = (int(part) for part in version.split(".")[:2])
    return (major, minor) >= KEPT_SINCE and change in (by_a_restart, by_stop_and_start)


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
def test_a_foreign_change_is_found_and_the_desired_limit_restored(
    bench: Bench, box: MakeBox, change: Callable[[Box], None]
) -> None:
    container = box(cpus=0.2, memory_mib=64)
    before = managed(bench, container)
    since = bench.client.mark()
    change(container)
    if keeps_limits(container, change):
        eventually(lambda: container.quota_and_period == (30_000, 100_000), "Podman keeps the limits")
        time.sleep(2)
        states = bench.client.heard(f"resources/state/{NODE}/{container.name}")
        assert states[-1]["sync_state"] == "SYNCHRONIZED"
        return
    # FAILED, with QUERY_FAILED, when the agent looked in the midst of a restart.
    noticed = {"DRIFT_DETECTED", "FAILED"}
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] in noticed, since=since)
    after = bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED", since=since)
    assert container.quota_and_period == (30_000, 100_000)
    assert after["generation"] == before["generation"], "a reconcile records nothing new"
    reconcile = bench.client.await_message(
        "resources/reconcile", lambda b: b["workload_id"] == container.name, since=since
    )
    assert bench.client.final(reconcile["action_id"])["cause"] == {"type": "RECONCILE"}


def test_a_container_of_another_image_is_a_new_workload(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    managed(bench, container)
    podman = container.podman
    podman.command("commit", "--quiet", container.name, "localhost/other:1")
    since = bench.client.mark()
    podman.command("rm", "--force", "--time", "0", container.name)
    podman.command(
        *("run", "--detach", "--name", container.name, "--network", "none", "--cpus", "0.25", "--memory", "64m"),
        *("localhost/other:1", "/bin/busybox", "sleep", "1000"),
    )
    state = bench.client.state(
        NODE, container.name, lambda b: b["sync_state"] == "UNKNOWN" and "desired" not in b, since=since
    )
    assert state["generation"] == 0
    time.sleep(1.5)
    assert container.quota_and_period[0] == 25_000, "nothing of the old limits applies"


def test_a_removed_container_leaves_no_ghost_and_a_returning_one_gets_its_limits_back(
    bench: Bench, box: MakeBox
) -> None:
    container = box(cpus=0.2, memory_mib=64)
    managed(bench, container)
    topic = f"resources/state/{NODE}/{container.name}"
    since = bench.client.mark()
    container.podman.command("rm", "--force", "--time", "0", container.name)
    eventually(lambda: b"" in bench.client.payloads(topic, since), "its retained topic is deleted after the hold")
    with bench.another_client() as newcomer:
        time.sleep(0.5)
        assert not newcomer.payloads(topic), "nothing is retained"
    since = bench.client.mark()
    container.podman.run(container.name, cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED", since=since)
    assert container.quota_and_period[0] == 30_000


def test_released_it_is_left_as_it_is_and_defended_no_more(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    managed(bench, container)
    since = bench.client.mark()
    bench.client.publish(f"resources/state/{NODE}/{container.name}", b"", 1, retain=True)
    bench.client.state(NODE, container.name, lambda b: "desired" not in b, since=since)
    by_a_write_into_the_cgroup(container)
    bench.client.state(NODE, container.name, lambda b: b["actual"]["cpu_limit"] == 450, since=since)
    assert container.quota_and_period[0] == 45_000


@pytest.fixture(params=["report", "adopt"])
def lenient(request: pytest.FixtureRequest, private_podman: PrivatePodman) -> Iterator[tuple[str, Bench]]:
    with running(
        {"podman_url": private_podman.url, "sync_interval_s": 1},
        resource_manager={"drift": request.param, "absent_hold_s": 2},
    ) as bench:
        yield request.param, bench


def test_drift_is_reported_or_adopted_as_configured(lenient: tuple[str, Bench], box: MakeBox) -> None:
    mode, bench = lenient
    container = box(cpus=0.2, memory_mib=64)
    before = managed(bench, container)
    since = bench.client.mark()
    by_a_write_into_the_cgroup(container)
    if mode == "report":
        bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "DRIFT_DETECTED", since=since)
        time.sleep(2)
        assert not bench.client.heard("resources/reconcile", since)
    else:
        state = bench.client.state(
            NODE, container.name, lambda b: b.get("desired", {}).get("cpu_limit") == 450, since=since
        )
        assert state["sync_state"] == "SYNCHRONIZED"
        assert state["generation"] > before["generation"]
    assert container.quota_and_period[0] == 45_000
    since = bench.client.mark()
    by_a_restart(container)
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED", since=since)
    assert container.quota_and_period[0] == (30_000 if mode == "report" else 45_000), "a restart is always mended"
