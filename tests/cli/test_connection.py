"""A session of a command, where a real broker cannot be made to do what is tested."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Timer

import pytest

from broker.bus import BusEvent, Connected, Delivery, Disconnected, Identity, Subscription
from components.cli.connection import (
    BEGIN_WITHIN_S,
    COLLECT_WITHIN_S,
    CONNECT_WITHIN_S,
    QUIET_MAX_S,
    QUIET_S,
    Session,
    quiet_after,
)
from components.cli.errors import CliError, UsageError
from components.settings import BrokerSettings, TlsSettings
from schemas.codec import unpack
from schemas.message import Wire
from schemas.scaling import ScalingControl
from tests.shell.doubles import RecordingBus


class HastyBus(RecordingBus):
    """Sends what is retained before it grants the subscription, as brokers may."""

    def start(self) -> None:
        self.deliver(Delivery("control/scaling", b"{}", retained=True))
        super().start()


class ClosingBus(RecordingBus):
    """Lets us in, and throws us out for good."""

    def start(self) -> None:
        super().start()
        self.deliver(Disconnected("the broker throws us out", fatal=True))


class DyingBus(RecordingBus):
    """Sends a part of what is retained, and is gone."""

    def start(self) -> None:
        super().start()
        self.deliver(Delivery("control/scaling", b"{}", retained=True))
        self.deliver(Disconnected("the broker is gone"))


class BlinkingBus(DyingBus):
    """The same, but it is there again at once and sends the whole."""

    def start(self) -> None:
        super().start()
        self.deliver(Connected(connection=2, session_present=False))
        for topic in ("control/scaling", "node/hpc-1/info"):
            self.deliver(Delivery(topic, b"{}", retained=True))


class FarBus(RecordingBus):
    """Sends what is retained in two windows, the second after the first was acknowledged, over a slow line."""

    round_trip_s = 2 * QUIET_S

    def start(self) -> None:
        Timer(self.round_trip_s, self._arrive).start()

    def _arrive(self) -> None:
        super().start()
        self.deliver(Delivery("control/scaling", b"{}", retained=True))

    def ack(self, delivery: Delivery) -> None:
        super().ack(delivery)
        if len(self.acked) == 1:
            second = Delivery("node/hpc-1/info", b"{}", retained=True)
            Timer(self.round_trip_s, self.deliver, (second,)).start()


class Dripping:
    """Makes buses that send one retained message after another, `step_s` apart by a clock that we turn on."""

    step_s = 0.2

    def __init__(self, messages: int) -> None:
        self._left = messages
        self._turned_s = 0.0

    def clock(self) -> float:
        return time.monotonic() + self._turned_s

    def turn(self, by_s: float) -> None:
        self._turned_s += by_s

    def __call__(self, identity: Identity, deliver: Callable[[BusEvent], bool]) -> RecordingBus:
        drip = self._drip

        class Drop(RecordingBus):
            def start(self) -> None:
                super().start()
                drip(self)

            def ack(self, delivery: Delivery) -> None:
                super().ack(delivery)
                drip(self)

        return Drop(identity, deliver)

    def _drip(self, bus: RecordingBus) -> None:
        if self._left:
            self._left -= 1
            self.turn(self.step_s)
            bus.deliver(Delivery("control/scaling", b"{}", retained=True))


def test_what_is_retained_is_not_lost_when_it_comes_before_the_grant() -> None:
    with Session(BrokerSettings(), (Subscription("#"),), HastyBus) as session:
        topics = [heard.topic for heard in session.retained()]

    assert topics == ["control/scaling"]


def test_a_part_of_what_is_retained_is_not_taken_for_the_whole() -> None:
    # Else `status` showed half a fleet as all of it, and a script saw exit code 0.
    with Session(BrokerSettings(), (), DyingBus) as session, pytest.raises(CliError, match="the broker is gone"):
        list(session.retained())


def test_a_part_will_do_for_who_goes_on_listening() -> None:
    with Session(BrokerSettings(), (), DyingBus) as session:
        assert [heard.topic for heard in session.retained(whole=False)] == ["control/scaling"]


def test_a_connection_that_is_there_again_gives_the_whole() -> None:
    with Session(BrokerSettings(), (), BlinkingBus) as session:
        assert {heard.topic for heard in session.retained()} == {"control/scaling", "node/hpc-1/info"}


def test_on_a_slow_line_a_pause_between_two_windows_is_no_end() -> None:
    # Else `scale` said that no node is known, and `status` showed the first hundred of all.
    with Session(BrokerSettings(), (), FarBus) as session:
        assert [heard.topic for heard in session.retained()] == ["control/scaling", "node/hpc-1/info"]


def test_what_comes_slowly_is_heard_to_its_end() -> None:
    # Else `status` showed what came within 10 s as the whole fleet, with exit code 0.
    messages = round(COLLECT_WITHIN_S / Dripping.step_s) - 5
    line = Dripping(messages)

    with Session(BrokerSettings(), (), line, line.clock) as session:
        assert len(list(session.retained())) == messages


def test_a_command_that_is_slow_itself_hears_the_whole() -> None:
    # Else a machine under load saw less of the fleet.
    line = Dripping(3)

    with Session(BrokerSettings(), (), line, line.clock) as session:
        heard = []
        for one in session.retained():
            heard.append(one)
            line.turn(QUIET_MAX_S)

    assert len(heard) == 3


def test_what_does_not_end_within_a_minute_is_not_taken_for_the_whole() -> None:
    # Else `forget-node` said that a node is forgotten of which it had not heard all.
    line = Dripping(round(2 * COLLECT_WITHIN_S / Dripping.step_s))

    with (
        Session(BrokerSettings(), (), line, line.clock) as session,
        pytest.raises(CliError, match="not heard to its end: more still comes after 60 s"),
    ):
        list(session.retained())


def test_who_goes_on_listening_begins_with_what_came_soon() -> None:
    # Else `watch` showed nothing for a minute.
    line = Dripping(round(COLLECT_WITHIN_S / Dripping.step_s))

    with Session(BrokerSettings(), (), line, line.clock) as session:
        heard = list(session.retained(whole=False))

    assert 0 < len(heard) <= BEGIN_WITHIN_S / Dripping.step_s


def test_how_long_is_quiet_depends_on_how_long_connecting_took() -> None:
    assert [quiet_after(connect_s) for connect_s in (0.01, 0.5, 9.0)] == [QUIET_S, 1.5, QUIET_MAX_S]


def test_on_the_slowest_line_quiet_ends_before_time_is_up() -> None:
    # Else nobody could ever know that it has heard the whole.
    assert quiet_after(CONNECT_WITHIN_S) <= COLLECT_WITHIN_S / 2


def test_a_connection_that_is_lost_for_good_ends_the_command_with_the_reason() -> None:
    with (
        Session(BrokerSettings(), (), ClosingBus) as session,
        pytest.raises(CliError, match="throws us out"),
    ):
        session.receive(1.0)


@pytest.mark.parametrize("wire", Wire)
def test_a_command_writes_as_it_is_configured(wire: Wire) -> None:
    # What `pause` says stays on the broker, where whoever chose JSON wants to read it without a decoder.
    made: list[RecordingBus] = []

    class KeptBus(RecordingBus):
        def start(self) -> None:
            super().start()
            made.append(self)

    with Session(BrokerSettings(wire=wire), (), KeptBus) as session:
        session.publish(ScalingControl(paused=True))

    (frame,) = made[0].frames
    body, written = unpack(frame.payload)
    assert (body["paused"], written) == (True, wire)


def test_a_tls_file_that_cannot_be_used_is_named_in_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    settings = BrokerSettings(url="mqtts://127.0.0.1:8883", tls=TlsSettings(ca_file=missing))

    with pytest.raises(UsageError, match=f"broker.tls: cannot read {missing}: No such file"):
        Session(settings, ())
