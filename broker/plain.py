"""A plain MQTT client that knows topics and bytes only: what an ECU without our code would use."""

import contextlib
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

CONNECT_WITHIN_S: Final = 10.0


class PlainClient:
    """Speaks MQTT 3.1.1, or 5 if asked to; connected while used as a context manager.

    `on_message(topic, payload, retained)` is called on the network thread: it must be quick and must not raise.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        on_message: Callable[[str, bytes, bool], None] | None = None,
        subscribe: tuple[str, ...] = (),
        *,
        mqtt5: bool = False,
    ) -> None:
        self._address = (host, port)
        self._subscribe = subscribe
        protocol = MQTTProtocolVersion.MQTTv5 if mqtt5 else MQTTProtocolVersion.MQTTv311
        self._client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=protocol)
        self._client.on_socket_open = _no_delay
        self._client.on_connect = self._connected
        if on_message is not None:
            told = on_message
            self._client.on_message = lambda _client, _data, message: _hand_over(told, message)

    def __enter__(self) -> Self:
        """Connect. Raises OSError when nobody listens there."""
        self._client.connect(*self._address)
        self._client.loop_start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, topic: str, payload: bytes, qos: int = 0, *, retain: bool = False) -> None:
        """Hand a message to the network thread."""
        self._client.publish(topic, payload, qos, retain)

    def _connected(self, client: Client, _data: Any, _flags: Any, _code: Any, _properties: Any) -> None:
        for topic in self._subscribe:
            client.subscribe(topic, 1)


def _no_delay(_client: Client, _data: Any, connection: Any) -> None:
    with contextlib.suppress(OSError):  # not every kind of socket knows the option
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _hand_over(told: Callable[[str, bytes, bool], None], message: MQTTMessage) -> None:
    told(message.topic, bytes(message.payload), message.retain)
