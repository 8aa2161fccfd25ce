"""A look at the broker: it tells what would be refused, and nobody hears that it was asked."""

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.bus import BusEvent, Connected, Identity
from broker.client import MqttBus
from broker.configuration import MosquittoConfiguration
from broker.options import BrokerOptions
from broker.probe import REFUSED_FROM, Probe, ask_to_publish
from tests.fixtures.broker import RunningBroker, free_port, running_broker
from tests.fixtures.watch import watching

WITHIN_S = 5.0


def options_of(broker: RunningBroker, prefix: str = "") -> BrokerOptions:
    return BrokerOptions(port=broker.port, topic_prefix=prefix)


def test_what_is_asked_about_is_heard_by_nobody_and_not_kept(broker: RunningBroker) -> None:
    topics = [f"node/hpc-{number}/update" for number in range(25)]
    with watching(broker) as watch:
        told = ask_to_publish(options_of(broker), "probe", topics, b"asked", WITHIN_S)
        watch.settle()

    assert told == dict.fromkeys(topics, 0)
    assert watch.topics == []


@pytest.fixture
def strict() -> Iterator[RunningBroker]:
    """A broker that allows little, of everything."""
    with running_broker() as place:
        rights = place.directory / "rights"
        rights.write_text("topic read #\ntopic write fleet/allowed\n")
        rights.chmod(0o644)
        lines = ("max_inflight_messages 3", "max_packet_size 100000", "message_size_limit 50000")
        with running_broker(MosquittoConfiguration(acl_file=rights, extra=lines)) as running:
            yield running


def test_what_would_be_refused_is_told(strict: RunningBroker) -> None:
    told = ask_to_publish(options_of(strict, "fleet"), "probe", ["allowed", "forbidden"], b"asked", WITHIN_S)
    large = ask_to_publish(options_of(strict, "fleet"), "probe", ["allowed"], b" " * 60_000, WITHIN_S)

    assert told == {"allowed": 0, "forbidden": 0x87}
    assert large["allowed"] >= REFUSED_FROM


def test_what_the_broker_promises_is_read(strict: RunningBroker) -> None:
    with Probe(options_of(strict), "probe", WITHIN_S, session_expiry_s=3600) as probe:
        assert (probe.promises.receive_maximum, probe.promises.packet_max) == (3, 100_000)
        assert probe.promises.retains
        assert probe.may_subscribe(["a/#", "b"]) == {"a/#": 1, "b": 1}


def test_a_broker_that_is_left_keeps_no_session(broker: RunningBroker) -> None:
    with Probe(options_of(broker), "probe", WITHIN_S, session_expiry_s=3600) as probe:
        probe.may_subscribe(["a/#"])

    events: queue.SimpleQueue[BusEvent] = queue.SimpleQueue()

    def deliver(event: BusEvent) -> bool:
        events.put(event)
        return True

    again = MqttBus(options_of(broker), Identity("probe", persistent=True), deliver)
    again.start()
    event = events.get(timeout=WITHIN_S)
    again.stop()
    assert isinstance(event, Connected)
    assert not event.session_present


@contextmanager
def _answering(answer: bytes, *, close: bool = True) -> Iterator[BrokerOptions]:
    """Something on a port that says `answer` to whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        done = threading.Event()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)
                if not close:
                    done.wait(WITHIN_S)

        thread = threading.Thread(target=serve)
        thread.start()
        yield BrokerOptions(port=listening.getsockname()[1])
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "closed the connection"),
        (bytes.fromhex("20 02 00 01"), "does not speak MQTT 5"),
        (bytes.fromhex("20 03 00 87 00"), "Not authorized"),
        (bytes.fromhex("20 03 00 ee 00"), "reason code 238"),
        (bytes.fromhex("e0 02 8b 00"), "Server shutting down"),
        (bytes.fromhex("20 05 00 00 02 ff ff"), "cannot be read"),
    ],
    ids=["nothing", "MQTT 3", "refused", "an unknown code", "shutting down", "nonsense"],
)
def test_a_server_that_does_not_let_us_in_is_an_error_in_words(answer: bytes, says: str) -> None:
    with _answering(answer) as options, pytest.raises(OSError, match=says), Probe(options, "probe", WITHIN_S):
        pass


def test_a_silent_server_is_left_in_time() -> None:
    began = time.monotonic()
    with (
        _answering(b"", close=False) as options,
        pytest.raises(OSError, match=r"timed out|in time"),
        Probe(options, "probe", 0.3),
    ):
        pass

    assert time.monotonic() - began < WITHIN_S


def test_no_server_is_an_error() -> None:
    with pytest.raises(OSError, match="refused"), Probe(BrokerOptions(port=free_port()), "probe", WITHIN_S):
        pass
