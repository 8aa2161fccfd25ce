"""A look at the broker that leaves no trace: what it promises at CONNACK, and what it would let us say.

For `piriscale doctor`. A publication is begun with QoS 2 and never released: the broker judges it and answers, and
forgets it when the connection ends, so nobody hears it. paho would release it by itself; hence packets by hand, as
far as they are needed here. (The standard lets a broker hand such a message on at once; Mosquitto does not.)
"""

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from paho.mqtt import MQTTException
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from broker.frames import TopicPrefix
from broker.options import BrokerOptions

REFUSED_FROM: Final = 0x80
"""Reason codes from here on are refusals."""

_CONNECT, _CONNACK, _PUBLISH_QOS_2, _PUBREC = 0x10, 0x20, 0x34, 0x50
_SUBSCRIBE, _SUBACK, _DISCONNECT = 0x82, 0x90, 0xE0
_CLEAN_START, _HAS_PASSWORD, _HAS_USERNAME = 0x02, 0x40, 0x80
_SESSION_EXPIRY_INTERVAL: Final = 0x11
_LEAVE: Final = b"\0\5" + bytes([_SESSION_EXPIRY_INTERVAL]) + bytes(4)
"""Of DISCONNECT: normal, and the session ends now."""
_WINDOW: Final = 10


class ProbeError(OSError):
    """The broker did not speak as expected, or not in time."""


@dataclass(frozen=True)
class Promises:
    """What the broker said at CONNACK. Absent in MQTT 5 means the most; so do the defaults."""

    receive_maximum: int = 65_535
    """QoS 1 and 2 messages that it takes unacknowledged."""
    packet_max: int | None = None
    """Bytes; None: unbounded."""
    qos_max: int = 2
    retains: bool = True
    wildcards: bool = True
    session_expiry_s: int | None = None
    """How long it keeps a session instead of what was asked; None: as long as asked."""


