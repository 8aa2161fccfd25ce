"""The component: the picture that browsers get, what they ask, and what the form says on the bus."""

import json
from contextlib import closing

import pytest

from broker.bus import Delivery
from broker.frames import matches
from components.component import Instant
from components.dashboard import build
from components.dashboard.dashboard import FineClock
from components.dashboard.items import AskError, SeriesAsked, TimelineAsked
from components.settings import DashboardSettings, MonitoringSettings, Settings
from schemas.codec import Cleared, clear
from schemas.enums import (
    CauseType,
    EventOutcome,
    SnapshotTrigger,
    SyncState,
)
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse
from schemas.node import ContainerReport, NodeInfo, NodeSnapshot
from schemas.performance import Indicator, PerfDegraded, PerfOutcome
from schemas.resources import ResourceState
from schemas.scaling import Cause, ScalingAction, ScalingStatus
from schemas.topics import topic_of
from tests.dashboard.desk import NODE, START, WORKLOAD, Desk, capacity, refused, state, status
from tests.fixtures.broker import free_port


def cleared(workload: str = WORKLOAD) -> Delivery:
    frame = clear(Cleared(ResourceState, {"node": NODE, "workload_id": workload}))
    return Delivery(frame.topic, frame.payload, retained=False)


def test_who_begins_to_watch_gets_the_whole_picture_and_then_only_what_changes() -> None:
    desk = Desk()
    desk.hear(capacity(), state(), state("cam"), retained=True)

    screen = desk.watch()
    desk.hear(state("cam", revision=2, generation=8))
    desk.pass_time(0.5)

    (first, picture), (second, change) = screen.events
    assert first == "picture"
    assert set(picture["put"]["workloads"]) == {f"{NODE}/nav", f"{NODE}/cam"}
    assert picture["put"]["nodes"][NODE]["cpu"] == {
        "total": 8000,
        "allocated": 5000,
        "reserved": 1000,
        "available": 2000,
    }
    assert second == "change"
    assert set(change["put"]) == {"workloads"}
    assert set(change["put"]["workloads"]) == {f"{NODE}/cam"}


def test_a_workload_that_is_gone_leaves_the_page() -> None:
    desk = Desk()
    desk.hear(state(), retained=True)
    screen = desk.watch()

    desk.dashboard.handle(cleared(), desk.now)
    desk.pass_time(0.5)

    assert screen.sections["workloads"] == {}


def test_all_browsers_end_with_the_same_picture_whenever_they_came() -> None:
    desk = Desk()
    screens = []
    for number in range(5):
        desk.hear(state(f"w-{number}"), status(f"a-{number}"))
        screens.append(desk.watch())
        desk.hear(state("w-0", generation=100 + number))
        desk.pass_time(0.2)
    desk.dashboard.handle(cleared("w-1"), desk.now)
    desk.pass_time(1)

    assert all(screen.sections == screens[0].sections for screen in screens)
    assert len(screens[0].sections["workloads"]) == 4


def test_changes_are_gathered_so_that_a_busy_system_does_not_flood_a_browser() -> None:
    desk = Desk()
    screen = desk.watch()
    for number in range(100):
        desk.hear(state(generation=number + 10))
        desk.pass_time(0.01)

    assert len(screen.events) <= 4


def test_a_page_hears_that_the_server_lives_even_if_nothing_changes() -> None:
    desk = Desk()
    screen = desk.watch()
    before = len(screen.events)

    for _ in range(12):
        desk.pass_time(1)

    beats = screen.events[before:]
    assert 2 <= len(beats) <= 4
    assert all(body["put"] == {} for _, body in beats[1:])


def test_a_browser_that_left_is_sent_nothing_and_without_any_nothing_is_drawn() -> None:
    desk = Desk()
    screen = desk.watch()
    desk.leave(screen)
    heard = len(screen.events)

    desk.hear(state())
    desk.pass_time(10)

    assert len(screen.events) == heard


