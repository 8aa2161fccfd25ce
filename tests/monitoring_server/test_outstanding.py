"""Events are said until their outcome is known, and nothing grows without bound while nobody answers."""

import pytest

from components.monitoring_server import build, fleet, server
from components.settings import Settings, ThresholdSettings
from schemas.enums import EventOutcome, PerfStatus
from schemas.limits import Amount
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse, NodeMetrics
from schemas.node import NodeInfo
from schemas.performance import PerfDegraded, PerfOutcome, PerfRecovered
from tests.monitoring_server.car import Car

ANY = ThresholdSettings(workload="*", latency_ms=300)


def test_an_event_is_repeated_as_it_was_until_its_outcome_comes() -> None:
    car = Car()
    (event,) = car.latency(450, 450, 450)
    assert event.id == event.event_id
    repeats = car.wait(8)
    assert repeats == [event, event, event]
    car.answer(event, EventOutcome.COMPLETED)
    assert car.wait(20) == []
    assert car.server.outstanding == 0


def test_an_outcome_is_counted_and_a_second_copy_changes_nothing() -> None:
    car = Car()
    (event,) = car.latency(450, 450, 450)
    assert car.server.outcomes_total == {}
    car.answer(event, EventOutcome.REJECTED)
    car.answer(event, EventOutcome.FAILED)
    assert car.server.outcomes_total == {EventOutcome.REJECTED: 1}


def test_the_outcome_of_somebody_elses_event_is_ignored() -> None:
    car = Car()
    stray = PerfOutcome(event_id="x", node="hpc-1", workload_id="nav", outcome=EventOutcome.FAILED)
    assert car.hear(stray) == []
    assert car.server.outcomes_total == {}


def test_after_a_lost_connection_all_events_without_outcome_are_said_again() -> None:
    car = Car()
    (event,) = car.latency(450, 450, 450)
    assert car.spoken(car.server.connected(car.instant)) == [event]
    car.answer(event)
    assert car.server.connected(car.instant) == []


def test_a_follow_up_leaves_the_unanswered_event_before_it_alone() -> None:
    car = Car()
    (first,) = car.latency(450, 450, 450)
    said = {event.event_id for event in car.latency(*[450] * 35)}
    assert first.event_id in said
    assert car.server.outstanding == 2


def test_while_nobody_answers_a_workload_has_few_events_and_none_is_given_up() -> None:
    car = Car(repeat_s=2)
    said = {event.event_id for event in car.latency(*[450] * 120)}
    assert len(said) == server.OUTSTANDING_PER_WORKLOAD
    assert {event.event_id for event in car.wait(17)} == said
    assert car.server.events_deferred > 0


def test_the_end_of_an_episode_is_told_however_many_events_wait() -> None:
    car = Car(repeat_s=2)
    car.latency(*[450] * 120)
    ended = {event.event_id for event in car.latency(*[100] * 5) if isinstance(event, PerfRecovered)}
    assert len(ended) == 1


def test_what_had_to_wait_is_told_when_there_is_room() -> None:
    car = Car(repeat_s=2)
    waiting = {event.event_id: event for event in car.latency(*[450] * 60)}
    for event in waiting.values():
        car.answer(event)
    later = car.latency(450, 450, 450)
    assert later
    assert not {event.event_id for event in later} & set(waiting)


def test_a_new_episode_waits_too_and_begins_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "OUTSTANDING_MAX", 1)
    car = Car(ANY)
    (first,) = car.latency(450, 450, 450, workload="a")
    assert not [event for event in car.latency(450, 450, 450, workload="b") if event.workload_id == "b"]
    car.answer(first)
    (second,) = car.latency(450, workload="b")
    assert second.workload_id == "b"


def test_an_episode_that_had_to_wait_does_not_begin_on_stale_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "OUTSTANDING_MAX", 0)
    car = Car()
    assert car.latency(450, 450, 450) == []
    car.wait(11)
    monkeypatch.undo()
    assert car.hear(AppMetrics(node="hpc-1", workload_id="nav", fps=25)) == []


