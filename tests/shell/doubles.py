"""A bus that remembers, and a component that does as it is told."""

from collections.abc import Callable, Iterable, Sequence

from broker.bus import BusCounts, BusEvent, Connected, Delivery, Identity, Subscription
from components.component import Instant, Output
from schemas.codec import Decoded, Frame, decode, pack
from schemas.message import Wire
from schemas.topics import Role


class RecordingBus:
    """Keeps what was published and acknowledged, in order, in `log`."""

    def __init__(self, identity: Identity, deliver: Callable[[BusEvent], bool]) -> None:
        self.identity = identity
        self.deliver = deliver
        self.counts = BusCounts()
        self.packet_bytes_max = 1_000_000
        self.log: list[Frame | Delivery] = []
        self.started = False
        self.stopped_with: list[Frame | None] = []

    def start(self) -> None:
        self.started = True
        self.deliver(Connected(connection=1, session_present=False))

    def publish(self, frame: Frame) -> bool:
        if len(frame.payload) > self.packet_bytes_max:
            raise ValueError(f"the broker takes at most {self.packet_bytes_max} bytes")
        self.log.append(frame)
        return True

    def ack(self, delivery: Delivery) -> None:
        self.log.append(delivery)

    def stop(self, last: Frame | None = None, drain_s: float = 2.0) -> None:
        self.stopped_with.append(last)

    @property
    def frames(self) -> list[Frame]:
        return [one for one in self.log if isinstance(one, Frame)]

    @property
    def said(self) -> list[Decoded]:
        return [decode(frame.topic, frame.payload) for frame in self.frames]

    @property
    def acked(self) -> list[Delivery]:
        return [one for one in self.log if isinstance(one, Delivery)]


Reaction = Callable[[object], Iterable[Output]]


class Probe:
    """A component whose reactions a test gives; it remembers what it was handed."""

    persistent = False
    instance = "main"

    def __init__(self, role: Role = Role.RESOURCE_MANAGER, on_handle: Reaction = lambda _: []) -> None:
        self.role = role
        self.on_handle = on_handle
        self.on_failed: Callable[[object, Exception], list[Output] | None] = lambda _item, _error: None
        self.on_tick: Callable[[], list[Output]] = list
        self.on_start: Callable[[], list[Output]] = list
        self.on_connected: Callable[[], list[Output]] = list
        self.handled: list[object] = []
        self.problem: str | None = None
        self.closed = 0
        self.wanted: tuple[Subscription, ...] = (Subscription("resources/validate"),)

    def subscriptions(self) -> Sequence[Subscription]:
        return self.wanted

    def start(self, now: Instant) -> list[Output]:
        return self.on_start()

    def connected(self, now: Instant) -> list[Output]:
        return self.on_connected()

    def handle(self, item: object, now: Instant) -> list[Output]:
        self.handled.append(item)
        return list(self.on_handle(item))

    def failed(self, item: object, error: Exception, now: Instant) -> list[Output] | None:
        return self.on_failed(item, error)

    def tick(self, now: Instant) -> list[Output]:
        return self.on_tick()

    def close(self) -> None:
        self.closed += 1


def delivery(
    topic: str, body: dict[str, object] | bytes, *, packet_id: int = 1, qos: int = 1, retained: bool = False
) -> Delivery:
    """A message as it comes from the bus; maps are packed."""
    payload = body if isinstance(body, bytes) else pack(body, Wire.MSGPACK)
    return Delivery(topic, payload, retained, qos=qos, connection=1, packet_id=packet_id)