class Probe:
    """One MQTT 5 connection under a client id of its own; used as a context manager.

    Entering and all methods raise OSError when the broker cannot be reached, refuses, or is silent in the end.
    """

    def __init__(
        self, options: BrokerOptions, client_id: str, within_s: float, *, session_expiry_s: int = 0
    ) -> None:
        """`session_expiry_s` is asked for, to hear whether it is granted; the session ends with `__exit__`."""
        self.promises = Promises()
        self._session_expiry_s = session_expiry_s
        self._options = options
        self._client_id = client_id
        self._until = time.monotonic() + within_s
        self._prefix = TopicPrefix(options.topic_prefix)
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        """Connect."""
        options = self._options
        self._socket = socket.create_connection((options.host, options.port), timeout=self._left_s())
        try:
            if options.tls is not None:
                self._socket = options.tls.context().wrap_socket(self._socket, server_hostname=options.host)
            self._hello()
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect; the session ends with the connection, and what was not released with it."""
        with contextlib.suppress(OSError):  # gone already
            self._send(_DISCONNECT, _LEAVE)
        self._open.close()

    def may_publish(self, topics: Sequence[str], payload: bytes) -> dict[str, int]:
        """The reason code to a message of QoS 2 on each topic, which is never released; 0: it would be taken.

        At most `capacity` topics for one connection.
        """
        for number, topic in enumerate(topics, start=1):
            body = _text(self._prefix.add(topic)) + _short(number) + b"\0" + payload
            self._send(_PUBLISH_QOS_2, body)
        answers = dict(self._answers(_PUBREC, len(topics)))
        return {topic: answers[number] for number, topic in enumerate(topics, start=1)}

    @property
    def capacity(self) -> int:
        """How many publications one connection can ask about; 0: the broker has no QoS 2."""
        return min(self.promises.receive_maximum, _WINDOW) if self.promises.qos_max == 2 else 0

    def may_subscribe(self, filters: Sequence[str]) -> dict[str, int]:
        """The reason code to a subscription to each filter; below 3: it is granted with that QoS."""
        if not filters:
            return {}
        wanted = b"".join(_text(self._prefix.add(each)) + b"\1" for each in filters)
        self._send(_SUBSCRIBE, _short(1) + b"\0" + wanted)
        body = self._await(_SUBACK)
        properties, at = _varint(body, 2)
        codes = body[at + properties :]
        return dict(zip(filters, codes, strict=True))

    def _hello(self) -> None:
        options = self._options
        flags, credentials = _CLEAN_START, b""
        if options.username is not None:
            flags |= _HAS_USERNAME
            credentials += _text(options.username)
        if options.password is not None:
            flags |= _HAS_PASSWORD
            credentials += _text(options.password)
        expiry = bytes([_SESSION_EXPIRY_INTERVAL]) + self._session_expiry_s.to_bytes(4, "big")
        head = _text("MQTT") + bytes([5, flags]) + _short(options.keepalive_s)
        self._send(_CONNECT, head + bytes([len(expiry)]) + expiry + _text(self._client_id) + credentials)
        self._take_promises(self._await(_CONNACK))

    def _take_promises(self, body: bytes) -> None:
        if len(body) < 3:
            raise ProbeError(f"the broker {self._options} does not speak MQTT 5")
        if body[1] >= REFUSED_FROM:
            raise ProbeError(f"the broker {self._options} refuses: {reason_text(PacketTypes.CONNACK, body[1])}")
        told = Properties(PacketTypes.CONNACK)  # type: ignore[no-untyped-call] # paho left it so
        try:
            told.unpack(body[2:])  # type: ignore[no-untyped-call] # likewise
        except (MQTTException, IndexError, KeyError) as error:
            raise ProbeError(f"the broker {self._options} says CONNACK that cannot be read: {error}") from error
        self.promises = Promises(
            receive_maximum=getattr(told, "ReceiveMaximum", Promises.receive_maximum),
            packet_max=getattr(told, "MaximumPacketSize", None),
            qos_max=getattr(told, "MaximumQoS", Promises.qos_max),
            retains=bool(getattr(told, "RetainAvailable", 1)),
            wildcards=bool(getattr(told, "WildcardSubscriptionAvailable", 1)),
            session_expiry_s=getattr(told, "SessionExpiryInterval", None),
        )

    def _answers(self, kind: int, count: int) -> Iterator[tuple[int, int]]:
        """Packet id and reason code of so many acknowledgements."""
        for _ in range(count):
            body = self._await(kind)
            yield int.from_bytes(body[:2], "big"), body[2] if len(body) > 2 else 0

    def _await(self, kind: int) -> bytes:
        """The body of the next packet of a kind; others are passed over."""
        while True:
            first = self._read(1)[0]
            size, shift = 0, 0
            while (digit := self._read(1)[0]) & 0x80:
                size |= (digit & 0x7F) << shift
                shift += 7
            body = self._read(size | digit << shift)
            if first & 0xF0 == kind:
                return body
            if first == _DISCONNECT:
                code = body[0] if body else 0
                why = reason_text(PacketTypes.DISCONNECT, code)
                raise ProbeError(f"the broker {self._options} ends the connection: {why}")

    def _read(self, size: int) -> bytes:
        parts = b""
        while len(parts) < size:
            self._open.settimeout(self._left_s())
            part = self._open.recv(size - len(parts))
            if not part:
                raise ProbeError(f"the broker {self._options} closed the connection")
            parts += part
        return parts

    def _send(self, first: int, body: bytes) -> None:
        self._open.settimeout(self._left_s())
        self._open.sendall(bytes([first]) + _packed_varint(len(body)) + body)

    @property
    def _open(self) -> socket.socket:
        if self._socket is None:
            raise ProbeError("not connected")
        return self._socket

    def _left_s(self) -> float:
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise ProbeError(f"the broker {self._options} does not answer in time")
        return left_s


def ask_to_publish(
    options: BrokerOptions, client_id: str, topics: Sequence[str], payload: bytes, within_s: float
) -> dict[str, int]:
    """The reason code for each topic, over as many connections as that takes; empty: the broker has no QoS 2."""
    until, found = time.monotonic() + within_s, dict[str, int]()
    while len(found) < len(topics):
        with Probe(options, client_id, until - time.monotonic()) as probe:
            if not probe.capacity:
                break
            found |= probe.may_publish(topics[len(found) :][: probe.capacity], payload)
    return found


def reason_text(packet: int, code: int) -> str:
    """An MQTT 5 reason code in words."""
    try:
        return str(ReasonCode(packet, identifier=code))
    except KeyError:
        return f"reason code {code}"


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _short(len(encoded)) + encoded


def _short(number: int) -> bytes:
    return number.to_bytes(2, "big")


def _packed_varint(number: int) -> bytes:
    packed = bytearray()
    while True:
        number, digit = divmod(number, 128)
        packed.append(digit | (0x80 if number else 0))
        if not number:
            return bytes(packed)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A variable-length number, and where it ends."""
    value, shift = 0, 0
    while body[at] & 0x80:
        value |= (body[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | body[at] << shift, at + 1
