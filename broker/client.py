"""The bus on MQTT 5: keeps one client connected, and its frames and deliveries in order and in bounds.

One thread reads and reconnects. A publish or an acknowledgement is written to the socket by the thread that makes
it, so that it does not wait for another thread; one lock keeps them apart, and is not held while waiting.
"""

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from broker.backoff import FIRST_S, Backoff
from broker.bus import BusCounts, Connected, Deliver, Delivery, Disconnected, Identity
from broker.connection import Connection, End, Phase, Waker
from broker.frames import TopicPrefix, check_frame, packet_size
from broker.handover import Handover
from broker.options import BrokerOptions
from broker.takeover import TakeoverWatch, taken_over
from broker.tls import ask_why, tls_trouble
from broker.window import Outbox
from schemas.codec import Frame

log = logging.getLogger(__name__)

IDLE_S: Final = 1.0
"""How often the network thread looks at its clocks when nothing happens."""
RETRY_S: Final = 0.05
"""How often a full inbox is offered again what it had no room for."""
LOOK_S: Final = 0.5
"""How long to look for a second instance, which may be slow to speak."""
REFUSED_MAX: Final = 100
"""Topics that are remembered as refused, and told once in the log."""
LEAVE_S: Final = 1.0
"""How long `stop` waits for the network thread to end."""


