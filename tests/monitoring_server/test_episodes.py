"""Degradation seen, told once and again, and its end: what PolicyManager gets to hear."""

import pytest

from components.settings import ThresholdSettings
from schemas.codec import Cleared
from schemas.enums import ConnectionState, PerfStatus
from schemas.limits import Amount, Limits
from schemas.metrics import AppMetrics, NodeMetrics
from schemas.node import NodeInfo
from schemas.operations import ComponentStatus
from schemas.performance import Indicator, PerfDegraded, PerfEvent, PerfRecovered
from tests.monitoring_server.car import Car


def degraded(car: Car) -> PerfEvent:
    """An episode begun by latency, its first event answered."""
    (event,) = car.latency(450, 450, 450)
    car.answer(event)
    return event


def test_a_slow_application_raises_one_event_with_all_that_is_known_of_it() -> None:
    car = Car()
    car.use(500, 200)
    assert car.latency(450, 450) == []
    (event,) = car.latency(451)
    assert isinstance(event, PerfDegraded)
    assert (event.node, event.workload_id, event.status) == ("hpc-1", "nav", PerfStatus.DEGRADED)
    assert event.indicators == (Indicator(metric="latency_ms", value=451, threshold=300),)
    assert event.usage == Amount(cpu=500, memory=200)
    assert event.limits == Limits(cpu_limit=1000, memory_limit=1000)
    assert event.event_id != event.episode_id
    car.answer(event)
    assert car.latency(450, 450, 450) == []


@pytest.mark.parametrize(
    ("expectation", "cpu", "memory", "limits", "metrics"),
    [
        ("CPU near its limit", 900, 100, Limits(cpu_limit=1000, memory_limit=1000), {"cpu_percent": 90}),
        ("memory near its limit", 100, 850, Limits(cpu_limit=1000, memory_limit=1000), {"memory_percent": 85}),
        ("both", 900, 850, Limits(cpu_limit=1000, memory_limit=1000), {"cpu_percent": 90, "memory_percent": 85}),
        ("well below", 700, 700, Limits(cpu_limit=1000, memory_limit=1000), {}),
        ("exactly at the threshold", 800, 800, Limits(cpu_limit=1000, memory_limit=1000), {}),
        ("unlimited: no percentage of anything", 9000, 9000, Limits(), {}),
        ("CPU unlimited, memory near", 9000, 900, Limits(memory_limit=1000), {"memory_percent": 90}),
    ],
)
def test_use_counts_relative_to_the_limit_in_force(
    expectation: str, cpu: int, memory: int, limits: Limits, metrics: dict[str, float]
) -> None:
    car = Car()
    events = [event for _ in range(5) for event in car.use(cpu, memory, limits)]
    assert [{i.metric: i.value for i in event.indicators} for event in events] == ([metrics] if metrics else [])


def test_a_raised_limit_ends_the_episode_without_the_use_falling() -> None:
    car = Car()
    raised = [event for _ in range(3) for event in car.use(900)]
    car.answer(raised[0])
    ended = [event for _ in range(5) for event in car.use(900, 100, Limits(cpu_limit=2000, memory_limit=1000))]
    assert [type(event) for event in raised + ended] == [PerfDegraded, PerfRecovered]


def test_low_throughput_is_degradation_and_its_return_recovery() -> None:
    car = Car()

    def throughput(value: float) -> list[PerfEvent]:
        car.now += 1
        return car.hear(AppMetrics(node="hpc-1", workload_id="nav", throughput=value))

    events = [event for value in (10, 10, 10, 21, 21, 21, 21, 21) for event in throughput(value)]
    assert [type(event) for event in events] == [PerfDegraded]
    events = [event for value in (22, 22, 22, 22, 22) for event in throughput(value)]
    assert [type(event) for event in events] == [PerfRecovered]


