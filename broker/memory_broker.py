"""The in-process twin of a broker: retained messages, sessions, wills, routing, and the faults of all these."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.bus import Subscription
from broker.frames import matches
from broker.takeover import taken_over
from schemas.codec import Frame

if TYPE_CHECKING:
    from broker.memory import MemoryBus

RECEIVE_MAXIMUM: Final = 100
SESSION_MAX: Final = 100_000
"""Messages that wait for one client; more are lost, as at a real broker."""


@dataclass
class _Session:
    """What the broker knows of a client: subscriptions, what waits for it, and what it has not acknowledged."""

    client_id: str
    subscriptions: tuple[Subscription, ...] = ()
    waiting: deque[Frame] = field(default_factory=deque)
    unacknowledged: dict[int, Frame] = field(default_factory=dict)
    last_packet_id: int = 0

    def interrupted(self) -> None:
        """Put first, to be delivered again, what was delivered and not acknowledged."""
        self.waiting.extendleft(reversed(self.unacknowledged.values()))
        self.unacknowledged.clear()

    def next(self) -> tuple[int, Frame] | None:
        """What may be delivered now, under a new packet id."""
        if not self.waiting or len(self.unacknowledged) >= RECEIVE_MAXIMUM:
            return None
        self.last_packet_id = self.last_packet_id % 65_535 + 1
        frame = self.unacknowledged[self.last_packet_id] = self.waiting.popleft()
        return self.last_packet_id, frame


class MemoryBroker:
    """Serves `MemoryBus`es, and fails when told to. `packet_max` is in bytes, as in `check_frame`."""

    def __init__(self, packet_max: int | None = None) -> None:
        self.packet_max = packet_max
        self.running = True
        self._lock = threading.RLock()
        self._retained: dict[str, Frame] = {}
        self._sessions: dict[str, _Session] = {}
        self._known: list[MemoryBus] = []
        self._connected: dict[str, MemoryBus] = {}
        self._todo: deque[Callable[[], None]] = deque()
        self._working = False

    @property
    def retained(self) -> Mapping[str, Frame]:
        """Retained messages by topic, prefixes included."""
        return dict(self._retained)

    def drop(self, client_id: str) -> None:
        """Break a client's connection; it stays away until `reconnect`, and the broker publishes its will."""
        with self.turn():
            bus = self._connected[client_id]
            bus.kept_away = True
            self._break(bus, "connection lost")

    def reconnect(self, client_id: str) -> None:
        """Let a dropped client connect again."""
        with self.turn():
            for bus in [bus for bus in self._known if bus.kept_away and bus.identity.client_id == client_id]:
                bus.kept_away = False
                self.attach(bus)

    def stop(self) -> None:
        """The broker goes away, and keeps sessions and retained messages for its return."""
        with self.turn():
            self.running = False
            for bus in list(self._connected.values()):
                self._break(bus, "the broker went away", with_will=False)

    def start(self) -> None:
        """The broker is back, and so are all clients that were not dropped."""
        with self.turn():
            self.running = True
            for bus in [bus for bus in self._known if not bus.kept_away]:
                self.attach(bus)

    def forget_everything(self) -> None:
        """The broker loses sessions and retained messages, as when it restarts without its database."""
        with self.turn():
            was_running = self.running
            self.stop()
            self._sessions.clear()
            self._retained.clear()
            if was_running:
                self.start()

    def hold_acks(self, client_id: str) -> None:
        """Take what this client publishes, but acknowledge nothing until `release_acks`, or a new connection."""
        with self.turn():
            self._connected[client_id].acks_held = True

    def release_acks(self, client_id: str) -> None:
        """Acknowledge what was held back, and go on as usual."""
        with self.turn():
            self._connected[client_id].release_acks()

    def attach(self, bus: "MemoryBus") -> None:
        """A client connects, and takes over from an older one with its client id; for `MemoryBus`."""
        if bus not in self._known:
            self._known.append(bus)
        client_id = bus.identity.client_id
        if not self.running:
            bus.disconnected("the broker cannot be reached")
            return
        if client_id in self._connected:
            older = self._connected[client_id]
            self._known.remove(older)
            self._break(older, taken_over(client_id), fatal=True)
        present = client_id in self._sessions
        session = self._sessions.setdefault(client_id, _Session(client_id))
        self._connected[client_id] = bus
        bus.accepted()
        self._flow(session)
        if bus.birth is not None:
            self.accept(bus.birth)
        number = bus.connection
        self._todo.append(lambda: self._subscribe(bus, number, session))
        self._todo.append(lambda: bus.granted(number, session_present=present))

    def detach(self, bus: "MemoryBus", *, with_will: bool) -> None:
        """A client leaves for good; for `MemoryBus`."""
        if bus in self._known:
            self._known.remove(bus)
        if self._connected.get(bus.identity.client_id) is bus:
            self._close(bus, with_will=with_will)

    def accept(self, frame: Frame) -> None:
        """Take a published frame: retain it if asked, and route it to all who subscribed; for `MemoryBus`."""
        self._todo.append(lambda: self._route(frame))

    def acknowledge(self, client_id: str, packet_id: int) -> None:
        """A client has done the work of a delivery; for `MemoryBus`."""
        session = self._sessions[client_id]
        if session.unacknowledged.pop(packet_id, None) is not None:
            self._todo.append(lambda: self._flow(session))

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Do one thing at a time: what a delivery causes comes after the delivery, not inside it."""
        with self._lock:
            yield
            if self._working:
                return
            self._working = True
            try:
                while self._todo:
                    self._todo.popleft()()
            finally:
                self._working = False

    def _break(self, bus: "MemoryBus", reason: str, *, with_will: bool = True, fatal: bool = False) -> None:
        self._close(bus, with_will=with_will)
        bus.disconnected(reason, fatal=fatal)

    def _close(self, bus: "MemoryBus", *, with_will: bool) -> None:
        client_id = bus.identity.client_id
        del self._connected[client_id]
        if bus.identity.persistent:
            self._sessions[client_id].interrupted()
        else:
            del self._sessions[client_id]
        if with_will and bus.will is not None:
            self.accept(bus.will)

    def _subscribe(self, bus: "MemoryBus", number: int, session: _Session) -> None:
        if self._connected.get(session.client_id) is not bus or bus.connection != number:
            return
        wanted = bus.subscriptions
        session.subscriptions = (*(old for old in session.subscriptions if old not in wanted), *wanted)
        for subscription in wanted:
            for topic, frame in self._retained.items():
                if matches(subscription.filter, topic):
                    self._give(session, Frame(topic, frame.payload, min(frame.qos, subscription.qos), retain=True))

    def _route(self, frame: Frame) -> None:
        if frame.retain:
            self._retained.pop(frame.topic, None)
            if frame.payload:
                self._retained[frame.topic] = frame
        for session in list(self._sessions.values()):
            for subscription in session.subscriptions:
                if matches(subscription.filter, frame.topic):
                    self._give(session, Frame(frame.topic, frame.payload, min(frame.qos, subscription.qos)))

    def _give(self, session: _Session, frame: Frame) -> None:
        bus = self._connected.get(session.client_id)
        if frame.qos == 0:
            if bus is not None:
                bus.receive(frame)
        elif len(session.waiting) < SESSION_MAX:
            session.waiting.append(frame)
            self._flow(session)

    def _flow(self, session: _Session) -> None:
        bus = self._connected.get(session.client_id)
        while bus is not None and (following := session.next()):
            packet_id, frame = following
            bus.receive(frame, packet_id)
