"""A session of a command, where a real broker cannot be made to do what is tested."""

from pathlib import Path

import pytest

from broker.bus import Delivery, Disconnected, Subscription
from components.cli.connection import Session
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


def test_what_is_retained_is_not_lost_when_it_comes_before_the_grant() -> None:
    with Session(BrokerSettings(), (Subscription("#"),), HastyBus) as session:
        topics = [heard.topic for heard in session.retained()]

    assert topics == ["control/scaling"]


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