def test_workloads_and_nodes_are_bounded_and_what_found_no_room_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet, "WORKLOADS_MAX", 2)
    monkeypatch.setattr(fleet, "NODES_MAX", 2)
    car = Car(ANY)
    for workload in "abcd":
        car.latency(1, workload=workload)
    uses = tuple(ContainerUse(workload_id=name, usage=Amount()) for name in "abcd")
    car.hear(ContainerMetrics(node="hpc-1", containers=uses))
    assert car.server.fleet.workloads == 2
    assert car.server.fleet.refused == 4
    for node in ("hpc-2", "hpc-3"):
        car.hear(NodeMetrics(node=node, cpu_usage=1, cpu_count=1, used_memory=1, total_memory=1))
        car.hear(NodeInfo(node=node, boot_id=1, total=Amount()))
        car.hear(ContainerMetrics(node=node, containers=uses))
        car.latency(1, node=node)
    assert set(car.server.fleet.nodes) == {"hpc-1", "hpc-2"}
    assert len(car.latency(450, 450, 450, workload="a")) == 1, "the ones that are in are still watched"


def test_a_workload_that_fell_silent_is_forgotten_with_its_episode_and_its_node() -> None:
    car = Car()
    (event,) = car.latency(450, 450, 450)
    car.answer(event)
    car.wait(fleet.SILENT_S + 15)
    assert car.server.fleet.workloads == 0
    assert car.server.fleet.nodes == {}
    assert car.server.fleet.forgotten == 1
    assert car.latency(450, 450) == []


def test_an_outcome_that_comes_after_its_workload_was_forgotten_is_taken() -> None:
    car = Car()
    (event,) = car.latency(450, 450, 450)
    car.wait(fleet.SILENT_S + 15)
    car.answer(event)
    assert car.server.outstanding == 0


def test_a_workload_that_is_measured_is_not_forgotten() -> None:
    car = Car()
    for _ in range(200):
        car.wait(4)
        car.use(100)
    assert car.server.fleet.find("hpc-1", "nav") is not None


def test_prometheus_sees_events_outcomes_and_measures_in_base_units() -> None:
    car = Car()
    car.use(1500, 512)
    car.hear(NodeMetrics(node="hpc-1", cpu_usage=25, cpu_count=8, used_memory=2**30, total_memory=2**34))
    (event,) = car.latency(450, 450, 450)
    car.answer(event, EventOutcome.COMPLETED)
    families = list(car.server.samples())
    shown = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
    assert shown["piriscale_perf_events_total", PerfStatus.DEGRADED] == 1
    assert shown["piriscale_perf_events_total", PerfStatus.RECOVERED] == 0
    assert shown["piriscale_perf_outcomes_total", EventOutcome.COMPLETED] == 1
    assert shown["piriscale_usage_cpu_cores", "hpc-1", "nav"] == 1.5
    assert shown["piriscale_usage_memory_bytes", "hpc-1", "nav"] == 512 * 2**20
    assert shown["piriscale_app_latency_seconds", "hpc-1", "nav"] == 0.45
    assert shown["piriscale_node_cpu_usage_cores", "hpc-1"] == 2
    assert shown["piriscale_node_memory_used_bytes", "hpc-1"] == 2**30
    assert shown["piriscale_degraded_workloads",] == 1
    assert shown["piriscale_watched_workloads",] == 1


def test_it_listens_to_all_metrics_its_outcomes_and_its_agents_and_is_always_well() -> None:
    built = build(Settings(), lambda item: None)
    assert {(s.filter, s.qos) for s in built.subscriptions()} == {
        ("metrics/+/node", 0),
        ("metrics/+/containers", 0),
        ("metrics/+/app/+", 1),
        ("perf/outcome", 1),
        ("component/node_agent/+", 1),
        ("node/+/info", 1),
        ("node/+/actual", 1),
    }
    assert (built.role, built.instance, built.persistent, built.problem) == (
        "monitoring_server",
        "main",
        False,
        None,
    )
    built.close()


def test_what_it_does_not_know_is_nothing_to_it() -> None:
    car = Car()
    event = PerfDegraded(event_id="e", episode_id="p", node="hpc-1", workload_id="nav")
    assert car.hear(event) == []
    assert car.server.failed(event, ValueError(), car.instant) is None