def test_an_episode_is_told_again_every_repeat_s_with_a_new_event_id() -> None:
    car = Car()
    first = degraded(car)
    assert car.latency(*[460] * 29) == []
    (second,) = car.latency(470)
    assert isinstance(second, PerfDegraded)
    assert second.event_id != first.event_id
    assert second.episode_id == first.episode_id
    assert second.indicators[0].value == 460
    car.answer(second)
    (third,) = car.latency(*[460] * 30)
    assert third.event_id not in (first.event_id, second.event_id)


def test_follow_ups_of_an_ended_episode_do_not_mix_with_those_of_the_next() -> None:
    car = Car()
    degraded(car)
    (ended,) = car.latency(*[100] * 5)
    car.answer(ended)
    second = degraded(car)
    events = car.latency(*[450] * 30)
    assert [event.episode_id for event in events] == [second.episode_id]


def test_the_end_of_an_episode_is_told_once_when_all_samples_are_well_under() -> None:
    car = Car()
    first = degraded(car)
    assert car.latency(100, 100, 100, 100) == []
    (ended,) = car.latency(100)
    assert isinstance(ended, PerfRecovered)
    assert ended.episode_id == first.episode_id
    assert ended.event_id != first.event_id
    assert ended.indicators == (Indicator(metric="latency_ms", value=100, threshold=300),)
    car.answer(ended)
    assert car.latency(*[100] * 100) == []


def test_a_latency_that_hovers_below_the_threshold_neither_ends_nor_flaps() -> None:
    car = Car()
    degraded(car)
    events = car.latency(*[290, 299, 280, 271] * 5)
    assert [event for event in events if isinstance(event, PerfRecovered)] == []


def test_a_new_degradation_is_a_new_episode() -> None:
    car = Car()
    first = degraded(car)
    (ended,) = car.latency(*[100] * 5)
    car.answer(ended)
    assert degraded(car).episode_id != first.episode_id


def test_all_metrics_that_were_over_must_be_under_before_it_counts_as_recovered() -> None:
    car = Car()
    degraded(car)
    for _ in range(3):
        car.use(900)
    assert [event for event in car.latency(*[100] * 6) if isinstance(event, PerfRecovered)] == []
    ended = [event for _ in range(5) for event in car.use(100)]
    assert [type(event) for event in ended] == [PerfRecovered]
    assert {indicator.metric for indicator in ended[0].indicators} == {"latency_ms", "cpu_percent"}


def test_another_metric_that_is_over_now_and_then_puts_recovery_off() -> None:
    car = Car()
    degraded(car)
    for cpu in (900, 900, 100):
        car.use(cpu)
    assert car.latency(*[100] * 6) == []
    ended = [event for _ in range(4) for event in car.use(100)]
    assert [type(event) for event in ended] == [PerfRecovered]


def test_a_metric_that_fell_silent_when_it_was_well_is_not_taken_for_well() -> None:
    car = Car()
    degraded(car)
    for cpu in (900, 900, 100):
        car.use(cpu)
    assert car.latency(*[100] * 6) == []
    now_and_then = [900, 100, 100, 100] * 3
    assert [event for cpu in [*now_and_then, *[100] * 5] for event in car.use(cpu)] == []
    assert [type(event) for event in car.latency(100, 100, 100)] == [PerfRecovered]


def test_a_use_that_is_high_but_allowed_does_not_hold_up_recovery() -> None:
    car = Car()
    degraded(car)
    for _ in range(5):
        car.use(760)
    assert [type(event) for event in car.latency(*[100] * 5)] == [PerfRecovered]


def test_silence_is_neither_degradation_nor_recovery() -> None:
    car = Car()
    assert car.latency(450, 450) == []
    assert car.wait(10.5) == []
    assert car.latency(450, 450) == []
    (event,) = car.latency(450)
    car.answer(event)
    assert car.wait(120) == []
    assert car.latency(100, 100) == []
    assert [type(event) for event in car.latency(100)] == [PerfRecovered]


