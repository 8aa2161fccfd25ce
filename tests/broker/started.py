"""A client without a proxy, for what only the real one can get wrong."""

import socket
from dataclasses import replace
from typing import Final

from broker.bus import Identity, Subscription
from broker.client import MqttBus
from broker.options import BrokerOptions
from schemas.codec import Frame
from tests.broker.worlds import Client
from tests.fixtures.broker import RunningBroker

UNIT: Final = Identity(
    "unit",
    (Subscription("t"),),
    persistent=True,
    will=Frame("component/unit", b"lost", retain=True),
    birth=Frame("component/unit", b"born", retain=True),
)


class Started:
    """Clients that are stopped at the end of the test."""

    def __init__(self) -> None:
        self.clients: list[Client] = []

    def client(self, broker: RunningBroker, identity: Identity, options: BrokerOptions | None = None) -> Client:
        used = replace(options or BrokerOptions(), port=broker.port)
        self.clients.append(Client(lambda deliver: MqttBus(used, identity, deliver)))
        return self.clients[-1]


def bus_of(client: Client) -> MqttBus:
    assert isinstance(client.bus, MqttBus)
    return client.bus


def socket_of(client: Client) -> socket.socket:
    connection = bus_of(client)._connection
    assert connection is not None
    found = connection._client.socket()
    assert isinstance(found, socket.socket)
    return found
