"""Applications that know themselves by the full id of their container: events name the container."""

from components.monitoring_server.fleet import Node
from components.settings import ThresholdSettings
from schemas.enums import SnapshotTrigger
from schemas.limits import Amount
from schemas.metrics import ContainerMetrics, ContainerUse
from schemas.node import ContainerReport, NodeSnapshot
from schemas.performance import PerfEvent, PerfRecovered
from tests.monitoring_server.car import Car

NAV, OTHER = "f" * 64, "e" * 64


def measured(car: Car, **ids: str) -> list[PerfEvent]:
    """What a batch of these containers makes the server tell."""
    uses = tuple(
        ContainerUse(workload_id=name, runtime_id=runtime_id, usage=Amount(cpu=1, memory=1))
        for name, runtime_id in ids.items()
    )
    return car.hear(ContainerMetrics(node="hpc-1", containers=uses))


def snapshot(car: Car, *, truncated: bool = False, **ids: str) -> None:
    reports = tuple(ContainerReport(workload_id=name, runtime_id=runtime_id) for name, runtime_id in ids.items())
    told = NodeSnapshot(
        node="hpc-1",
        boot_id=1,
        seq=1,
        trigger=SnapshotTrigger.START,
        truncated=truncated,
        containers=reports,
    )
    assert car.hear(told) == []


def slow(car: Car, runtime_id: str) -> list[str]:
    """Of which workloads three slow answers tell."""
    told = car.latency(450, 450, 450, workload=runtime_id)
    for event in told:
        car.answer(event)
    return [event.workload_id for event in told]


def node(car: Car) -> Node:
    return car.server.fleet.nodes["hpc-1"]


def test_an_application_that_knows_itself_by_its_container_id_is_known_by_name() -> None:
    car = Car()
    measured(car, nav=NAV)
    assert slow(car, NAV) == ["nav"]


def test_after_a_restart_the_retained_snapshot_tells_the_name_before_any_use_is_measured() -> None:
    car = Car()
    snapshot(car, nav=NAV)
    assert slow(car, NAV) == ["nav"]


def test_a_container_created_anew_under_its_name_is_known_by_its_new_id_only() -> None:
    car = Car()
    snapshot(car, nav=NAV)
    measured(car, nav=NAV)
    measured(car, nav=OTHER)
    snapshot(car, nav=OTHER)
    assert slow(car, OTHER) == ["nav"]
    assert (node(car).names, node(car).aliases.known) == ({OTHER: "nav"}, {OTHER: "nav"})


def test_containers_that_exchange_their_names_are_told_apart() -> None:
    car = Car()
    measured(car, nav=NAV, radio=OTHER)
    measured(car, nav=OTHER, radio=NAV)
    assert slow(car, OTHER) == ["nav"]


def test_a_container_that_was_renamed_is_still_known_when_its_old_name_is_forgotten() -> None:
    car = Car()
    measured(car, old=NAV)
    for _ in range(60):
        measured(car, nav=NAV)
        car.wait(10)
    assert set(node(car).workloads) == {"nav"}
    assert slow(car, NAV) == ["nav"]


def test_what_was_told_of_an_id_before_its_name_was_known_ends_when_it_is_known() -> None:
    """Else the episode of a workload that does not exist stays open, and its place is taken for minutes."""
    car = Car(ThresholdSettings(workload="*", latency_ms=300))
    assert slow(car, NAV) == [NAV]
    (ended,) = measured(car, nav=NAV)
    assert isinstance(ended, PerfRecovered)
    assert ended.workload_id == NAV
    car.answer(ended)
    assert (car.server.fleet.workloads, set(node(car).workloads)) == (1, {"nav"})
    assert slow(car, NAV) == ["nav"]


def test_ids_of_snapshots_that_had_no_room_for_all_do_not_gather() -> None:
    car = Car()
    for number in range(100):
        snapshot(car, truncated=True, nav=f"{number:064x}")
    assert node(car).aliases.known == {f"{99:064x}": "nav"}