def test_an_episode_goes_on_when_its_samples_return() -> None:
    car = Car()
    first = degraded(car)
    car.wait(60)
    assert car.latency(450, 450) == []
    (event,) = car.latency(450, 450)
    assert event.episode_id == first.episode_id


def test_a_stale_use_is_not_told() -> None:
    car = Car()
    car.use(500)
    car.wait(11)
    (event,) = car.latency(450, 450, 450)
    assert (event.usage, event.limits) == (None, None)


def test_a_workload_without_thresholds_is_shown_but_raises_nothing() -> None:
    car = Car()
    assert car.latency(*[9999] * 10, workload="radio") == []
    found = car.server.fleet.find("hpc-1", "radio")
    assert found is not None
    assert found.app == {"latency_ms": (9999, car.now)}


def test_thresholds_apply_by_glob() -> None:
    car = Car(ThresholdSettings(workload="nav_*", latency_ms=300))
    assert car.latency(*[450] * 3, workload="nav") == []
    assert len(car.latency(*[450] * 3, workload="nav_map")) == 1


def test_workloads_of_one_name_on_two_nodes_are_two() -> None:
    car = Car()
    car.latency(450, 450, node="hpc-1")
    assert car.latency(450, 450, node="hpc-2") == []


@pytest.mark.parametrize("state", [ConnectionState.LOST, ConnectionState.DISCONNECTED])
def test_a_node_that_went_away_takes_its_metrics_and_episodes(state: ConnectionState) -> None:
    car = Car()
    car.agent(ConnectionState.READY)
    degraded(car)
    car.use(900)
    assert car.agent(state) == []
    assert car.server.fleet.find("hpc-1", "nav") is None
    assert car.server.fleet.workloads == 0
    assert car.wait(60) == []
    assert car.latency(450, 450) == []


def test_no_follow_up_tells_of_a_node_that_is_gone() -> None:
    car = Car(repeat_s=2)
    degraded(car)
    car.agent(ConnectionState.LOST)
    assert car.wait(5) == []


@pytest.mark.parametrize(
    "cleared",
    [
        Cleared(ComponentStatus, {"component": "node_agent", "instance": "hpc-1"}),
        Cleared(NodeInfo, {"node": "hpc-1"}),
    ],
)
def test_a_node_whose_retained_topic_was_deleted_is_gone(cleared: Cleared) -> None:
    car = Car()
    degraded(car)
    car.hear(cleared)
    assert car.server.fleet.find("hpc-1", "nav") is None


def test_the_late_will_of_an_earlier_agent_takes_nothing() -> None:
    car = Car()
    car.agent(ConnectionState.READY, boot_id=2)
    degraded(car)
    car.agent(ConnectionState.LOST, boot_id=1)
    assert car.server.fleet.find("hpc-1", "nav") is not None


def test_other_nodes_and_other_components_keep_their_metrics() -> None:
    car = Car()
    degraded(car)
    car.agent(ConnectionState.LOST, node="hpc-2")
    car.hear(ComponentStatus(component="debug_tap", instance="hpc-1", state=ConnectionState.LOST))
    car.hear(Cleared(ComponentStatus, {"component": "debug_tap", "instance": "hpc-1"}))
    assert car.server.fleet.find("hpc-1", "nav") is not None


def test_metrics_of_a_node_as_a_whole_are_kept_for_showing() -> None:
    car = Car()
    metrics = NodeMetrics(node="hpc-1", cpu_usage=50, cpu_count=8, used_memory=2**30, total_memory=2**34)
    assert car.hear(metrics) == []
    assert car.hear(NodeInfo(node="hpc-1", boot_id=1, total=Amount(cpu=8000, memory=16384))) == []
    node = car.server.fleet.nodes["hpc-1"]
    assert node.metrics is not None
    assert node.metrics.cpu_usage == 50
    assert node.info is not None
