"""The broker: sessions, retained messages, wills, acknowledgements; and how each of them is lost.

Every frame travels on its own: what one client publishes on one topic stays in order, topics overtake each other.
"""

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from broker.bus import BusEvent, Connected, Delivery, Disconnected, Identity
from schemas.codec import Frame, decode
from tests.simulation.world import World

UNSURE_S: Final = 1.0
"""How long a frame may have arrived without its sender, or been acknowledged without the broker, knowing it."""


once = lru_cache(maxsize=1024)(decode)
"""What a frame says, read once."""


@dataclass
class Weather:
    """How badly frames travel."""

    slow: float = 0.02
    """Share of frames that take long."""
    slow_s: float = 2.0
    doubled: float = 0.02


@dataclass(eq=False)
class _Transit:
    frame: Frame
    sent: float
    arrives: bool = True


@dataclass(eq=False)
class Session:
    """What the broker keeps of a client."""

    client_id: str
    persistent: bool
    filters: tuple[tuple[str, ...], ...]
    link: "Link | None" = None
    waiting: dict[int, tuple[str, Frame]] = field(default_factory=dict)
    """Sender and frame by packet id: not acknowledged yet, in order."""
    acked: deque[tuple[float, int, tuple[str, Frame]]] = field(default_factory=deque)
    channels: dict[str, float] = field(default_factory=dict)
    topics: dict[str, bool] = field(default_factory=dict)

    def wants(self, topic: str) -> bool:
        """Whether a filter takes this topic."""
        known = self.topics.get(topic)
        if known is None:
            levels = topic.split("/")
            known = self.topics[topic] = any(_takes(one, levels) for one in self.filters)
        return known

    def copy(self) -> "Session":
        """What a broker that saved now would find again."""
        return Session(self.client_id, self.persistent, self.filters, waiting=dict(self.waiting))


def _takes(pattern: tuple[str, ...], levels: list[str]) -> bool:
    return len(pattern) == len(levels) and all(p in ("+", level) for p, level in zip(pattern, levels, strict=True))


