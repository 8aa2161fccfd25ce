"""The in-process twin of the client and, from `memory_broker`, of the broker: the same promises, without waiting.

All that a call causes has happened when it returns, in an order that depends on nothing else; so a simulator can
run components on it, and hold back, lose or reorder what their `deliver` is given.
"""

from broker.bus import BusCounts, Connected, Deliver, Delivery, Disconnected, Identity, Subscription
from broker.frames import TopicPrefix, check_frame, packet_size
from broker.handover import Handover
from broker.memory_broker import MemoryBroker
from broker.window import QUEUE_FRAMES, WINDOW, Outbox
from schemas.codec import Frame

__all__ = ["MemoryBroker", "MemoryBus"]


class MemoryBus:
    """A `Bus` on a `MemoryBroker`. See there for what its methods promise."""

    def __init__(
        self,
        broker: MemoryBroker,
        identity: Identity,
        deliver: Deliver,
        topic_prefix: str = "",
        queue_frames: int = QUEUE_FRAMES,
    ) -> None:
        prefix = TopicPrefix(topic_prefix)
        self.counts = BusCounts()
        self.identity = identity
        self.birth = prefix.add_to(identity.birth) if identity.birth else None
        self.will = prefix.add_to(identity.will) if identity.will else None
        self.subscriptions = tuple(Subscription(prefix.add(one.filter), one.qos) for one in identity.subscriptions)
        self.kept_away = False
        self.acks_held = False
        self._prefix = prefix
        self._broker = broker
        self._outbox = Outbox(queue_frames)
        self._handover = Handover(deliver, self.counts)
        self.connection = 0
        self._connected = False
        self._granted = False
        self._ended = False
        self._announced: str | None = None
        self._packet_max: int | None = None
        self._last_packet_id = 0
        self._held: list[int] = []

    @property
    def in_flight(self) -> int:
        """QoS 1 frames that the broker did not acknowledge yet."""
        return self._outbox.in_flight

    def start(self) -> None:
        """Connect, or wait for the broker to run."""
        with self._broker.turn():
            self._broker.attach(self)

    def publish(self, frame: Frame) -> bool:
        """Give the frame to the broker, or queue it; see `Bus.publish`."""
        frame = self._prefix.add_to(frame)
        check_frame(frame, self._packet_max)
        with self._broker.turn():
            dropped = 1 if self._ended else self._outbox.put(frame)
            self.counts.dropped_out += dropped
            self._write()
        return not dropped

    def ack(self, delivery: Delivery) -> None:
        """Acknowledge a delivery of the present connection."""
        with self._broker.turn():
            if delivery.qos and self._connected and delivery.connection == self.connection:
                self._broker.acknowledge(self.identity.client_id, delivery.packet_id)
            self._handover.retry()

    def stop(self, last: Frame | None = None, drain_s: float = 2.0) -> None:
        """Say `last` and leave, without waiting; with frames unacknowledged the broker says the will."""
        with self._broker.turn():
            if self._ended:
                return
            if last is not None:
                self._outbox.put(self._prefix.add_to(last))
                self._write()
            self._broker.detach(self, with_will=not self._outbox.idle)
            self._end()

    def accepted(self) -> None:
        """The broker took the connection; for `MemoryBroker`, like what follows."""
        self._connected = True
        self.connection += 1
        self._packet_max = self._broker.packet_max

    def granted(self, connection: int, *, session_present: bool) -> None:
        """The broker granted all subscriptions of this connection."""
        if not self._connected or connection != self.connection:
            return
        self._granted = True
        self._outbox.connected(WINDOW)
        self.counts.reconnects += self.connection > 1
        self._announced = None
        self._handover.offer(Connected(self.connection, session_present))
        self._write()

    def receive(self, frame: Frame, packet_id: int = 0) -> None:
        """A message came; without packet id for QoS 0."""
        self._handover.retry()
        topic = self._prefix.strip(frame.topic)
        if topic is None:
            self._broker.acknowledge(self.identity.client_id, packet_id)
            return
        delivery = Delivery(topic, frame.payload, frame.retain, frame.qos, self.connection, packet_id)
        self._handover.offer(delivery)

    def release_acks(self) -> None:
        """The broker acknowledges what it held back."""
        self.acks_held = False
        for packet_id in self._held:
            self._acknowledged(packet_id)
        self._held.clear()
        self._write()

    def disconnected(self, reason: str, *, fatal: bool = False) -> None:
        """The connection is gone, or could not be made."""
        self._connected = self._granted = self.acks_held = False
        self._held.clear()
        self.counts.dropped_out += self._outbox.connection_lost()
        self._handover.connection_lost()
        if fatal:
            self._end()
        if fatal or reason != self._announced:
            self._announced = reason
            self._handover.offer(Disconnected(reason, fatal))

    def _write(self) -> None:
        while self._granted and (frame := self._outbox.head()):
            if self._packet_max is not None and packet_size(frame) > self._packet_max:
                self.counts.dropped_out += 1
                self._outbox.discard_head()
                continue
            self._last_packet_id += 1
            self._outbox.sent(self._last_packet_id)
            self._broker.accept(frame)
            if frame.qos == 0:
                self.counts.published += 1
            elif self.acks_held:
                self._held.append(self._last_packet_id)
            else:
                self._acknowledged(self._last_packet_id)

    def _acknowledged(self, packet_id: int) -> None:
        if self._outbox.acknowledged(packet_id):
            self.counts.published += 1

    def _end(self) -> None:
        self._ended = True
        self.counts.dropped_out += self._outbox.clear()
