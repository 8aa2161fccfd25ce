"""A component at work in its threads: start, calls, drain, expulsion, health."""

import threading
import time

import pytest

from broker.bus import Disconnected, Subscription
from components.component import Call, CallFailed, Instant, Output
from components.shell.shell import client_id_of
from schemas.codec import Frame, decode
from schemas.enums import ConnectionState
from schemas.operations import ComponentStatus
from schemas.resources import ValidateRequest
from schemas.topics import Role
from tests.shell.doubles import Probe, delivery
from tests.shell.stage import PATIENCE_S, Stage, running, until

VALIDATE: dict[str, object] = {"id": "r1", "node": "hpc-1", "workload_id": "cam"}


def status_of(stage: Stage, position: int = -1) -> ComponentStatus:
    statuses = [said for said in stage.bus.said if isinstance(said, ComponentStatus)]
    return statuses[position]


def test_the_session_is_announced_by_birth_and_will_of_the_same_life() -> None:
    stage = Stage(Probe())
    identity = stage.bus.identity

    assert identity.birth is not None
    assert identity.will is not None
    birth = decode(identity.birth.topic, identity.birth.payload)
    will = decode(identity.will.topic, identity.will.payload)
    assert isinstance(birth, ComponentStatus)
    assert isinstance(will, ComponentStatus)
    assert (birth.state, will.state) == (ConnectionState.INIT, ConnectionState.LOST)
    assert birth.boot_id == will.boot_id > 0
    assert identity.birth.retain
    assert identity.will.retain
    assert identity.client_id == "piriscale-resource_manager-main"
    assert not identity.persistent


def test_the_own_status_topic_is_subscribed_unless_it_is_already() -> None:
    every = Probe()
    every.wanted = (Subscription("component/+/+"),)

    assert Stage(Probe()).bus.identity.subscriptions[-1].filter == "component/resource_manager/main"
    assert Stage(every).bus.identity.subscriptions == every.wanted


def test_two_vehicles_on_one_broker_do_not_take_each_others_client_id() -> None:
    ids = {client_id_of(Role.POLICY_MANAGER, "main", prefix) for prefix in ("", "fleet/car-1", "fleet.car-1")}

    assert len(ids) == 3


def test_an_agent_announces_the_boot_id_that_it_counts_itself() -> None:
    probe = Probe()
    probe.boot_id = 42  # type: ignore[attr-defined] # what makes it `Booted`

    with running(probe) as stage:
        until(lambda: bool(stage.bus.frames), "ready")
        assert status_of(stage).boot_id == 42


def test_stop_says_goodbye_and_closes_the_component() -> None:
    with running(Probe()) as stage:
        until(lambda: bool(stage.bus.frames), "ready")

    (goodbye,) = stage.bus.stopped_with
    assert goodbye is not None
    said = decode(goodbye.topic, goodbye.payload)
    assert isinstance(said, ComponentStatus)
    assert said.state is ConnectionState.DISCONNECTED
    assert said.boot_id == status_of(stage, 0).boot_id
    assert stage.probe.closed == 1
    assert stage.shell.fatal is None
    assert not stage.ended.is_set()


def test_stop_finishes_the_message_at_hand_and_leaves_the_others_unacknowledged() -> None:
    at_work, go_on = threading.Event(), threading.Event()

    def work(_item: object) -> list[Output]:
        at_work.set()
        assert go_on.wait(PATIENCE_S)
        return []

    with running(Probe(on_handle=work)) as stage:
        first, second = (delivery("resources/validate", VALIDATE, packet_id=n) for n in (1, 2))
        stage.inbox.deliver(first)
        stage.inbox.deliver(second)
        assert at_work.wait(PATIENCE_S)
        stage.shell.stop()
        go_on.set()
        assert stage.shell.join(PATIENCE_S)

    assert stage.bus.acked == [first]
    assert len(stage.probe.handled) == 1


def test_the_result_of_a_call_comes_back_and_an_exception_comes_back_as_call_failed() -> None:
    def divide() -> int:
        return 1 // 0

    good, bad = Call("good", lambda: "result"), Call("bad", divide)

    def react(item: object) -> list[Output]:
        return [good, bad] if isinstance(item, ValidateRequest) else []

    with running(Probe(on_handle=react)) as stage:
        stage.inbox.deliver(delivery("resources/validate", VALIDATE))
        until(lambda: len(stage.probe.handled) == 3, "both results")

    assert "result" in stage.probe.handled
    failed = next(item for item in stage.probe.handled if isinstance(item, CallFailed))
    assert failed.call is bad
    assert isinstance(failed.error, ZeroDivisionError)


def test_a_hung_call_blocks_neither_messages_nor_other_calls() -> None:
    release = threading.Event()
    hung = Call("hung", lambda: release.wait(PATIENCE_S))

    def react(item: object) -> list[Output]:
        return [hung, Call("quick", lambda: "quick")] if isinstance(item, ValidateRequest) else []

    with running(Probe(on_handle=react)) as stage:
        stage.inbox.deliver(delivery("resources/validate", VALIDATE))
        until(lambda: "quick" in stage.probe.handled, "the other call")
        release.set()


