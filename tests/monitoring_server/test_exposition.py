"""What Prometheus sees of measures: whether a workload is degraded, and nothing of what is gone."""

from collections.abc import Callable

from components.settings import ThresholdSettings
from schemas.enums import ConnectionState
from schemas.limits import Amount
from schemas.metrics import AppMetrics, NodeMetrics
from schemas.node import NodeInfo
from schemas.operations import ComponentStatus
from tests.monitoring_server.car import Car

DEGRADED = "piriscale_workload_degraded"


def shown(car: Car) -> dict[tuple[str, ...], float]:
    """Values by name and labels."""
    return {(s.name, *s.labels.values()): s.value for family in car.server.samples() for s in family.samples}


def names(car: Car) -> set[str]:
    """Every node or workload that appears in any label."""
    labels = [sample.labels for family in car.server.samples() for sample in family.samples]
    return {label[key] for label in labels for key in ("node", "workload") if key in label}


def test_a_workload_is_degraded_from_the_begin_of_an_episode_to_its_end() -> None:
    car = Car(ThresholdSettings(workload="nav", latency_ms=300))
    car.latency(100)
    assert shown(car)[DEGRADED, "hpc-1", "nav"] == 0
    car.latency(450, 450, 450)
    assert shown(car)[DEGRADED, "hpc-1", "nav"] == 1
    car.latency(*[100] * 6)
    assert shown(car)[DEGRADED, "hpc-1", "nav"] == 0


def test_a_workload_that_nobody_judges_is_neither_well_nor_degraded() -> None:
    car = Car()
    car.hear(AppMetrics(node="hpc-1", workload_id="radio", latency_ms=9000))
    assert (DEGRADED, "hpc-1", "radio") not in shown(car)
    assert shown(car)["piriscale_app_latency_seconds", "hpc-1", "radio"] == 9


def test_a_node_that_went_away_takes_its_series_with_it() -> None:
    car = Car()
    car.use(500)
    car.hear(AppMetrics(node="hpc-2", workload_id="radio", latency_ms=5))
    assert names(car) == {"hpc-1", "nav", "hpc-2", "radio"}
    lost = ComponentStatus(component="node_agent", instance="hpc-1", state=ConnectionState.LOST, boot_id=1, id="c")
    car.hear(lost)
    assert names(car) == {"hpc-2", "radio"}


def for_long(car: Car, measure: Callable[[], object]) -> None:
    """Only this is measured for 400 s, every 10 s."""
    for _ in range(40):
        car.wait(10)
        measure()


def test_a_workload_that_fell_silent_leaves_no_series() -> None:
    car = Car()
    car.use(500)
    for_long(car, lambda: car.hear(AppMetrics(node="hpc-1", workload_id="radio", fps=30)))
    assert names(car) == {"hpc-1", "radio"}


LATENCY = ("piriscale_app_latency_seconds", "hpc-1", "nav")
USE = ("piriscale_usage_cpu_cores", "hpc-1", "nav")
LOAD = ("piriscale_node_cpu_usage_cores", "hpc-1")


def test_an_application_that_hangs_in_a_living_container_does_not_show_its_last_good_latency_for_ever() -> None:
    car = Car()
    car.latency(100)
    for_long(car, lambda: car.use(500))
    assert LATENCY not in shown(car)
    assert USE in shown(car)
    car.latency(200)
    assert shown(car)[LATENCY] == 0.2


def test_a_latency_that_is_told_no_more_is_not_shown_because_the_application_tells_something_else() -> None:
    car = Car()
    car.latency(100)
    for_long(car, lambda: car.hear(AppMetrics(node="hpc-1", workload_id="nav", fps=30)))
    assert LATENCY not in shown(car)
    assert shown(car)["piriscale_app_fps", "hpc-1", "nav"] == 30
    car.latency(200)
    assert shown(car)[LATENCY] == 0.2


def test_an_agent_that_measures_no_more_does_not_show_its_last_use_for_ever() -> None:
    """Its node is known, and the application goes on to measure itself."""
    car = Car()
    car.hear(NodeInfo(node="hpc-1", boot_id=1, total=Amount(cpu=8000, memory=8192)))
    car.hear(NodeMetrics(node="hpc-1", cpu_usage=25, cpu_count=8, used_memory=2**30, total_memory=2**34))
    car.use(500)
    assert {USE, LOAD} <= set(shown(car))
    for_long(car, lambda: car.latency(100))
    assert not {USE, LOAD} & set(shown(car))
    assert LATENCY in shown(car)


def test_what_is_measured_now_and_then_is_shown_in_between() -> None:
    car = Car()
    car.use(500)
    for _ in range(2):
        car.latency(100)
        car.wait(290)
    assert {LATENCY} <= set(shown(car))
