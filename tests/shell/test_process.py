"""Components in one process, on the in-memory broker: requests, faults, take-over, the common end."""

import gc
import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from broker.bus import BusEvent, Delivery, Identity, Subscription
from broker.memory import MemoryBroker, MemoryBus
from components.component import Component, Instant, Output
from components.shell.inbox import Inbox
from components.shell.run import ALLOCATIONS_PER_COLLECTION, END_WITHIN_S, Process
from components.shell.shell import Shell
from schemas.codec import Frame, decode, encode
from schemas.enums import ConnectionState
from schemas.message import Message
from schemas.operations import ComponentStatus
from schemas.resources import ValidateReply, ValidateRequest
from schemas.topics import Role
from tests.shell.doubles import Probe

PATIENCE_S = 15.0
STATUS = "component/resource_manager/main"
CLIENT_ID = "piriscale-resource_manager-main"


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.002)


def answer(item: object) -> list[Output]:
    if not isinstance(item, ValidateRequest):
        return []
    return [ValidateReply(in_reply_to=item.id, allowed=True, node=item.node, workload_id=item.workload_id)]


class PersistentProbe(Probe):
    persistent = True


class Asker:
    """A plain client that asks and listens."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.inbox = Inbox()
        topics = (Subscription("resources/validate/reply"), Subscription("deadletter/+", 0))
        self.bus = MemoryBus(broker, Identity("asker", topics), self.inbox.deliver)
        self.bus.start()

    def ask(self, number: int) -> None:
        request = ValidateRequest(id=f"r{number}", node="hpc-1", workload_id="cam")
        self.bus.publish(encode(request))

    def hear(self) -> Message:
        deadline = time.monotonic() + PATIENCE_S
        while (left_s := deadline - time.monotonic()) > 0:
            event = self.inbox.take(left_s)
            if isinstance(event, Delivery):
                self.bus.ack(event)
                message = decode(event.topic, event.payload)
                assert isinstance(message, Message)
                return message
        raise AssertionError("nothing was said")


class Stage:
    """A broker and a process on it."""

    def __init__(self, *, metrics_port: int | None = None) -> None:
        self.broker = MemoryBroker()
        self.process = Process(self._connect, metrics_port=metrics_port, also=lambda: self.trouble)
        self.trouble: str | None = None

    def _connect(self, identity: Identity, deliver: Callable[[BusEvent], bool]) -> MemoryBus:
        return MemoryBus(self.broker, identity, deliver)

    def add(self, probe: Probe) -> Probe:
        def build(_post: Callable[[object], None]) -> Component:
            return probe

        self.process.add(build)
        return probe

    def state(self, topic: str = STATUS) -> ConnectionState | None:
        """What the retained status topic says."""
        frame = self.broker.retained.get(topic)
        said = decode(topic, frame.payload) if frame else None
        return said.state if isinstance(said, ComponentStatus) else None

    @contextmanager
    def running(self) -> Iterator[None]:
        self.process.start()
        try:
            until(lambda: all(shell.up for shell in self.process.shells), "connected")
            until(lambda: self.state() is ConnectionState.READY, "ready")
            yield
        finally:
            assert self.process.stop()


def test_a_request_is_answered_and_the_status_topic_tells_the_whole_life() -> None:
    stage = Stage()
    probe = stage.add(Probe(on_handle=answer))
    asker = Asker(stage.broker)

    with stage.running():
        asker.ask(1)
        reply = asker.hear()
        assert isinstance(reply, ValidateReply)
        assert reply.in_reply_to == "r1"

    assert stage.state() is ConnectionState.DISCONNECTED
    assert probe.closed == 1


def test_components_that_hang_have_one_time_to_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    waits: list[float] = []

    def hang(_shell: Shell, timeout_s: float) -> bool:
        waits.append(timeout_s)
        now[0] += timeout_s
        return False

    stage = Stage()
    for _ in range(3):
        stage.add(Probe())
    monkeypatch.setattr(Shell, "join", hang)
    monkeypatch.setattr("components.shell.run.time.monotonic", lambda: now[0])

    assert not stage.process.stop()

    assert waits == [END_WITHIN_S, 0, 0]


def test_garbage_is_looked_for_less_often_once_components_work() -> None:
    before = gc.get_threshold()
    stage = Stage()
    stage.add(Probe())
    try:
        gc.set_threshold(700, 10, 10)
        with stage.running():
            assert gc.get_threshold() == (ALLOCATIONS_PER_COLLECTION, 10, 10)
    finally:
        gc.set_threshold(*before)


def test_requests_sent_while_a_persistent_component_was_away_are_answered_when_it_is_back() -> None:
    stage = Stage()
    stage.add(PersistentProbe(on_handle=answer))
    asker = Asker(stage.broker)
    with stage.running():
        pass

    asker.ask(1)
    again = Process(stage._connect)
    again.add(lambda _post: PersistentProbe(on_handle=answer))
    again.start()

    assert isinstance(asker.hear(), ValidateReply)
    assert again.stop()


def test_a_broker_that_forgot_everything_is_told_again() -> None:
    stage = Stage()
    stage.add(Probe(on_handle=answer))

    with stage.running():
        stage.broker.stop()
        stage.broker.forget_everything()
        until(lambda: bool(stage.process.problems()), "the loss is noticed")
        assert "not connected to the broker" in stage.process.problems()[0]
        stage.broker.start()
        until(lambda: stage.state() is ConnectionState.READY, "ready again")
        assert stage.process.problems() == []


def test_a_will_published_while_it_lives_is_overwritten() -> None:
    stage = Stage()
    stage.add(Probe())

    with stage.running():
        stage.broker.drop(CLIENT_ID)
        assert stage.state() is ConnectionState.LOST
        stage.broker.reconnect(CLIENT_ID)
        until(lambda: stage.state() is ConnectionState.READY, "ready again")
        late_will = ComponentStatus(
            component="resource_manager", instance="main", state=ConnectionState.LOST, boot_id=1
        )
        with_will = MemoryBus(stage.broker, Identity("late"), lambda _: True)
        with_will.start()
        with_will.publish(encode(late_will))
        until(lambda: stage.state() is ConnectionState.READY, "the late will is overwritten")


def test_rubbish_is_told_and_does_not_stop_the_next_request() -> None:
    stage = Stage()
    stage.add(Probe(on_handle=answer))
    asker = Asker(stage.broker)

    with stage.running():
        asker.bus.publish(Frame("resources/validate", b"\xc1"))
        asker.ask(2)
        kinds = {type(asker.hear()).__name__, type(asker.hear()).__name__}

    assert kinds == {"DeadLetter", "ValidateReply"}


def test_a_second_instance_ends_the_first_and_with_it_its_whole_process() -> None:
    stage = Stage()
    stage.add(Probe(Role.RESOURCE_MANAGER))
    other = stage.add(Probe(Role.ACTION_CONTROLLER))

    with stage.running():
        usurper = MemoryBus(stage.broker, Identity(CLIENT_ID), lambda _: True)
        usurper.start()
        why = stage.process.wait()

    assert why is not None
    assert why.startswith("resource_manager: ")
    assert CLIENT_ID in why
    assert other.closed == 1


def test_an_end_that_is_asked_for_is_no_failure() -> None:
    stage = Stage()
    stage.add(Probe())

    with stage.running():
        stage.process.end()
        assert stage.process.wait() is None


def test_components_that_were_built_are_closed_when_another_cannot_be() -> None:
    stage = Stage(metrics_port=0)
    probe = stage.add(Probe())

    assert stage.process.stop()

    assert probe.closed == 1
    assert stage.state() is None


def test_health_and_metrics_of_all_components_are_served_together() -> None:
    stage = Stage(metrics_port=0)
    stage.add(Probe(Role.RESOURCE_MANAGER))
    stage.add(Probe(Role.ACTION_CONTROLLER)).problem = "the journal cannot be written"
    stage.trouble = "broker: it ended"

    def get(path: str) -> tuple[int, str]:
        with closing(http.client.HTTPConnection("127.0.0.1", stage.process.metrics_port, timeout=5)) as client:
            client.request("GET", path)
            response = client.getresponse()
            return response.status, response.read().decode()

    with stage.running():
        until(lambda: len(stage.process.problems()) == 2, "both troubles are seen")
        status, text = get("/healthz")
        assert (status, text) == (503, "broker: it ended\naction_controller: the journal cannot be written\n")
        _, metrics = get("/metrics")

    assert 'piriscale_component_up{component="resource_manager"} 1.0' in metrics
    assert 'piriscale_component_up{component="action_controller"} 1.0' in metrics


class MortalProbe(Probe):
    """Wants to begin anew upon its first message."""

    renewal: str | None = None

    def handle(self, item: object, now: Instant) -> list[Output]:
        self.renewal = "a later life of it is known"
        return super().handle(item, now)


def test_a_component_that_has_to_begin_anew_is_made_anew_in_its_place() -> None:
    stage = Stage()
    lives: list[Probe] = []

    def build(_post: Callable[[object], None]) -> Component:
        lives.append(Probe(on_handle=answer) if lives else MortalProbe(on_handle=answer))
        return lives[-1]

    stage.process.add(build)
    asker = Asker(stage.broker)
    with stage.running():
        asker.ask(1)
        asker.hear()
        until(lambda: len(lives) == 2 and stage.state() is ConnectionState.READY, "begun anew")
        assert lives[0].closed == 1
        asker.ask(2)
        asker.hear()
        assert len(stage.process.shells) == 1
        assert stage.process.problems() == []
    assert lives[1].closed == 1


def test_one_that_cannot_be_made_anew_ends_the_process_and_says_why() -> None:
    stage = Stage()
    lives: list[Probe] = []

    def build(_post: Callable[[object], None]) -> Component:
        if lives:
            raise OSError("the disk is gone")
        lives.append(MortalProbe(on_handle=answer))
        return lives[-1]

    stage.process.add(build)
    asker = Asker(stage.broker)
    with stage.running():
        asker.ask(1)
        assert stage.process.wait() == "resource_manager: cannot begin anew: the disk is gone"


def test_one_that_is_made_anew_while_the_process_stops_ends_with_it() -> None:
    stage = Stage()
    lives: list[Probe] = []

    def build(_post: Callable[[object], None]) -> Component:
        if lives:
            stage.process._stopping = True  # as `stop` does, in the midst of this
        lives.append(Probe(on_handle=answer) if lives else MortalProbe(on_handle=answer))
        return lives[-1]

    stage.process.add(build)
    asker = Asker(stage.broker)
    stage.process.start()
    until(lambda: stage.state() is ConnectionState.READY, "ready")
    asker.ask(1)
    until(lambda: len(lives) == 2 and lives[1].closed == 1, "ended")
    assert stage.process.stop()