def test_stop_waits_for_a_running_call_and_publishes_its_answer() -> None:
    started, release = threading.Event(), threading.Event()

    def work() -> str:
        started.set()
        release.wait(PATIENCE_S)
        return "done"

    def react(item: object) -> list[Output]:
        return [Call("update", work)] if isinstance(item, ValidateRequest) else []

    with running(Probe(on_handle=react)) as stage:
        stage.inbox.deliver(delivery("resources/validate", VALIDATE))
        assert started.wait(PATIENCE_S)
        stage.shell.stop()
        release.set()
        assert stage.shell.join(PATIENCE_S)

    assert stage.probe.handled[-1] == "done"


def test_a_call_without_a_result_says_nothing() -> None:
    def react(item: object) -> list[Output]:
        return [Call("silent", lambda: None)] if isinstance(item, ValidateRequest) else []

    with running(Probe(on_handle=react)) as stage:
        stage.inbox.deliver(delivery("resources/validate", VALIDATE))
        until(lambda: bool(stage.probe.handled), "called")

    assert len(stage.probe.handled) == 1


def test_items_of_a_components_own_thread_are_handled() -> None:
    with running(Probe()) as stage:
        stage.inbox.post("podman event")
        until(lambda: stage.probe.handled == ["podman event"], "handled")


def test_messages_do_not_starve_the_tick() -> None:
    ticks = []

    def work(_item: object) -> list[Output]:
        time.sleep(0.001)
        return []

    def tick() -> list[Output]:
        ticks.append(1)
        return []

    probe = Probe(on_handle=work)
    probe.on_tick = tick
    with running(probe) as stage:
        for number in range(300):
            stage.inbox.deliver(delivery("resources/validate", VALIDATE, packet_id=number + 1))
        until(lambda: len(stage.probe.handled) == 300, "all handled")
        assert len(ticks) >= 3


def test_whatever_arrives_at_an_idle_worker_brings_a_tick_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.shell.pace.IDLE_TICK_S", 600.0)
    monkeypatch.setattr("components.shell.pace.GROWTH", 100_000.0)
    ticks: list[int] = []

    def tick() -> list[Output]:
        ticks.append(1)
        return []

    probe = Probe()
    probe.on_tick = tick
    with running(probe) as stage:
        time.sleep(0.5)  # by now the next tick is minutes away
        before = len(ticks)
        stage.inbox.post("news")
        until(lambda: len(ticks) > before, "a tick")


def test_a_second_instance_that_takes_over_ends_this_one_without_a_goodbye_in_its_name() -> None:
    with running(Probe()) as stage:
        stage.inbox.deliver(Disconnected("a second instance took over the client id", fatal=True))
        assert stage.ended.wait(PATIENCE_S)

        assert stage.shell.fatal == "a second instance took over the client id"
        assert stage.bus.stopped_with == [None]
        assert stage.probe.closed == 1
        assert stage.shell.problem == "resource_manager: a second instance took over the client id"


class TetheredProbe(Probe):
    cut_off = 0

    def disconnected(self, _now: Instant) -> None:
        self.cut_off += 1


def test_a_component_that_wants_to_know_is_told_that_nobody_hears_it() -> None:
    probe = TetheredProbe()
    with running(probe) as stage:
        assert probe.cut_off == 0
        stage.inbox.deliver(Disconnected("the broker is gone"))
        until(lambda: probe.cut_off == 1, "told")
        assert stage.shell.fatal is None


def test_a_component_that_cannot_start_ends_and_says_why() -> None:
    probe = Probe()

    def broken() -> list[Output]:
        raise OSError("no such directory")

    probe.on_start = broken
    stage = Stage(probe)
    stage.shell.start()

    assert stage.ended.wait(PATIENCE_S)
    assert stage.shell.fatal == "OSError: no such directory"
    assert not stage.bus.started
    assert stage.bus.stopped_with == [None]
    assert probe.closed == 1


def test_health_follows_the_connection_and_the_component() -> None:
    with running(Probe()) as stage:
        until(lambda: stage.shell.problem is None, "healthy")
        stage.probe.problem = "the database cannot be written"
        until(lambda: stage.shell.problem is not None, "unhealthy")
        assert stage.shell.problem == "resource_manager: the database cannot be written"

        stage.inbox.deliver(Disconnected("connection refused"))
        until(lambda: not stage.shell.up, "disconnected")
        assert stage.shell.problem == "resource_manager: not connected to the broker: connection refused"

    assert stage.shell.problem == "resource_manager: not running"


def test_a_goodbye_that_fails_keeps_no_component_from_being_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Probe()) as stage:

        def broken(_last: Frame | None = None) -> None:
            raise OSError("the socket is gone")

        monkeypatch.setattr(stage.bus, "stop", broken)

    assert stage.probe.closed == 1