class Broker:
    """One broker for all; up or down, and forgetful when told."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.weather = Weather()
        self.up = True
        self.life = 0
        self.retained: dict[str, tuple[str, Frame]] = {}
        self.sessions: dict[str, Session] = {}
        self.links: list[Link] = []
        self.saved: tuple[dict[str, tuple[str, Frame]], dict[str, Session]] = ({}, {})
        self._packets = itertools.count(1)
        self.connections = itertools.count(1)

    def delay(self) -> float:
        """Seconds one frame takes on one hop."""
        rng = self.world.rng
        if rng.random() < self.weather.slow:
            return rng.random() * self.weather.slow_s
        return 0.001 + rng.random() * 0.01

    def attach(self, link: "Link") -> bool:
        """Open the session of a client; whether it was there before. Another holder of its id is thrown out."""
        identity = link.identity
        session = self.sessions.get(identity.client_id)
        if session is not None and session.link is not None:
            self.world.note("broker: {} is taken over by a second one", identity.client_id)
            session.link.lost("taken over by a second instance", fatal=True)
            session = self.sessions.get(identity.client_id)
        present = session is not None
        filters = tuple(tuple(one.filter.split("/")) for one in identity.subscriptions)
        if session is None or not identity.persistent:
            session = Session(identity.client_id, identity.persistent, filters)
            self.sessions[identity.client_id] = session
        session.link, link.session = link, session
        session.channels.clear()
        for packet, (sender, frame) in session.waiting.items():
            self._send(session, packet, sender, frame, retained=False)
        for topic, (sender, frame) in list(self.retained.items()):
            if session.wants(topic):
                self._enqueue(session, sender, frame, retained=True)
        return present

    def arrived(self, sender: str, frame: Frame) -> None:
        """Take a frame in, keep it if retained, and pass it on."""
        if frame.retain:
            if frame.payload:
                self.retained[frame.topic] = (sender, frame)
            else:
                self.retained.pop(frame.topic, None)
        topic = frame.topic
        for session in [s for s in self.sessions.values() if s.topics.get(topic, True) and s.wants(topic)]:
            self._enqueue(session, sender, frame, retained=False)

    def acknowledged(self, session: Session, packet: int) -> None:
        """Forget a delivered message."""
        kept = session.waiting.pop(packet, None)
        if kept is not None:
            session.acked.append((self.world.now, packet, kept))
            while session.acked and session.acked[0][0] < self.world.now - UNSURE_S:
                session.acked.popleft()

    def detach(self, session: Session) -> None:
        """Keep what a persistent session shall find again; some of the last acknowledgements are lost."""
        session.link = None
        if not session.persistent:
            self.sessions.pop(session.client_id, None)
            return
        unsure = [a for a in session.acked if a[0] >= self.world.now - UNSURE_S]
        lost = unsure[self.world.rng.randint(0, len(unsure)) :]
        session.acked.clear()
        session.waiting = dict(sorted({**{p: kept for _, p, kept in lost}, **session.waiting}.items()))

    def _enqueue(self, session: Session, sender: str, frame: Frame, *, retained: bool) -> None:
        packet = next(self._packets)
        if frame.qos and (session.persistent or session.link is not None):
            session.waiting[packet] = (sender, frame)
        if session.link is not None:
            self._send(session, packet, sender, frame, retained=retained)

    def _send(self, session: Session, packet: int, sender: str, frame: Frame, *, retained: bool) -> None:
        link = session.link
        if link is None:
            return
        channel = frame.topic  # a broker keeps the order of one topic towards one subscriber
        for copy in range(2 if frame.qos and self.world.chance(self.weather.doubled) else 1):
            when = max(session.channels.get(channel, 0.0), self.world.now + self.delay())
            session.channels[channel] = when
            number = packet if copy == 0 else 0
            self.world.at(when, link.receive, link.connection, number, frame, retained)

    # Faults.

    def save(self) -> None:
        """Write state to disk, as a broker does every few seconds."""
        if self.up:
            self.saved = (dict(self.retained), {k: s.copy() for k, s in self.sessions.items() if s.persistent})

    def go_down(self, keeps: str) -> None:
        """Stop serving. `keeps`: "all" of its state, what was "saved", or "nothing"."""
        self.world.note("FAULT broker goes down and keeps {}", keeps)
        self.up = False
        self.life += 1
        for link in list(self.links):
            if link.connected:
                link.lost("the broker went away", will=False)
        if keeps == "nothing":
            self.retained, self.sessions = {}, {}
        elif keeps == "saved":
            self.retained, self.sessions = dict(self.saved[0]), {k: s.copy() for k, s in self.saved[1].items()}
        self.saved = (dict(self.retained), {k: s.copy() for k, s in self.sessions.items() if s.persistent})

    def come_up(self) -> None:
        """Serve again."""
        if not self.up:
            self.world.note("broker is back")
            self.up = True


class Link:
    """One process's connection to the broker. Keeps trying while its process lives."""

    def __init__(self, broker: Broker, identity: Identity, deliver: Callable[[BusEvent], Any]) -> None:
        self.broker = broker
        self.world = broker.world
        self.identity = identity
        self.deliver = deliver
        self.session: Session | None = None
        self.connected = False
        self.connection = 0
        self.open = True
        self.partitioned = False
        self._outbox: list[Frame] = []
        self._transit: deque[_Transit] = deque()
        self._channels: dict[str, float] = {}
        broker.links.append(self)

    def connect(self) -> None:
        """Connect now, or try again later."""
        if not self.open or self.connected:
            return
        if not self.broker.up or self.partitioned:
            self.world.after(0.1 + self.world.rng.random() * 2, self.connect)
            return
        self.connection = next(self.broker.connections)
        self.connected = True
        self._channels.clear()
        present = self.broker.attach(self)
        resent, self._outbox = self._outbox, []
        if self.identity.birth is not None:
            self.publish(self.identity.birth)
        for frame in resent:
            self.publish(frame)
        self.deliver(Connected(self.connection, present))

    def publish(self, frame: Frame) -> None:
        """Send a frame, or keep it until there is a connection."""
        if not self.open:
            return
        if not self.connected:
            if frame.qos:
                self._outbox.append(frame)
            return
        now = self.world.now
        while self._transit and self._transit[0].sent < now - self.broker.weather.slow_s - UNSURE_S:
            self._transit.popleft()
        when = max(self._channels.get(frame.topic, 0.0), now + self.broker.delay())
        self._channels[frame.topic] = when
        transit = _Transit(frame, now)
        self._transit.append(transit)
        self.world.at(when, self._arrive, transit, self.broker.life)

    def _arrive(self, transit: _Transit, life: int) -> None:
        if transit.arrives and self.broker.up and self.broker.life == life:
            transit.sent = min(transit.sent, self.world.now - self.broker.weather.slow_s)  # known to be there soon
            self.broker.arrived(self.identity.client_id, transit.frame)
            transit.arrives = False

    def receive(self, connection: int, packet: int, frame: Frame, retained: bool) -> None:
        """Take a delivery of the present connection."""
        if self.open and self.connected and connection == self.connection:
            self.deliver(Delivery(frame.topic, frame.payload, retained, frame.qos, connection, packet))

    def ack(self, delivery: Delivery) -> None:
        """Acknowledge, unless the connection changed."""
        if self.connected and delivery.connection == self.connection and self.session is not None:
            self.broker.acknowledged(self.session, delivery.packet_id)

    def lost(self, reason: str, *, will: bool = True, fatal: bool = False) -> None:
        """The connection breaks; what was under way may have arrived or not, and is sent again."""
        if not self.connected:
            return
        self._cut(resend=not fatal)
        self._part(will=will)
        if self.open:
            self.deliver(Disconnected(reason, fatal))
            if not fatal:
                self.world.after(0.1 + self.world.rng.random() * 2, self.connect)

    def vanish(self) -> None:
        """The process died: the system closes the connection, the last of what it said may be lost."""
        self.open = False
        if self in self.broker.links:
            self.broker.links.remove(self)
        if self.connected:
            self._cut(resend=False)
            self._part(will=True)

    def _part(self, *, will: bool) -> None:
        self.connected = False
        if self.session is not None and self.session.link is self:
            self.broker.detach(self.session)
        if will and self.identity.will is not None:
            self.world.after(self.world.rng.random() * 0.5, self._say_will, self.identity.will, self.broker.life)

    def _say_will(self, will: Frame, life: int) -> None:
        if self.broker.up and self.broker.life == life:
            self.broker.arrived(f"will of {self.identity.client_id}", will)

    def _cut(self, *, resend: bool) -> None:
        under_way = list(self._transit)
        self._transit.clear()
        cut = self.world.rng.randint(0, len(under_way))
        for number, transit in enumerate(under_way):
            if number < cut:
                self._arrive(transit, self.broker.life)  # it was in the broker's buffers already
            transit.arrives = False
            if resend and transit.frame.qos:
                self._outbox.append(transit.frame)
