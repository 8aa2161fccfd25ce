"""What a bus is to a component: frames out, events in, acknowledged after the work.

Two implementations keep this contract, and one test suite holds both to it: `broker.client` (MQTT) and
`broker.memory` (in process).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from schemas.codec import Frame


@dataclass(frozen=True)
class Delivery:
    """A message that came, to be acknowledged with `Bus.ack` after its effect is committed.

    `topic` is without the configured prefix. `connection` counts connections: an acknowledgement for an earlier
    one is dropped, since the packet ids of two connections mean different messages.
    """

    topic: str
    payload: bytes
    retained: bool = False
    qos: int = 1
    connection: int = 0
    packet_id: int = 0


@dataclass(frozen=True)
class Connected:
    """A connection with all subscriptions granted stands. The broker may have forgotten everything before.

    Deliveries of this connection may come shortly before it: what waited in the session, and retained state.
    """

    connection: int
    session_present: bool


@dataclass(frozen=True)
class Disconnected:
    """The connection is gone, or could not be made; the bus tries again by itself unless `fatal`.

    Said once for each reason in a row, not for each try.

    `fatal` is for what a repeat cannot mend: wrong password, refused subscription, a second instance that took
    over the client id.
    """

    reason: str
    fatal: bool = False


BusEvent = Delivery | Connected | Disconnected
Deliver = Callable[[BusEvent], bool]
"""Takes an event into the component's inbox without blocking; False: there was no room, it is lost and counted.

Only QoS 0 messages are lost so; what else is not taken is offered again, a little later. It must not block, and it
may be called from any thread.
"""


@dataclass
class BusCounts:
    """What became of frames. The numbers only ever grow."""

    published: int = 0
    received: int = 0
    dropped_out: int = 0
    dropped_in: int = 0
    reconnects: int = 0
    negative_acks: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """Topics (at most 100) on which we may not publish, as it seems at present, and what the broker says."""


@dataclass(frozen=True)
class Subscription:
    """A topic filter, without the configured prefix, and the QoS asked for."""

    filter: str
    qos: int = 1


@dataclass(frozen=True)
class Identity:
    """Who connects, how its session lives, and what the broker says when it dies."""

    client_id: str
    subscriptions: tuple[Subscription, ...] = ()
    persistent: bool = False
    will: Frame | None = None
    birth: Frame | None = field(default=None)
    """Published first on every connection."""
    principal: str = ""
    """Who this is to the broker's access rules (`broker.access`); "": whoever the options say."""


class Bus(Protocol):
    """A connection of one component to the broker."""

    counts: BusCounts

    def start(self) -> None:
        """Begin to connect, and keep connected, in the background. Returns at once."""

    def publish(self, frame: Frame) -> bool:
        """Send when possible, in order, at most 10 QoS 1 frames in flight; never blocks. From any thread.

        False when a frame was dropped (and counted): the oldest, of QoS 0 if there is one, since the bounded queue
        was full; or this one, of QoS 0 and without a connection, since such a frame is for now or never; or this
        one, after the end. Raises ValueError for a frame above the broker's packet limit, or with a topic or QoS
        that cannot be published.
        """

    def ack(self, delivery: Delivery) -> None:
        """Acknowledge a delivery; without effect for one of an earlier connection or of QoS 0."""

    def stop(self, last: Frame | None = None, drain_s: float = 2.0) -> None:
        """Send what is queued, then `last`, wait up to `drain_s` for acknowledgements, and disconnect.

        The will is not said, unless an acknowledgement is missing: then `last` may not have come through.
        """
