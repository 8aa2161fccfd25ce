"""What a component says of itself, and when: start, connection, tick, and a status topic that tells an untruth."""

import pytest

from broker.bus import Connected
from components.component import Output
from components.shell.status import HEAL_INTERVAL_S
from schemas.codec import Frame, decode
from schemas.enums import ConnectionState
from schemas.operations import ComponentStatus
from schemas.resources import NodeCapacity
from schemas.topics import Role
from tests.shell.bench import BOOT_ID, Bench, capacity_of
from tests.shell.doubles import Probe, delivery


def test_what_is_said_at_start_waits_for_the_connection_and_ready_comes_last() -> None:
    bench = Bench()
    bench.probe.on_start = lambda: [capacity_of(node="start")]
    bench.probe.on_connected = lambda: [capacity_of(node="retained")]

    bench.dispatcher.start()
    assert bench.bus.frames == []
    bench.dispatcher.connected(Connected(1, session_present=False))
    bench.dispatcher.connected(Connected(2, session_present=False))

    topics = [frame.topic for frame in bench.bus.frames]
    own = "component/resource_manager/main"
    assert topics == [
        "resources/capacity/start",
        "resources/capacity/retained",
        own,
        "resources/capacity/retained",
        own,
    ]
    ready = bench.bus.said[2]
    assert isinstance(ready, ComponentStatus)
    assert (ready.state, ready.boot_id) == (ConnectionState.READY, BOOT_ID)


def test_a_component_that_cannot_say_its_retained_state_is_ready_all_the_same() -> None:
    bench = Bench()

    def broken() -> list[Output]:
        raise OSError("disk is full")

    bench.probe.on_connected = broken
    bench.dispatcher.connected(Connected(1, session_present=False))

    assert isinstance(bench.bus.said[-1], ComponentStatus)


def test_a_tick_that_fails_makes_it_unhealthy_until_one_works() -> None:
    bench = Bench()

    def broken() -> list[Output]:
        raise OSError("disk is full")

    bench.probe.on_tick = broken
    bench.dispatcher.tick()
    assert bench.dispatcher.problem == "tick failed: OSError: disk is full"

    bench.probe.on_tick = lambda: [capacity_of()]
    bench.dispatcher.tick()
    assert bench.dispatcher.problem is None
    assert isinstance(bench.bus.said[-1], NodeCapacity)


def _own(state: str, boot_id: int = BOOT_ID) -> dict[str, object]:
    return {"component": "resource_manager", "instance": "main", "state": state, "boot_id": boot_id}


@pytest.mark.parametrize(
    ("body", "untrue"),
    [
        (_own("ready"), False),
        (_own("lost"), True),
        (_own("lost", 1), True),
        (_own("disconnected", 1), True),
        (_own("disconnected"), True),
        (b"", True),
        (b"\xc1", True),
        (_own("asleep"), True),
    ],
    ids=[
        "own-echo",
        "own-will",
        "late-will-of-an-earlier-life",
        "foreign-goodbye",
        "goodbye-in-our-name",
        "cleared",
        "unreadable",
        "bad-value",
    ],
)
def test_an_untrue_status_topic_is_overwritten(body: dict[str, object] | bytes, *, untrue: bool) -> None:
    bench = Bench()
    bench.dispatcher.connected(Connected(1, session_present=False))
    bench.bus.log.clear()

    bench.dispatcher.delivered(delivery("component/resource_manager/main", body))
    bench.dispatcher.tick()

    states = [said.state for said in bench.bus.said if isinstance(said, ComponentStatus)]
    assert states == ([ConnectionState.READY] if untrue else [])
    assert bench.probe.handled == []
    assert len(bench.bus.acked) == 1


def test_two_that_contradict_each_other_do_not_flood_the_status_topic() -> None:
    bench = Bench()
    for _ in range(20):
        bench.dispatcher.delivered(delivery("component/resource_manager/main", _own("lost")))
        bench.dispatcher.tick()
    assert len(bench.bus.frames) == 1

    bench.pass_time(HEAL_INTERVAL_S)
    bench.dispatcher.tick()
    assert len(bench.bus.frames) == 2


def test_a_component_that_listens_to_all_statuses_sees_its_own_too() -> None:
    bench = Bench(wants_status=True)

    bench.dispatcher.delivered(delivery("component/resource_manager/main", _own("ready")))

    assert isinstance(bench.probe.handled[0], ComponentStatus)


class RawProbe(Probe):
    raw = True


def test_a_raw_component_gets_deliveries_as_they_came_and_may_send_frames() -> None:
    copy = Frame("debug/resources/validate", b"{}", 0)
    bench = Bench(RawProbe(Role.DEBUG_TAP, on_handle=lambda _: [copy]))
    rubbish = delivery("resources/validate", b"\xc1")

    bench.dispatcher.delivered(rubbish)

    assert bench.probe.handled == [rubbish]
    assert bench.bus.log == [copy, rubbish]


def test_a_raw_component_gets_its_own_status_raw_as_well() -> None:
    bench = Bench(RawProbe(Role.DEBUG_TAP), wants_status=True)
    own = delivery("component/debug_tap/main", {**_own("lost"), "component": "debug_tap"})

    bench.dispatcher.delivered(own)
    bench.dispatcher.tick()

    assert bench.probe.handled == [own]
    assert isinstance(decode(bench.bus.frames[0].topic, bench.bus.frames[0].payload), ComponentStatus)
