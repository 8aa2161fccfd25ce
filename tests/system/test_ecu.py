"""A foreign ECU publishes metrics; the whole chain runs, or says why not. Every branch ends with one outcome."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from tests.fixtures.podman import MakeBox
from tests.system.bench import NODE, Bench
from tests.system.foreign import Body, ForeignClient

BUSY = ("sh", "-c", "while :; do :; done")
LATENCY_PERIOD_S = 0.1


@contextmanager
def reporting(client: ForeignClient, workload: str, latency_ms: float) -> Iterator[None]:
    """An ECU that reports the same latency ten times a second."""
    stopped = Event()

    def report() -> None:
        while not stopped.wait(LATENCY_PERIOD_S):
            client.say(f"metrics/{NODE}/app/{workload}", {"latency_ms": latency_ms}, qos=0)

    thread = Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def outcome(bench: Bench, workload: str, wanted: str, since: int) -> Body:
    return bench.client.await_message(
        "perf/outcome", lambda b: b["workload_id"] == workload and b["outcome"] == wanted, since=since
    )


def test_a_slow_busy_application_gets_twice_the_cpu_and_nothing_else(bench: Bench, box: MakeBox) -> None:
    container = box("ecu-busy-1", *BUSY, cpus=0.2, memory_mib=64)
    since = bench.client.mark()
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    with bench.another_client(packed=True, mqtt5=True) as ecu, reporting(ecu, container.name, 450):
        told = outcome(bench, container.name, "COMPLETED", since)
    assert container.quota_and_period == (40_000, 100_000)
    assert container.memory == 64 * 1024 * 1024
    event = bench.client.await_message("perf/degraded", lambda b: b["event_id"] == told["event_id"], since=since)
    assert event["status"] == "DEGRADED"
    latency = next(i for i in event["indicators"] if i["metric"] == "latency_ms")
    assert latency == {"metric": "latency_ms", "value": 450.0, "threshold": 300.0}
    action = bench.client.await_message(
        "scaling/action", lambda b: b["action_id"] == told["action_id"], since=since
    )
    assert action["target"] == {"cpu_limit": 400}
    assert action["cause"] == {"type": "PERF", "event_id": told["event_id"]}


def test_recovery_is_told_once_and_needs_no_scaling(bench: Bench, box: MakeBox) -> None:
    container = box("ecu-idle-1", cpus=0.2, memory_mib=64)
    since = bench.client.mark()
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    with reporting(bench.client, container.name, 450):
        told = outcome(bench, container.name, "NOT_REQUIRED", since)
    assert told["reason"] in ("NO_BOTTLENECK", "NO_DATA"), told
    with reporting(bench.client, container.name, 20):
        recovered = bench.client.await_message(
            "perf/recovered", lambda b: b["workload_id"] == container.name, since=since
        )
        bench.client.await_message("perf/outcome", lambda b: b["event_id"] == recovered["event_id"], since=since)
    events = [e for e in bench.client.heard("perf/recovered", since) if e["workload_id"] == container.name]
    assert len({event["event_id"] for event in events}) == 1
    assert container.quota_and_period[0] == 20_000


def test_slow_without_need_of_cpu_or_memory_is_left_alone(bench: Bench, box: MakeBox) -> None:
    container = box("ecu-idle-2", cpus=0.2, memory_mib=64)
    since = bench.client.mark()
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    with reporting(bench.client, container.name, 450):
        told = bench.client.await_message(
            "perf/outcome",
            lambda b: b["workload_id"] == container.name and b.get("reason") == "NO_BOTTLENECK",
            since=since,
        )
    assert told["outcome"] == "NOT_REQUIRED"
    assert "action_id" not in told


def test_at_its_maximum_an_application_is_not_scaled(bench: Bench, box: MakeBox) -> None:
    container = box("ecu-capped-1", *BUSY, cpus=0.2, memory_mib=64)
    since = bench.client.mark()
    with reporting(bench.client, container.name, 450):
        bench.client.await_message(
            "perf/outcome",
            lambda b: b["workload_id"] == container.name and b.get("reason") == "AT_MAXIMUM",
            since=since,
        )
    assert container.quota_and_period[0] == 20_000


def test_a_node_without_room_rejects_and_the_monitoring_hears_of_it(bench: Bench, box: MakeBox) -> None:
    container = box("ecu-busy-2", *BUSY, cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    free = bench.free_cpu()
    since = bench.client.mark()
    box(cpus=(free - 100) / 1000, memory_mib=64)
    bench.client.await_message(f"resources/capacity/{NODE}", lambda b: b["available"]["cpu"] == 100, since=since)
    with reporting(bench.client, container.name, 450):
        told = outcome(bench, container.name, "REJECTED", since)
    assert told["reason"] == "INSUFFICIENT_CPU"
    assert "needs 200m more CPU" in told["message"], bench.client.story(since)
    assert container.quota_and_period[0] == 20_000


def test_every_event_gets_exactly_one_distinct_outcome(bench: Bench, box: MakeBox) -> None:
    container = box("ecu-busy-3", *BUSY, cpus=0.2, memory_mib=64)
    since = bench.client.mark()
    with reporting(bench.client, container.name, 450):
        outcome(bench, container.name, "COMPLETED", since)
        time.sleep(3)
    events = {e["event_id"] for e in bench.client.heard("perf/degraded", since)}
    outcomes: dict[str, set[tuple[str, str | None]]] = {}
    for told in bench.client.heard("perf/outcome", since):
        outcomes.setdefault(told["event_id"], set()).add((told["outcome"], told.get("reason")))
    assert events
    assert all(len(outcomes[event]) == 1 for event in events if event in outcomes)


def test_paused_scaling_leaves_applications_alone_until_resumed(bench: Bench, box: MakeBox) -> None:
    container = box("ecu-busy-4", *BUSY, cpus=0.2, memory_mib=64)
    bench.client.publish("control/scaling", b'{"paused": true}', 1, retain=True)
    try:
        since = bench.client.mark()
        with reporting(bench.client, container.name, 450):
            bench.client.await_message(
                "perf/outcome",
                lambda b: b["workload_id"] == container.name and b.get("reason") == "PAUSED",
                since=since,
            )
            assert container.quota_and_period[0] == 20_000
            bench.client.publish("control/scaling", b'{"paused": false}', 1, retain=True)
            outcome(bench, container.name, "COMPLETED", since)
    finally:
        bench.client.publish("control/scaling", b"", 1, retain=True)