class MqttBus:
    """A `Bus` on a real broker. See there for what its methods promise.

    `deliver` is called from the network thread. Raises ValueError for TLS files that cannot be used.
    """

    def __init__(self, options: BrokerOptions, identity: Identity, deliver: Deliver) -> None:
        self.counts = BusCounts()
        self._options = options
        self._identity = identity
        self._prefix = TopicPrefix(options.topic_prefix)
        self._tls = options.tls.context() if options.tls else None
        self._birth = self._prefix.add_to(identity.birth) if identity.birth else None
        self._outbox = Outbox(options.queue_frames, options.queue_bytes)
        self._handover = Handover(deliver, self.counts)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waker = Waker()
        self._backoff = Backoff()
        self._takeover = TakeoverWatch(identity)
        self._connection: Connection | None = None
        self._packet_max: int | None = None
        self._announced: str | None = None
        self._connections = 0
        self._was_granted = False
        self._granted_at: float | None = None
        self._stopping = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=f"mqtt-{identity.client_id}", daemon=True)

    def start(self) -> None:
        """Begin to connect in the background; once."""
        self._thread.start()

    def publish(self, frame: Frame) -> bool:
        """Write the frame to the socket, or queue it; see `Bus.publish`."""
        self._takeover.said(frame)
        frame = self._prefix.add_to(frame)
        check_frame(frame, self._packet_max)
        with self._lock:
            if self._stopping or self._ended:
                self.counts.dropped_out += 1
                return False
            dropped = self._outbox.put(frame)
            self.counts.dropped_out += dropped
            self._write()
        return not dropped

    def ack(self, delivery: Delivery) -> None:
        """Acknowledge a delivery of the present connection."""
        with self._lock:
            connection = self._connection
            if not delivery.qos or connection is None or connection.number != delivery.connection:
                return
            with self._writing(connection):
                connection.ack(delivery.packet_id)

    def stop(self, last: Frame | None = None, drain_s: float = 2.0) -> None:
        """Drain, say `last`, and leave; if the broker did not acknowledge all in time, it says the will.

        Returns within `drain_s` and about a second.
        """
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            if last is not None:
                self._outbox.put(self._prefix.add_to(last))
                self._write()
            drained = self._changed.wait_for(lambda: self._ended or self._is_drained(), drain_s)
            self._ended = True
            self.counts.dropped_out += self._outbox.clear()
            if self._connection is not None:
                self._connection.leave(with_will=not drained)
        self._waker.wake()
        if self._thread.ident is None:
            self._waker.close()
        else:
            self._thread.join(LEAVE_S)  # a connect under way takes longer, and ends by itself

    def _run(self) -> None:
        while not self._ended:
            try:
                self._conclude(self._examined(self._attempt()))
            except BaseException:
                # Whatever tried to end this thread: a bus that looks alive and hears nothing is worse.
                log.exception("the network thread of %s failed and goes on", self._identity.client_id)
                time.sleep(FIRST_S)
        self._waker.close()

    def _attempt(self) -> End:
        """Connect once, and serve the connection to its end."""
        self._connections += 1
        self._granted_at = None
        connection = Connection(
            self._connections, self._options, self._identity, self._handover.offer, self._acknowledged
        )
        try:
            connection.open(self._tls)
            with self._lock:
                self._connection = connection
            while connection.end is None and not self._ended:
                connection.wait(self._waker, RETRY_S if self._handover.waiting else IDLE_S)
                with self._lock:
                    self._advance(connection)
        except OSError as error:
            if why := tls_trouble(error):
                return self._refused(why)
            return End(
                f"cannot reach the broker {self._options}: {error}", unanswered=isinstance(error, ConnectionError)
            )
        except Exception as error:
            log.exception("serving the connection of %s failed", self._identity.client_id)
            return End(f"serving the connection to {self._options} failed: {error!r}")
        finally:
            with self._lock:
                self._connection = None
                connection.abandon()
                self.counts.dropped_out += self._outbox.connection_lost()
        return connection.end or End("stopped")

    def _refused(self, why: str) -> End:
        return End(f"the broker {self._options} refuses us: {why}")

    def _examined(self, end: End) -> End:
        """Perhaps our certificate is why there was no answer."""
        if self._tls is not None and end.unanswered and not self._ended:
            why = ask_why(self._options.host, self._options.port, self._tls, LOOK_S)
            return self._refused(why) if why else end
        return end

    def _advance(self, connection: Connection) -> None:
        before = connection.phase
        connection.step()
        if connection.end is None and connection.phase is Phase.ACCEPTED:
            self._greet(connection)
        if connection.phase is Phase.GRANTED and before is not Phase.GRANTED:
            self._granted(connection)
        self._handover.retry()
        self._write()
        if self._stopping and self._is_drained():
            self._changed.notify_all()

    def _greet(self, connection: Connection) -> None:
        """The birth comes first, so that nothing we say precedes it."""
        self._packet_max = connection.packet_max
        if self._birth is not None:
            check_frame(self._birth, self._packet_max)
            packet_id = connection.send(self._birth)
            if self._birth.qos:
                self._outbox.sent_besides(packet_id)
        connection.subscribe()

    def _granted(self, connection: Connection) -> None:
        self._outbox.connected(connection.server_window)
        self.counts.refused.clear()
        self.counts.reconnects += self._was_granted
        self._was_granted = True
        self._granted_at = time.monotonic()
        self._takeover.granted(self._granted_at)
        self._announced = None
        log.info("%s connected to %s", self._identity.client_id, self._options)
        self._handover.offer(Connected(connection.number, connection.session_present))

    def _write(self) -> None:
        """Send what the window and the socket have room for."""
        connection = self._connection
        if connection is None or connection.phase is not Phase.GRANTED:
            return
        with self._writing(connection):
            while connection.end is None and not connection.congested and (frame := self._outbox.head()):
                self._write_head(connection, frame)

    def _write_head(self, connection: Connection, frame: Frame) -> None:
        if self._packet_max is not None and packet_size(frame) > self._packet_max:
            # Queued while the limit was unknown. Sent, it would end this connection and each one after it.
            self._drop_head(
                frame, f"{packet_size(frame)} bytes are above the broker's limit of {self._packet_max}"
            )
            return
        try:
            packet_id = connection.send(frame)
        except ValueError as error:  # nothing that `check_frame` lets through; kept, it would come up for ever
            self._drop_head(frame, str(error))
            return
        self._outbox.sent(packet_id)
        self.counts.published += not frame.qos

    def _drop_head(self, frame: Frame, why: str) -> None:
        log.error("dropped a message for %s, which can never be sent: %s", frame.topic, why)
        self.counts.dropped_out += 1
        self._outbox.discard_head()

    @contextmanager
    def _writing(self, connection: Connection) -> Iterator[None]:
        """Whatever goes wrong costs the connection, not the caller; its frames are queued again.

        The caller is a component's worker, which a bug in paho or here would otherwise end.
        """
        try:
            yield
        except Exception:
            log.exception("writing to the connection of %s failed", self._identity.client_id)
            connection.abandon()
        if threading.current_thread() is not self._thread and (connection.end or connection.congested):
            self._waker.wake()  # the network thread waits to read, and has more to do now

    def _acknowledged(self, packet_id: int, refusal: str | None) -> None:
        topic = self._outbox.topic_of(packet_id)
        if not self._outbox.acknowledged(packet_id):
            return
        if refusal is None:
            self.counts.published += 1
            if topic in self.counts.refused:
                del self.counts.refused[topic]
            return
        self.counts.negative_acks += 1
        if topic is None:
            if self._connection is not None:
                self._connection.refuse_birth(refusal)
        elif topic not in self.counts.refused and len(self.counts.refused) < REFUSED_MAX:
            self.counts.refused[topic] = refusal
            log.error("the broker does not let %s publish on %s: %s", self._identity.client_id, topic, refusal)

    def _is_drained(self) -> bool:
        return self._outbox.idle and not (self._connection and self._connection.congested)

    def _conclude(self, end: End) -> None:
        """Tell the component, unless it was told the same, and pause before the next try, if one is left."""
        self._handover.connection_lost()
        if self._ended:
            return
        now = time.monotonic()
        if not end.silent:
            self._takeover.explained()
        elif self._takeover.ended_silently(now) and self._another_speaks_for_us():
            end = End(taken_over(self._identity.client_id), fatal=True)
        if end.fatal:
            self._end()
        if end.fatal or end.reason != self._announced:
            log.log(
                logging.ERROR if end.fatal else logging.WARNING, "%s: %s", self._identity.client_id, end.reason
            )
            self._announced = end.reason
            self._handover.offer(Disconnected(end.reason, end.fatal))
        self._rest(now + self._backoff.pause(0.0 if self._granted_at is None else now - self._granted_at))

    def _another_speaks_for_us(self) -> bool:
        """Look under another client id at what we said last; see `broker.takeover`."""
        wanted = self._takeover.subscription
        if wanted is None:
            return False
        onlooker = Identity(f"{self._identity.client_id}-{uuid.uuid4().hex[:8]}", (wanted,))
        heard: list[Delivery] = []
        options = replace(self._options, connect_timeout_s=LOOK_S)
        look = Connection(0, options, onlooker, heard.append, lambda _packet_id, _refusal: None)
        until = time.monotonic() + LOOK_S
        try:
            look.open(self._tls)
            while look.end is None and not self._ended and (left_s := until - time.monotonic()) > 0:
                if any(self._takeover.is_foreign(each) for each in heard):
                    break
                look.wait(self._waker, left_s)
                look.step()
                if look.phase is Phase.ACCEPTED:
                    look.subscribe()
        except OSError:
            log.debug("nothing to be seen at %s", self._options, exc_info=True)
        finally:
            look.leave(with_will=False)
            look.abandon()
        return any(self._takeover.is_foreign(each) for each in heard)

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            self.counts.dropped_out += self._outbox.clear()
            self._changed.notify_all()

    def _rest(self, until: float) -> None:
        while (self._handover.waiting and not self._stopping) or (not self._ended and time.monotonic() < until):
            left_s = max(0.0, until - time.monotonic())
            self._waker.wait(RETRY_S if self._handover.waiting else left_s)
            self._handover.retry()
