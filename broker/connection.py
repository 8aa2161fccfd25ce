"""One connection to the broker, from CONNECT to its end. All that components say and hear goes through here.

A new paho client is made for each connection: paho would otherwise resend by its own rules after a reconnect,
beyond our window, and carry packet ids from one connection into the next. paho's own thread is not used either: it
does not survive an exception, and would add a hop to each publish. Nothing here is thread-safe; the bus calls it
under its lock.
"""

import contextlib
import logging
import select
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from paho.mqtt.client import Client, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from broker.bus import Delivery, Identity
from broker.frames import TopicPrefix
from broker.options import BrokerOptions
from broker.takeover import taken_over
from broker.tls import TlsSocket, tls_trouble
from broker.window import WINDOW
from schemas.codec import Frame

log = logging.getLogger(__name__)

_SESSION_TAKEN_OVER: Final = 0x8E
_DISCONNECT_WITH_WILL: Final = 0x04
_UNSPECIFIED_ERROR: Final = 0x80
"""What paho gives as the reason when the broker closed without one."""

# What trying again does not mend: a CONNACK that refuses protocol, client id, password, permission or will.
_FATAL_CONNACKS: Final = frozenset({0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x90, 0x99, 0x9A, 0x9B})
_FATAL_DISCONNECTS: Final = frozenset({0x87, _SESSION_TAKEN_OVER})


class Phase(Enum):
    """How far a connection has come."""

    CONNECTING = "connecting"
    ACCEPTED = "accepted"
    SUBSCRIBING = "subscribing"
    GRANTED = "granted"


@dataclass(frozen=True)
class End:
    """Why a connection ended; `silent`: the broker closed it without a word, `unanswered`: even before CONNACK."""

    reason: str
    fatal: bool = False
    silent: bool = False
    unanswered: bool = False


class Waker:
    """Lets other threads end a wait for the network at once."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def wake(self) -> None:
        """End the present wait, or the next one."""
        with contextlib.suppress(OSError):  # full, so that the reader is awake anyway; or closed
            self._writer.send(b"\0")

    def wait(self, timeout_s: float, other: int | None = None, *, other_writes: bool = False) -> None:
        """Wait until woken, until the file descriptor `other` is ready, or until the time is over."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        if other is not None:
            poll.register(other, select.POLLIN | (select.POLLOUT if other_writes else 0))
        for descriptor, _ in poll.poll(timeout_s * 1000):
            if descriptor == self._reader.fileno():
                self._reader.recv(4096)

    def close(self) -> None:
        """Release the sockets."""
        self._reader.close()
        self._writer.close()


