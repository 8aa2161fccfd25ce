"""What the broker drops is seen, and a broker that does not tell is no trouble."""

import time
from collections.abc import Callable

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from broker.access import BROKER_DROPPED
from broker.configuration import MosquittoConfiguration
from broker.options import BrokerOptions
from broker.plain import PlainClient
from broker.statistics import BrokerStatistics
from tests.fixtures.broker import RunningBroker, free_port, running_broker

TELLS_EACH_SECOND = ("sys_interval 1", "max_queued_messages 10")


def eventually(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def options(broker: RunningBroker) -> BrokerOptions:
    return BrokerOptions(host=broker.host, port=broker.port)


def leave_a_session(broker: RunningBroker) -> None:
    """A client that subscribed and went away."""
    client = Client(CallbackAPIVersion.VERSION2, "away", clean_session=False)
    granted: list[object] = []
    client.on_subscribe = lambda *_: granted.append(1)
    client.connect(broker.host, broker.port)
    client.loop_start()
    eventually(client.is_connected, "no connection")
    client.subscribe("lost", 1)
    eventually(lambda: granted, "no subscription")
    client.disconnect()
    client.loop_stop()


def test_messages_that_the_broker_drops_are_counted() -> None:
    with running_broker(MosquittoConfiguration(extra=TELLS_EACH_SECOND)) as broker:
        leave_a_session(broker)
        with BrokerStatistics(options(broker), "statistics") as statistics:
            eventually(lambda: statistics.dropped_messages == 0, "the broker tells nothing")
            with PlainClient(broker.host, broker.port, "sayer") as sayer:
                for _ in range(500):
                    sayer.publish("lost", b"word", 1)
                eventually(lambda: (statistics.dropped_messages or 0) > 100, "nothing was dropped")


def test_a_broker_that_goes_away_and_comes_back_is_found_again() -> None:
    with (
        running_broker(MosquittoConfiguration(extra=TELLS_EACH_SECOND)) as broker,
        BrokerStatistics(options(broker), "statistics") as statistics,
    ):
        eventually(lambda: statistics.dropped_messages is not None, "the broker tells nothing")
        broker.stop()
        eventually(lambda: statistics.dropped_messages is None, "what it told before is still believed")
        broker.start()
        eventually(lambda: statistics.dropped_messages is not None, "not connected again")


def test_a_broker_that_is_not_there_or_does_not_tell_is_no_trouble() -> None:
    with BrokerStatistics(BrokerOptions(port=free_port()), "statistics") as statistics:
        assert statistics.dropped_messages is None
    with (
        running_broker(MosquittoConfiguration(extra=("sys_interval 0",))) as broker,
        BrokerStatistics(options(broker), "statistics") as statistics,
        PlainClient(broker.host, broker.port, "other") as other,
    ):
        other.publish(BROKER_DROPPED.removeprefix("$SYS/"), b"5", 1)
        assert statistics.dropped_messages is None