def test_a_refusal_shows_its_reason_in_words_and_its_numbers() -> None:
    desk = Desk()
    screen = desk.watch()
    desk.hear(ScalingAction(action_id="a-1", node=NODE, workload_id=WORKLOAD, target=Limits(cpu_limit=5000)))
    desk.hear(refused("a-1"))
    desk.pass_time(0.5)

    (line,) = screen.sections["timelines"].values()
    assert (line["outcome"], line["reason"]) == ("REJECTED", "INSUFFICIENT_CPU")
    assert "2000m available" in line["message"]
    assert screen.sections["about"]["page"]["meaning"]["INSUFFICIENT_CPU"].startswith("The node has not enough")
    assert screen.sections["actions"]["a-1"]["target_text"] == "5000m CPU"


def test_one_scaling_can_be_looked_at_step_by_step_from_the_metric_on() -> None:
    desk = Desk()
    over = (Indicator(metric="latency_ms", value=450, threshold=300),)
    said: list[Message] = [
        PerfDegraded(event_id="e-1", episode_id="p", node=NODE, workload_id=WORKLOAD, indicators=over),
        ScalingAction(
            action_id="a-1",
            node=NODE,
            workload_id=WORKLOAD,
            target=Limits(cpu_limit=2000),
            cause=Cause(type=CauseType.PERF, event_id="e-1"),
        ),
        status("a-1", cause=Cause(type=CauseType.PERF, event_id="e-1")),
        refused("a-1"),
        PerfOutcome(
            event_id="e-1",
            node=NODE,
            workload_id=WORKLOAD,
            action_id="a-1",
            outcome=EventOutcome.REJECTED,
        ),
    ]
    for message in said:
        desk.hear(message)
        desk.pass_time(0.02)

    document = desk.ask(TimelineAsked("a-1"))

    titles = [step["title"] for step in document["steps"]]
    assert titles[0] == "degraded" and titles[-1] == "outcome told"
    assert "latency_ms 450 (threshold 300)" in document["steps"][0]["text"]
    assert [step["after_ms"] for step in document["steps"]] == pytest.approx([0, 20, 40, 60, 80])
    assert desk.ask(TimelineAsked("e-1")) == document


def test_a_scaling_nobody_knows_is_said_to_be_unknown() -> None:
    with pytest.raises(AskError, match="not known") as caught:
        Desk().ask(TimelineAsked("nothing"))
    assert caught.value.status == 404


def test_latency_and_limit_of_a_workload_come_together_and_then_only_what_is_new() -> None:
    desk = Desk()
    desk.hear(state(), retained=True)
    desk.hear(AppMetrics(node=NODE, workload_id=WORKLOAD, latency_ms=450))
    used = ContainerUse(workload_id=WORKLOAD, usage=Amount(cpu=900, memory=64), limits=Limits(cpu_limit=1000))
    desk.hear(ContainerMetrics(node=NODE, containers=(used,)))

    first = desk.ask(SeriesAsked(NODE, WORKLOAD, 0))
    desk.pass_time(1)
    desk.hear(AppMetrics(node=NODE, workload_id=WORKLOAD, latency_ms=120))
    later = desk.ask(SeriesAsked(NODE, WORKLOAD, START.epoch_ms))

    assert first["measured"]["latency_ms"] == [450]
    assert (first["used"]["cpu_use"], first["used"]["cpu_limit"]) == ([900], [1000])
    assert first["used"]["memory_limit"] == [None], "no limit is no number"
    assert later["measured"] == {
        "at": [START.epoch_ms + 1000],
        "latency_ms": [120],
        "throughput": [None],
        "fps": [None],
    }
    assert later["used"]["at"] == []


def test_measures_of_a_workload_nobody_knows_are_refused_and_make_no_room_for_it() -> None:
    with pytest.raises(AskError) as caught:
        Desk().ask(SeriesAsked(NODE, "ghost", 0))
    assert caught.value.status == 404


def test_what_is_garbage_on_the_bus_does_not_trouble_the_page() -> None:
    desk = Desk()
    screen = desk.watch()
    for payload in (b"\xff\xfe", b"{", json.dumps({"node": 1}).encode(), b""):
        desk.dashboard.handle(Delivery("scaling/status", payload), desk.now)
        desk.dashboard.handle(Delivery(f"resources/state/{NODE}/x", payload), desk.now)
    desk.pass_time(1)
    assert screen.sections["workloads"] == {}


