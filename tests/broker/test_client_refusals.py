"""How the client takes brokers that refuse, fall silent or talk nonsense: it ends, or tries again."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker.bus import Identity, Subscription
from broker.client import MqttBus
from broker.options import BrokerOptions
from schemas.codec import Frame
from tests.broker.proxy import PUBACK
from tests.broker.scripted import ScriptedBroker
from tests.broker.started import bus_of
from tests.broker.worlds import Client

UNIT = Identity("unit", (Subscription("t"),))


@pytest.fixture
def scripted() -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker()
    yield broker
    broker.close()


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    started: list[Client] = []
    yield started
    for client in started:
        client.bus.stop(drain_s=0)


def connect(broker: ScriptedBroker, clients: list[Client], options: BrokerOptions | None = None) -> Client:
    used = replace(options or BrokerOptions(), port=broker.port)
    client = Client(lambda deliver: MqttBus(used, UNIT, deliver))
    clients.append(client)
    return client


def ended(client: Client) -> bool:
    return not bus_of(client)._thread.is_alive()


@pytest.mark.parametrize(
    ("connack", "says"),
    [
        ("20 03 00 86 00", "Bad user name or password"),
        ("20 03 00 87 00", "Not authorized"),
        ("20 03 00 85 00", "Client identifier not valid"),
        ("20 02 00 01", "Unsupported protocol version"),
        ("20 05 00 00 02 24 00", "has no QoS 1"),
    ],
)
def test_a_refused_connection_is_reported_once_and_not_tried_again(
    scripted: ScriptedBroker, clients: list[Client], connack: str, says: str
) -> None:
    scripted.connack = bytes.fromhex(connack)
    client = connect(scripted, clients)
    assert says in client.wait_fatal()
    client.wait(lambda: ended(client))
    assert scripted.connects == 1
    assert len(client.events) == 1
    assert not client.bus.publish(Frame("t", b"too late"))


def test_a_busy_broker_is_tried_again(scripted: ScriptedBroker, clients: list[Client]) -> None:
    scripted.connack = bytes.fromhex("20 03 00 89 00")
    client = connect(scripted, clients)
    client.wait(lambda: scripted.connects >= 2)
    scripted.connack = bytes.fromhex("20 03 00 00 00")
    client.wait_connected()
    assert ["Server busy" in event.reason for event in client.disconnections] == [True]


def test_a_stop_while_the_broker_refuses_does_not_hammer_it(
    scripted: ScriptedBroker, clients: list[Client]
) -> None:
    scripted.connack = bytes.fromhex("20 03 00 89 00")
    client = connect(scripted, clients)
    client.bus.publish(Frame("t", b"in vain"))
    client.wait(lambda: scripted.connects > 0)
    client.bus.stop(drain_s=0.5)
    assert scripted.connects <= 7  # a pause is at least a tenth of a second
    assert client.bus.counts.dropped_out == 1


@pytest.mark.parametrize("code", [0x80, 0x87, 0x8F, 0x97, 0x00])
def test_a_subscription_not_granted_as_asked_ends_the_client(
    scripted: ScriptedBroker, clients: list[Client], code: int
) -> None:
    scripted.suback_code = code
    client = connect(scripted, clients)
    assert "refuses the subscription t (QoS 1) of unit" in client.wait_fatal()
    assert not client.connections


def test_the_broker_says_that_a_second_instance_took_over(scripted: ScriptedBroker, clients: list[Client]) -> None:
    client = connect(scripted, clients)
    client.wait_connected()
    scripted.say("e0 01 8e")
    assert "a second instance with the client id unit took over" in client.wait_fatal()
    client.wait(lambda: ended(client))
    assert scripted.connects == 1


def test_a_broker_that_shuts_down_is_awaited(scripted: ScriptedBroker, clients: list[Client]) -> None:
    client = connect(scripted, clients)
    client.wait_connected()
    scripted.say("e0 01 8b")
    client.wait_connected(2)
    assert "Server shutting down" in client.disconnections[0].reason


@pytest.mark.parametrize("garbage", ["00 00", "f0 00", "30 03 00 09 41", "40 01 00", "90 02 00 01"])
def test_nonsense_costs_the_connection_and_no_more(
    scripted: ScriptedBroker, clients: list[Client], garbage: str
) -> None:
    client = connect(scripted, clients)
    client.wait_connected()
    scripted.say(garbage)
    client.wait_connected(2)


@pytest.mark.parametrize("silent_about", ["connack", "suback_code"])
def test_a_broker_that_never_answers_is_given_up_in_time(
    scripted: ScriptedBroker, clients: list[Client], silent_about: str
) -> None:
    answer = getattr(scripted, silent_about)
    setattr(scripted, silent_about, None)
    client = connect(scripted, clients, BrokerOptions(connect_timeout_s=0.2))
    client.wait(lambda: len(client.disconnections) > 0)
    assert "no answer" in client.disconnections[0].reason
    setattr(scripted, silent_about, answer)
    client.wait_connected()


def test_a_broker_that_stops_answering_pings_is_noticed(scripted: ScriptedBroker, clients: list[Client]) -> None:
    scripted.answers_pings = False
    client = connect(scripted, clients, BrokerOptions(keepalive_s=1))
    client.wait_connected()
    client.wait(lambda: len(client.disconnections) > 0)
    assert "Keep alive timeout" in client.disconnections[0].reason


def test_a_refused_publish_is_counted_and_makes_room_for_others(
    scripted: ScriptedBroker, clients: list[Client]
) -> None:
    scripted.puback_code = 0x97
    client = connect(scripted, clients)
    client.wait_connected()
    for number in range(30):
        client.bus.publish(Frame("t", b"%d" % number))
    client.wait(lambda: client.bus.counts.negative_acks == 30)
    assert client.bus.counts.published == 0


def test_a_broker_that_takes_few_at_once_gets_no_more(scripted: ScriptedBroker, clients: list[Client]) -> None:
    scripted.connack = bytes.fromhex("20 06 00 00 03 21 00 03")
    scripted.puback_code = None
    client = connect(scripted, clients)
    client.wait_connected()
    for number in range(20):
        client.bus.publish(Frame("t", b"%d" % number))
    client.bus.publish(Frame("t", b"", qos=0))
    client.wait(lambda: scripted.published == 3)
    scripted.say("40 02 00 02")  # the subscription was packet 1
    client.wait(lambda: scripted.published == 4)


def test_a_delivery_is_acknowledged_once_since_its_id_soon_means_another(
    scripted: ScriptedBroker, clients: list[Client]
) -> None:
    client = connect(scripted, clients)
    client.wait_connected()
    scripted.say("32 07 00 01 74 00 05 00 31")
    client.wait_messages(b"1")
    client.bus.ack(client.deliveries[0])
    client.round_trip()
    assert [packet for packet in scripted.packets if packet[0] >> 4 == PUBACK] == [b"\x40\x02\0\5"]


def test_a_packet_id_still_in_flight_is_not_used_again(scripted: ScriptedBroker, clients: list[Client]) -> None:
    scripted.puback_code = None
    client = connect(scripted, clients)
    client.wait_connected()
    client.bus.publish(Frame("t", b"never acknowledged"))
    bus = bus_of(client)
    assert bus._connection is not None
    bus._connection._client._last_mid = 1  # as after 65,535 frames more
    client.bus.publish(Frame("t", b"next"))
    client.wait(lambda: scripted.published == 2)
    ids = [packet[5:7] for packet in scripted.packets if packet[0] == 0x32]
    assert ids == [b"\0\2", b"\0\3"]
    bus._connection._client._last_mid = 1
    client.bus.publish(Frame("t", b"a metric with the id of a request", qos=0))
    assert bus._outbox.in_flight == 2
