"""Whether the broker would lose messages: what it says at CONNACK, and how it behaves where it says nothing."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from broker.bus import Connected, Delivery, Disconnected, Identity, Subscription
from broker.client import MqttBus
from broker.options import BrokerOptions
from broker.probe import REFUSED_FROM, Probe, Promises, ask_to_publish
from broker.window import WINDOW
from components.cli.doctor.finding import Finding, note, ok, wrong
from components.shell.inbox import Inbox
from schemas.codec import MESSAGE_BYTES_MAX, Frame

AREA: Final = "limits"
ANSWER_WITHIN_S: Final = 5.0
PACKET_NEEDED: Final = MESSAGE_BYTES_MAX + 1024
"""Bytes of the largest of our packets: payload, topic and header."""
SESSION_S_MIN: Final = 3600
"""So long a component may be away without losing requests that wait for it."""
QUEUED: Final = 2000
"""Messages that are left to wait for a client that is away; Mosquitto by default keeps 1000 of them."""
QUEUE_TOPIC: Final = "piriscale-doctor"
MARK: Final = b"these were all"
"""Said behind the messages: what comes before it was kept, and what did not come before it never will."""
QUIET_S: Final = 1.0
"""Silence after which the mark is said, since a busy machine is silent for a while, too."""
PATIENCE_S: Final = 4.0
"""Silence, even of the mark, after which nothing can be told."""
COUNT_WITHIN_S: Final = 8.0
TRACE_S: Final = 60
"""The session of the look into the queue would end by itself after that, should we be killed in between."""


def check_losses(options: BrokerOptions, writable: str | None, queued: int = QUEUED) -> list[Finding]:
    """What can be seen from outside.

    `writable`: a topic that this user may write, to try a large message. `queued`: see `look_into_queue`.
    """
    client_id = f"piriscale-doctor-{uuid.uuid4().hex[:8]}"
    try:
        with Probe(options, client_id, ANSWER_WITHIN_S, session_expiry_s=options.session_expiry_s) as probe:
            promises = probe.promises
        findings = judge(promises)
        if writable is not None and (promises.packet_max or PACKET_NEEDED) >= PACKET_NEEDED:
            findings += _try_large(options, client_id, writable)
        findings += look_into_queue(options, queued)
    except OSError as error:
        return [wrong(AREA, f"cannot be asked for: {error}", "see the broker's log")]
    return findings or [
        ok(AREA, f"messages of {MESSAGE_BYTES_MAX // 1024} KiB are taken, and {queued} wait for one who is away")
    ]


def judge(promises: Promises) -> list[Finding]:
    """What the broker promises too little of."""
    return [*_judge_abilities(promises), *_judge_amounts(promises)]


def _judge_abilities(promises: Promises) -> Iterator[Finding]:
    if promises.qos_max == 0:
        yield wrong(
            AREA, "the broker has no QoS 1: messages are lost unnoticed", "set max_qos 2 in its configuration"
        )
    if not promises.retains:
        text = "the broker keeps no retained messages: whoever starts later never hears any state"
        yield wrong(AREA, text, "set retain_available true in its configuration")
    if not promises.wildcards:
        yield wrong(AREA, "the broker refuses wildcards in subscriptions", "allow them in its configuration")


def _judge_amounts(promises: Promises) -> Iterator[Finding]:
    if promises.packet_max is not None and promises.packet_max < PACKET_NEEDED:
        yield wrong(
            AREA,
            f"packets above {promises.packet_max} bytes are refused; large snapshots need {PACKET_NEEDED}",
            "set max_packet_size 2097152 in mosquitto.conf, or remove that line, and restart the broker",
        )
    if promises.receive_maximum < WINDOW:
        yield note(
            AREA,
            f"only {promises.receive_maximum} messages may be in flight: bursts wait, {WINDOW} are used",
            "set max_inflight_messages 100 in mosquitto.conf and restart the broker",
        )
    granted_s = promises.session_expiry_s
    if granted_s is not None and granted_s < SESSION_S_MIN:
        yield wrong(
            AREA,
            f"sessions are kept for {granted_s} s only: requests for a component that is away longer are lost",
            "let the broker keep sessions for a day (its session expiry)",
        )


def _try_large(options: BrokerOptions, client_id: str, topic: str) -> list[Finding]:
    """A message as large as ours can be, which nobody hears."""
    told = ask_to_publish(options, client_id, [topic], b" " * MESSAGE_BYTES_MAX, ANSWER_WITHIN_S)
    if told.get(topic, 0) < REFUSED_FROM:
        return []
    text = f"messages of {MESSAGE_BYTES_MAX} bytes are refused; snapshots of many containers are as large"
    remedy = f"remove message_size_limit from mosquitto.conf, or set it to {MESSAGE_BYTES_MAX}; restart the broker"
    return [wrong(AREA, text, remedy)]


def look_into_queue(options: BrokerOptions, count: int = QUEUED, patience_s: float = PATIENCE_S) -> list[Finding]:
    """Leave small messages to a client of ours that is away, and count what is there when it comes back.

    On a topic that nobody else uses; the client's session is removed at the end. After `patience_s` of silence it
    cannot be told.
    """
    topic = f"{QUEUE_TOPIC}/{uuid.uuid4().hex[:8]}"
    options = replace(options, session_expiry_s=TRACE_S)
    away = Identity(topic.replace("/", "-"), (Subscription(topic),), persistent=True)
    try:
        with _connected(options, away):
            pass
        refused, unanswered = _publish(options, topic, count)
        if refused:
            return [_no_topic()]
        if unanswered:
            return [note(AREA, f"the broker took only {count - unanswered} of {count} messages in the time given")]
        with _connected(options, away) as (bus, inbox):
            arrived, all_came = _count(bus, inbox, topic, count, patience_s)
    except OSError as error:
        return [note(AREA, f"how many messages wait for one who is away cannot be tried: {error}")]
    finally:
        _remove_session(options, away)
    if not all_came:
        return [_too_busy(arrived, count) if arrived else _no_topic()]
    return [] if arrived >= count else [_lost(arrived, count)]


def _no_topic() -> Finding:
    text = "how many messages wait for one who is away cannot be tried: this user has no topic for it"
    return note(AREA, text, f"allow {QUEUE_TOPIC}/# for writing and reading, at least for the doctor")


def _too_busy(arrived: int, count: int) -> Finding:
    text = (
        f"only {arrived} of {count} messages for one who is away came in the time given; whether others are lost"
    )
    return note(AREA, f"{text} cannot be told", "try again when this machine and the broker's are less busy")


def _lost(arrived: int, count: int) -> Finding:
    text = f"of {count} messages for one who is away the broker kept {arrived}, though it acknowledged them all"
    return wrong(AREA, text, "set max_queued_messages 100000 in mosquitto.conf and restart the broker")


@contextmanager
def _connected(options: BrokerOptions, identity: Identity) -> Iterator[tuple[MqttBus, Inbox]]:
    """A connection that stands. Raises OSError when there is none in time."""
    inbox = Inbox()
    bus = MqttBus(options, identity, inbox.deliver)
    bus.start()
    early: list[Delivery] = []
    try:
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while not isinstance(event := inbox.take(deadline - time.monotonic()), Connected):
            if isinstance(event, Disconnected):
                raise OSError(event.reason)
            if event is None:
                raise TimeoutError("the broker does not answer")
            if isinstance(event, Delivery):
                early.append(event)
        for delivery in early:
            inbox.put(delivery)
        yield bus, inbox
    finally:
        bus.stop(drain_s=1.0)


def _publish(options: BrokerOptions, topic: str, count: int) -> tuple[int, int]:
    """How many messages were refused, and how many not acknowledged in time."""
    with _connected(options, Identity(f"{topic.replace('/', '-')}-writer")) as (bus, _):
        for number in range(count):
            bus.publish(Frame(topic, b"%d" % number))
        bus.stop(drain_s=ANSWER_WITHIN_S)
        return bus.counts.negative_acks, count - bus.counts.negative_acks - bus.counts.published


def _count(bus: MqttBus, inbox: Inbox, topic: str, count: int, patience_s: float) -> tuple[int, bool]:
    """How many of the messages came, and whether it is certain that no others will."""
    arrived: set[bytes] = set()
    now = heard = time.monotonic()
    deadline = now + COUNT_WITHIN_S
    while len(arrived) < count and now < min(deadline, heard + patience_s):
        event = inbox.take(QUIET_S)
        now = time.monotonic()
        if event is None:
            bus.publish(Frame(topic, MARK))
        elif isinstance(event, Delivery):
            bus.ack(event)
            if event.payload == MARK:
                return len(arrived), True
            arrived.add(event.payload)
            heard = now
    return len(arrived), len(arrived) >= count


def _remove_session(options: BrokerOptions, identity: Identity) -> None:
    """A clean start ends what the client left behind."""
    try:
        with _connected(options, replace(identity, persistent=False, subscriptions=())):
            pass
    except OSError:
        return  # it ends by itself after `TRACE_S`