def test_what_was_retained_is_shown_but_is_no_news_while_a_change_is() -> None:
    desk = Desk()
    screen = desk.watch()
    desk.hear(state(), retained=True)
    desk.pass_time(1)
    assert f"{NODE}/{WORKLOAD}" in screen.sections["workloads"]
    assert screen.sections["events"]["latest"]["items"] == []

    desk.hear(state(sync_state=SyncState.DRIFT_DETECTED))
    desk.pass_time(1)
    assert [one["text"] for one in screen.sections["events"]["latest"]["items"]] == ["DRIFT_DETECTED"]


def test_an_action_whose_end_was_missed_does_not_stay_for_ever() -> None:
    desk = Desk()
    screen = desk.watch()
    desk.hear(status("a-1"))
    desk.pass_time(3600)
    assert "a-1" in screen.sections["actions"], "it may take long"

    desk.dashboard.connected(desk.now)
    desk.pass_time(3600)
    assert screen.sections["actions"] == {}


def test_a_simulated_node_is_said_to_be_one() -> None:
    desk = Desk()
    desk.hear(NodeInfo(node=NODE, boot_id=1, total=Amount(cpu=1, memory=1), simulated=True), retained=True)
    screen = desk.watch()
    assert screen.sections["about"]["page"]["simulated"] == [NODE]
    assert screen.sections["nodes"][NODE]["runtime"] == "simulated containers"


def test_it_hears_every_message_that_a_time_line_or_the_picture_is_made_of() -> None:
    filters = [one.filter for one in Desk().dashboard.subscriptions()]
    for topic in ("perf/degraded", "resources/desired/reply", f"node/{NODE}/update", f"metrics/{NODE}/app/nav"):
        assert any(matches(one, topic) for one in filters), topic
    assert topic_of(ScalingStatus).filter() in filters


def test_it_counts_who_watches_and_what_was_asked_for() -> None:
    desk = Desk()
    desk.watch()
    desk.submit()
    desk.submit(dry_run=True)
    samples = {
        (sample.name, sample.labels.get("kind")): sample.value
        for family in desk.dashboard.samples()
        for sample in family.samples
    }
    assert samples["piriscale_dashboard_watching", None] == 1
    assert samples["piriscale_dashboard_actions_total", "scaling"] == 1
    assert samples["piriscale_dashboard_actions_total", "dry_run"] == 1


def test_its_health_is_that_of_its_server_which_ends_with_it() -> None:
    desk = Desk()
    assert desk.dashboard.problem is None
    desk.server.problem = "the web server has ended"
    assert desk.dashboard.problem == "the web server has ended"
    desk.dashboard.close()
    assert not desk.server.running


def test_times_less_than_a_millisecond_apart_stay_in_order_until_the_clock_is_set() -> None:
    clock = FineClock()
    times = [clock.epoch_ms(Instant(5.0 + number * 0.0002, 1_000_000 + int(number * 0.2))) for number in range(50)]
    assert times == sorted(set(times))
    assert clock.epoch_ms(Instant(6.0, 9_000_000)) == 9_000_000


def test_the_chart_of_a_container_has_what_its_application_measures_under_the_containers_id() -> None:
    desk = Desk()
    report = ContainerReport(workload_id=WORKLOAD, runtime_id="f" * 64)
    desk.hear(
        state(),
        NodeSnapshot(node=NODE, boot_id=1, seq=1, trigger=SnapshotTrigger.START, containers=(report,)),
        AppMetrics(node=NODE, workload_id="f" * 64, latency_ms=450),
    )

    assert desk.ask(SeriesAsked(NODE, WORKLOAD, 0))["measured"]["latency_ms"] == [450]


def test_a_degradation_that_is_told_seldom_by_configuration_outlasts_a_lost_connection() -> None:
    settings = Settings(monitoring=MonitoringSettings(repeat_s=600), dashboard=DashboardSettings(port=free_port()))
    with closing(build(settings, lambda _: None)) as dashboard:
        desk = Desk(dashboard)
        desk.hear(state(), retained=True)
        desk.hear(PerfDegraded(event_id="e", episode_id="p", node=NODE, workload_id=WORKLOAD))
        desk.dashboard.connected(desk.now)
        desk.hear(state(), retained=True)

        for _ in range(5):
            desk.pass_time(200)
            desk.hear(AppMetrics(node=NODE, workload_id=WORKLOAD, latency_ms=450))

        assert desk.watch().sections["workloads"][f"{NODE}/{WORKLOAD}"]["degraded"]
