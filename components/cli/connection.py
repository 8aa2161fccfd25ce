"""A session of a command's own on the broker."""

import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from broker.bus import BusEvent, Connected, Delivery, Disconnected, Identity, Subscription
from components.cli.errors import CliError
from components.cli.identity import IDENTITY_VARIABLE, connector, options_of
from components.settings import BrokerSettings
from components.shell.inbox import Inbox
from components.shell.shell import Connect
from schemas.codec import Cleared, Decoded, clear, decode, encode
from schemas.message import Message
from schemas.topics import topic_of

CONNECT_WITHIN_S: Final = 10.0
QUIET_S: Final = 0.3
"""Retained messages have all come when none came for so long, or for `QUIET_CONNECTS` if that is longer."""
QUIET_CONNECTS: Final = 3
"""Brokers send them in windows, so between two of them may be a round trip; a connect takes three."""
QUIET_MAX_S: Final = 10.0
"""No line is so slow that quiet must last longer."""
COLLECT_WITHIN_S: Final = 60.0
"""How long retained messages may go on coming for who wants all of them,"""
BEGIN_WITHIN_S: Final = 10.0
"""and for who goes on listening anyway."""
REFUSAL_S: Final = 0.2
"""How soon a command that published notices that the broker refused it."""


@dataclass(frozen=True)
class Heard:
    """One message that came."""

    topic: str
    payload: bytes
    retained: bool

    @property
    def decoded(self) -> Decoded:
        """What it says."""
        return decode(self.topic, self.payload)


class Session:
    """A short-lived connection of a command, clean and under a name that nobody else has.

    Used as a context manager; entering it connects, or raises CliError.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        subscriptions: Sequence[Subscription],
        connect: Connect | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`connect` makes the bus, if not the one on MQTT. Raises UsageError for settings nobody can use."""
        self._clock = clock
        self._options = options_of(settings)
        self._wire = settings.wire
        self._inbox = Inbox()
        self._early: deque[Delivery] = deque()
        self._said = False
        self._quiet_s = QUIET_S
        client_id = f"piriscale-cli-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._bus = (connect or connector(self._options))(
            Identity(client_id, tuple(subscriptions)), self._inbox.deliver
        )
        self.connected = False
        self.problem = ""
        """Why there is no connection, when there is none."""

    def __enter__(self) -> Self:
        """Connect. Raises CliError when that is not possible."""
        began = self._clock()
        self._bus.start()
        try:
            self._connect()
            self._quiet_s = quiet_after(self._clock() - began)
        except BaseException:
            self._bus.stop(drain_s=0)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect, after all that was published has been acknowledged."""
        self._bus.stop()

    @property
    def no_connection(self) -> str:
        """That there is no connection, and why, in words; empty while there is one."""
        return "" if self.connected else f"no connection to the broker: {self.problem}"

    @property
    def broker(self) -> str:
        """Where it connects to, in words."""
        return str(self._options)

    @property
    def dropped(self) -> int:
        """Messages that came faster than they were read, and were lost."""
        return self._bus.counts.dropped_in

    @property
    def refused(self) -> int:
        """Publications that the broker refused."""
        return self._bus.counts.negative_acks

    def wake(self) -> None:
        """Let `receive` return now, from any thread."""
        self._inbox.put(None)

    def publish(self, message: Message) -> None:
        """Send a message, stamped with what its author left out."""
        stamp = {"id": message.id or uuid.uuid4().hex, "ts": time.time_ns() // 1_000_000, "source": "cli"}
        self._said = True
        self._bus.publish(encode(message, self._wire, stamp))

    def clear(self, cleared: Cleared) -> None:
        """Delete a retained topic."""
        self._said = True
        self._bus.publish(clear(cleared))

    def receive(self, timeout_s: float) -> Heard | None:
        """The next message, or None after at most `timeout_s`, or when the connection changed.

        Raises CliError when the connection is lost for good, or the broker refused what was published.
        """
        if self._bus.counts.refused:
            raise CliError(self._refusal())
        if self._said:  # it may be refused at any moment now
            timeout_s = min(timeout_s, REFUSAL_S)
        event = self._early.popleft() if self._early else self._inbox.take(timeout_s)
        if not isinstance(event, Delivery):
            self._note(event)
            return None
        self._bus.ack(event)
        return Heard(event.topic, event.payload, event.retained)

    def until(self, deadline: float) -> Iterator[Heard]:
        """Messages as they come, until a moment of its clock."""
        while (left_s := deadline - self._clock()) > 0:
            heard = self.receive(left_s)
            if heard is not None:
                yield heard

    def retained(self, *, whole: bool = True) -> Iterator[Heard]:
        """All retained messages of the subscriptions, and what else comes meanwhile; ends when it is quiet.

        Raises CliError when the connection is lost before that, or they still come after `COLLECT_WITHIN_S`,
        unless a part will do.
        """
        deadline = self._clock() + (COLLECT_WITHIN_S if whole else BEGIN_WITHIN_S)
        quiet_from = self._clock() + self._quiet_s
        while (left_s := min(quiet_from, deadline) - self._clock()) > 0:
            before = self.connected
            heard = self.receive(left_s)
            if heard is not None:
                yield heard
            if (self.connected and not before) or (heard is not None and heard.retained):
                quiet_from = self._clock() + self._quiet_s  # what the caller took is not counted as quiet
        if not whole:
            return
        problem = self.no_connection
        if not problem and quiet_from > deadline:
            problem = f"more still comes after {COLLECT_WITHIN_S:g} s; is the line to {self.broker} very slow?"
        if problem:
            raise CliError(f"what the broker keeps was not heard to its end: {problem}")

    def _refusal(self) -> str:
        topic, reason = next(iter(self._bus.counts.refused.items()))
        return (
            f"the broker does not let this identity publish on {topic}: {reason}. With certificates cli/NAME may "
            "scale and pause, admin/NAME may also release and forget-node; commands act as what "
            f"{IDENTITY_VARIABLE} says, else as cli/USER"
        )

    def _connect(self) -> None:
        deadline = self._clock() + CONNECT_WITHIN_S
        while not self.connected:
            event = self._inbox.take(deadline - self._clock())
            if event is None:
                raise CliError(f"the broker {self._options} does not answer; see `piriscale doctor`")
            if isinstance(event, Delivery):  # brokers may send what is retained before they grant the subscription
                self._early.append(event)
                continue
            self._note(event)
            if isinstance(event, Disconnected):
                raise CliError(f"{event.reason}; `piriscale up` starts a broker, `piriscale doctor` tells more")

    def _note(self, event: BusEvent | object) -> None:
        if isinstance(event, Connected):
            self.connected = True
        elif isinstance(event, Disconnected):
            self.connected = False
            self.problem = event.reason
            if event.fatal:
                raise CliError(event.reason)


def quiet_after(connect_s: float) -> float:
    """How long no retained message may come before all have come, seconds, where connecting took so long."""
    return min(max(QUIET_S, QUIET_CONNECTS * connect_s), QUIET_MAX_S)


def subscriptions_to(*messages: type[Message], qos: int = 1) -> tuple[Subscription, ...]:
    """Subscriptions to all topics of these messages."""
    return tuple(Subscription(topic_of(message).filter(), qos) for message in messages)
