"""What Mosquitto tells of itself below `$SYS`, for a metric. That other brokers tell nothing is no trouble.

A connection of its own: a component's would end where a broker refuses the subscription.
"""

import contextlib
import logging
import socket
from typing import Any, Final, Self

from paho.mqtt.client import Client, ConnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from broker.access import BROKER_DROPPED
from broker.options import BrokerOptions

_log = logging.getLogger(__name__)

PAUSE_MAX_S: Final = 60


class BrokerStatistics:
    """Listens to the broker while used as a context manager. Never fails: what is not told is None."""

    def __init__(self, options: BrokerOptions, client_id: str) -> None:
        self._address = (options.host, options.port, options.keepalive_s)
        self._dropped: int | None = None
        self._client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.connect_timeout = options.connect_timeout_s
        self._client.reconnect_delay_set(1, PAUSE_MAX_S)
        self._client.username = options.username
        self._client.password = options.password
        if options.tls is not None:
            self._client.tls_set_context(options.tls.context())
        self._client.on_socket_open = _no_delay
        self._client.on_connect = self._connected
        self._client.on_disconnect = self._disconnected
        self._client.on_message = self._told

    def __enter__(self) -> Self:
        """Connect, and stay connected, in the background."""
        self._client.connect_async(*self._address)
        self._client.loop_start()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()

    @property
    def dropped_messages(self) -> int | None:
        """Messages that the broker dropped since it was started; None: it does not say, or is away."""
        return self._dropped

    def _connected(
        self,
        client: Client,
        _data: Any,
        _flags: ConnectFlags,
        reason: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            _log.debug("the broker does not let us look at its statistics: %s", reason)
        else:
            client.subscribe(BROKER_DROPPED, 0)

    def _disconnected(self, *_: Any) -> None:
        self._dropped = None

    def _told(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        try:
            self._dropped = int(message.payload)
        except ValueError:
            _log.debug("no number on %s: %r", message.topic, message.payload[:20])


def _no_delay(_client: Client, _data: Any, connection: Any) -> None:
    with contextlib.suppress(OSError):  # not every kind of socket knows the option
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
