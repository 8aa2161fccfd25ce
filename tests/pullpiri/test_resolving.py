"""Whoever knows only the name of Pullpiri's model reaches its container, if there is just one."""

from collections.abc import Iterator

import pytest

from components.settings import ThresholdSettings
from schemas.enums import Reason, SnapshotTrigger
from schemas.node import MODEL_LABEL, ContainerReport, NodeSnapshot
from schemas.performance import PerfDegraded
from tests.monitoring_server.car import Car
from tests.resource_manager.bench import Bench, container


def of_model(name: str, model: str, **other: object) -> ContainerReport:
    """A container with the labels that Pullpiri gives it."""
    labels = {
        "io.pullpiri.annotations.scenario": "driving",
        "io.pullpiri.annotations.package": "driving",
        "io.pullpiri.annotations.policy": "",
        MODEL_LABEL: model,
    }
    return container(name, 1000, labels=labels, **other)  # type: ignore[arg-type]  # as container() has them


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A node with a model of one container, one of two, and a container that is called like a model."""
    bench = Bench()
    bench.info()
    bench.snapshot(
        of_model("navigation_router", "navigation"),
        of_model("radio_tuner", "radio"),
        of_model("radio_player", "radio"),
        of_model("camera_front", "camera"),
        container("camera", 500),
    )
    yield bench
    bench.manager.close()


def test_an_action_for_a_model_is_one_for_its_container(bench: Bench) -> None:
    reply = bench.validate("a-1", "navigation", cpu=1500)
    assert reply.allowed
    assert reply.workload_id == "navigation_router"


def test_of_several_containers_one_must_be_named(bench: Bench) -> None:
    reply = bench.validate("a-1", "radio", cpu=1500)
    assert reply.reason is Reason.UNKNOWN_WORKLOAD
    assert "name one: radio_player, radio_tuner" in reply.message


def test_a_container_of_that_very_name_comes_first(bench: Bench) -> None:
    assert bench.validate("a-1", "camera", cpu=600).workload_id == "camera"


def test_a_stopped_container_is_not_meant(bench: Bench) -> None:
    bench.snapshot(of_model("radio_tuner", "radio"), of_model("radio_player", "radio", running=False))
    assert bench.validate("a-1", "radio", cpu=1100).workload_id == "radio_tuner"


def test_what_belongs_to_no_model_is_not_found_by_an_empty_name(bench: Bench) -> None:
    assert bench.validate("a-1", "nothing", cpu=600).reason is Reason.UNKNOWN_WORKLOAD


# Metrics


def snapshot(*containers: ContainerReport, truncated: bool = False) -> NodeSnapshot:
    return NodeSnapshot(
        node="hpc-1",
        boot_id=1,
        seq=1,
        trigger=SnapshotTrigger.PERIODIC,
        containers=containers,
        truncated=truncated,
    )


@pytest.fixture
def car() -> Car:
    return Car(ThresholdSettings(workload="*", latency_ms=300))


def degraded(car: Car, named: str) -> list[str]:
    """The workloads of which an event tells after three slow samples under this name."""
    events = car.latency(450, 450, 450, workload=named)
    return [event.workload_id for event in events if isinstance(event, PerfDegraded)]


def test_metrics_under_a_models_name_are_its_containers(car: Car) -> None:
    car.hear(snapshot(of_model("navigation_router", "navigation")))
    assert degraded(car, "navigation") == ["navigation_router"]
    assert car.server.fleet.workloads == 1, "nobody is watched twice"


def test_metrics_under_a_model_of_several_containers_stay_as_they_are(car: Car) -> None:
    car.hear(snapshot(of_model("radio_tuner", "radio"), of_model("radio_player", "radio")))
    assert degraded(car, "radio") == ["radio"]


def test_metrics_under_a_containers_own_name_are_its(car: Car) -> None:
    car.hear(snapshot(of_model("camera_front", "camera"), container("camera")))
    assert degraded(car, "camera") == ["camera"]


def test_a_container_that_went_away_takes_its_models_name_with_it(car: Car) -> None:
    car.hear(snapshot(of_model("navigation_router", "navigation")))
    car.hear(snapshot(truncated=True))
    assert degraded(car, "navigation") == ["navigation_router"], "absence proves nothing here"
    car.hear(snapshot())
    assert "navigation" in degraded(car, "navigation")