class Connection:
    """A connection of one client. `end` is set when it is over, by whichever side; nothing works after that."""

    def __init__(
        self,
        number: int,
        options: BrokerOptions,
        identity: Identity,
        received: Callable[[Delivery], None],
        acknowledged: Callable[[int, str | None], None],
    ) -> None:
        """`acknowledged` is given the packet id, and the broker's reason when it refused the frame."""
        self.number = number
        self.phase = Phase.CONNECTING
        self.end: End | None = None
        self.session_present = False
        self.packet_max: int | None = None
        self.server_window = WINDOW
        self._options = options
        self._identity = identity
        self._prefix = TopicPrefix(options.topic_prefix)
        self._received = received
        self._acknowledged = acknowledged
        self._unacknowledged: set[int] = set()
        self._deadline = 0.0
        self._reading = False
        self._opened: object = None
        self._client = self._new_client()

    def open(self, context: ssl.SSLContext | None) -> None:
        """Connect and say CONNECT; blocks up to the connect time-out. Raises OSError."""
        options = self._options
        if context is not None:
            self._client.tls_set_context(context)
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho left it so
        properties.ReceiveMaximum = options.receive_maximum
        if self._identity.persistent:
            properties.SessionExpiryInterval = options.session_expiry_s
        self._client.connect(
            options.host,
            options.port,
            keepalive=options.keepalive_s,
            clean_start=not self._identity.persistent,
            properties=properties,
        )
        self._deadline = time.monotonic() + options.connect_timeout_s

    @property
    def congested(self) -> bool:
        """Whether bytes wait because the broker reads too slowly; then nothing more should be sent."""
        return self._client.want_write()

    def wait(self, waker: Waker, timeout_s: float) -> None:
        """Wait until there is something to read or to write, or `waker` is used. Call it without the lock."""
        opened = self._client.socket()
        if opened is None or (isinstance(opened, ssl.SSLSocket) and opened.pending()):
            return
        descriptor = opened.fileno()
        if descriptor >= 0:
            waker.wait(timeout_s, descriptor, other_writes=self.congested)

    def step(self) -> None:
        """Read, write and keep alive, without blocking."""
        self._reading = True
        try:
            self._client.loop_read()
        finally:
            self._reading = False
        if self._client.want_write():
            self._client.loop_write()
        self._client.loop_misc()
        if self._client.socket() is None:
            self._finish(End(f"connection to {self._options} lost"))
        elif self.phase is not Phase.GRANTED and time.monotonic() > self._deadline:
            self._finish(End(f"no answer from the broker {self._options} while {self.phase.value}"))

    def subscribe(self) -> None:
        """Ask for all subscriptions; the connection is GRANTED when the broker grants every one."""
        self.phase = Phase.SUBSCRIBING
        wanted = [(self._prefix.add(each.filter), each.qos) for each in self._identity.subscriptions]
        if wanted:
            self._client.subscribe(wanted)
        else:
            self.phase = Phase.GRANTED

    def send(self, frame: Frame) -> int:
        """Publish a frame, whose topic has the prefix; returns its packet id."""
        for _ in range(WINDOW + 1):
            info = self._client.publish(frame.topic, frame.payload, frame.qos, frame.retain)
            if info.rc != MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:  # else the id that came up is still in flight
                break
        return info.mid

    def ack(self, packet_id: int) -> None:
        """Acknowledge a delivery of this connection, once."""
        if packet_id in self._unacknowledged:
            self._unacknowledged.remove(packet_id)
            self._client.ack(packet_id, 1)

    def leave(self, *, with_will: bool) -> None:
        """Say DISCONNECT, after which the broker keeps back the will or, if asked, publishes it at once."""
        reason = ReasonCode(PacketTypes.DISCONNECT, identifier=_DISCONNECT_WITH_WILL) if with_will else None
        self._client.disconnect(reason)

    def abandon(self) -> None:
        """Close without a word, if it is still open; the broker publishes the will."""
        opened = self._client.socket()
        if opened is not None:
            opened.close()
        self._finish(End("abandoned"))

    def _new_client(self) -> Client:
        client = Client(
            CallbackAPIVersion.VERSION2,
            self._identity.client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = self._options.connect_timeout_s
        client.max_inflight_messages_set(2 * WINDOW)  # above ours, so that paho never queues by itself
        client.username = self._options.username
        client.password = self._options.password
        if self._identity.will is not None:
            will = self._prefix.add_to(self._identity.will)
            client.will_set(will.topic, will.payload, will.qos, will.retain)
        client.on_socket_open = self._on_socket_open
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = self._on_message
        client.on_disconnect = self._on_disconnect
        return client

    def _finish(self, end: End) -> None:
        if self.end is None:
            self.end = end

    def refuse_birth(self, refusal: str) -> None:
        """The broker does not let us say who we are, so we are not who it knows."""
        who = self._identity.principal or self._identity.client_id
        topic = self._identity.birth.topic if self._identity.birth else ""
        text = (
            f"the broker {self._options} does not let {who} publish on {topic}: {refusal}; its access rules "
            "lack this identity, or the certificate or user is another's"
        )
        self._finish(End(text, fatal=True))

    def _on_socket_open(self, _client: Client, _userdata: Any, opened: Any) -> None:
        self._opened = opened
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _on_connect(
        self, _client: Client, _userdata: Any, flags: Any, reason: ReasonCode, limits: Properties | None
    ) -> None:
        if reason.is_failure:
            text = f"the broker {self._options} refuses client {self._identity.client_id}: {reason}"
            self._finish(End(text, fatal=reason.value in _FATAL_CONNACKS))
            return
        self.session_present = flags.session_present
        self.packet_max = getattr(limits, "MaximumPacketSize", None)
        self.server_window = getattr(limits, "ReceiveMaximum", WINDOW)
        if getattr(limits, "MaximumQoS", 1) == 0:
            self._finish(End(f"the broker {self._options} has no QoS 1", fatal=True))
        self.phase = Phase.ACCEPTED

    def _on_subscribe(
        self, _client: Client, _userdata: Any, _packet_id: int, reasons: list[ReasonCode], _properties: Any
    ) -> None:
        for wanted, reason in zip(self._identity.subscriptions, reasons, strict=True):
            if reason.is_failure or reason.value < wanted.qos:
                asked = f"{wanted.filter} (QoS {wanted.qos}) of {self._identity.client_id}"
                self._finish(
                    End(f"the broker {self._options} refuses the subscription {asked}: {reason}", fatal=True)
                )
                return
        self.phase = Phase.GRANTED

    def _on_publish(
        self, _client: Client, _userdata: Any, packet_id: int, reason: ReasonCode, _properties: Any
    ) -> None:
        if self._reading:  # else paho tells that it wrote a QoS 0 frame, with an id that may be in flight as well
            self._acknowledged(packet_id, str(reason) if reason.is_failure else None)

    def _on_message(self, _client: Client, _userdata: Any, message: MQTTMessage) -> None:
        if message.qos:
            self._unacknowledged.add(message.mid)
        topic = self._prefix.strip(message.topic)
        if topic is None:  # an older prefix, whose subscriptions the session still has
            self.ack(message.mid)
            return
        payload = bytes(message.payload)
        self._received(Delivery(topic, payload, message.retain, message.qos, self.number, message.mid))

    def _on_disconnect(
        self, _client: Client, _userdata: Any, flags: DisconnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        if not flags.is_disconnect_packet_from_server:
            if isinstance(self._opened, TlsSocket) and (why := tls_trouble(self._opened.trouble)):
                self._finish(End(f"the broker {self._options} refuses us: {why}"))
                return
            closed = reason.value == _UNSPECIFIED_ERROR
            text = f"the connection to the broker {self._options} broke: {'closed' if closed else reason}"
            answered = self.phase is not Phase.CONNECTING
            self._finish(End(text, silent=closed and answered, unanswered=not answered))
        elif reason.value == _SESSION_TAKEN_OVER:
            self._finish(End(taken_over(self._identity.client_id), fatal=True))
        else:
            text = f"the broker {self._options} ends the connection: {reason}"
            self._finish(End(text, fatal=reason.value in _FATAL_DISCONNECTS))
