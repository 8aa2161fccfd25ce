"""What happens to one thing out of the inbox: decode, handle, publish, acknowledge. No threads here.

Rules: an acknowledgement comes after the effect is committed, and always comes; what cannot be used or keeps
failing goes to the dead letters and stops nobody.
"""

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from broker.bus import Bus, Connected, Delivery
from components.component import Call, Component, Instant, Output, Raw, Selective, Tethered
from components.shell.counters import Counters
from components.shell.deadletters import DeadLetters
from components.shell.logs import about
from components.shell.status import OwnStatus
from schemas.codec import HEAD_BYTES, BadRequest, Cleared, Decoded, Frame, Malformed, clear, decode, encode
from schemas.enums import ConnectionState
from schemas.message import Message, Wire
from schemas.operations import RejectReason
from schemas.topics import may_be_retained

_log = logging.getLogger(__name__)

RETRY_AFTER_S: Final = (0.0, 0.01, 0.05)
"""How long to wait before each retry of a handler that raised."""

KEPT_BY_THE_BROKER: Final = (
    "published with the retain flag, so it would come again at each connection: only those who hear it live carry "
    "it out; delete it by publishing nothing to this topic, retained"
)

Clock = Callable[[], Instant]


def clock() -> Instant:
    """The present moment of this machine."""
    return Instant(time.monotonic(), time.time_ns() // 1_000_000)


class Dispatcher:
    """Runs one component on one bus. Its methods must not be called at the same time."""

    def __init__(
        self,
        component: Component,
        bus: Bus,
        status: OwnStatus,
        submit: Callable[[Call], None],
        *,
        wants_status: bool = False,
        wire: Wire = Wire.MSGPACK,
        now: Clock = clock,
        retry_after_s: tuple[float, ...] = RETRY_AFTER_S,
    ) -> None:
        self.counters = Counters()
        self.problem: str | None = None
        """What was wrong with the component at the last tick, in words; None when all was well."""
        self._component = component
        self._bus = bus
        self._status = status
        self._submit = submit
        self._wants_status = wants_status
        self._wire = wire
        self._now = now
        self._retry_after_s = retry_after_s
        self._dead = DeadLetters(component.role)
        self._raw = isinstance(component, Raw) and component.raw
        self._selective = component if isinstance(component, Selective) else None
        self._source = f"{component.role}/{component.instance}"
        self._first_outputs: list[Output] | None = []

    def start(self) -> None:
        """Start the component; what it says waits for the connection. Raises what the component raises."""
        self._first_outputs = self._component.start(self._now())

    def connected(self, event: Connected) -> None:
        """Say everything that is retained, and then that we are ready."""
        _log.debug("connected", extra={"session_present": event.session_present})
        if self._first_outputs:
            self.publish(self._first_outputs)
        self._first_outputs = None
        self.say_retained()
        self.ready()

    def disconnected(self) -> None:
        """Tell the component, if it wants to know."""
        if isinstance(self._component, Tethered):
            self._component.disconnected(self._now())

    def say_retained(self) -> None:
        """Let the component say everything that is retained, and what is open."""
        try:
            self.publish(self._attempt(lambda: self._component.connected(self._now())))
        except _GaveUpError as error:
            _log.exception("cannot say what is retained", exc_info=error.cause)

    def ready(self, *, is_ready: bool = True) -> None:
        """Tell everybody whether the component can do its work."""
        self._status.state = ConnectionState.READY if is_ready else ConnectionState.INIT
        self.publish([self._status.now()])

    def delivered(self, delivery: Delivery) -> None:
        """Handle a message and acknowledge it."""
        self.counters.received += 1
        if self._concerns_us(delivery):
            self._route(self._decoded(delivery), delivery)
        self._bus.ack(delivery)

    def returned(self, item: object) -> None:
        """Handle what a call returned, or an item that the component's own thread posted."""
        with about(action_id=_action_of(item)):
            self._handle(item, None)

    def tick(self) -> None:
        """Let the component do what is due, and mend its status topic."""
        now = self._now()
        try:
            outputs = self._component.tick(now)
            self.problem = self._component.problem
        except Exception as error:
            problem = f"tick failed: {_words(error)}"
            if self.problem != problem:
                _log.exception("tick failed")
            self.problem = problem
        else:
            self.publish(outputs)
        self.publish(self._status.due(now))

    def publish(self, outputs: Iterable[Output]) -> None:
        """Send messages, begin calls. What cannot be sent is logged and counted, never fatal.

        The log is written when all has gone, since it would add to the time of each step of the chain.
        """
        gone: list[tuple[Message, str]] = []
        for output in outputs:
            try:
                if isinstance(output, Call):
                    self._submit(output)
                    continue
                frame = self._frame_of(output)
                self.counters.sent += self._bus.publish(frame)
            except Exception as error:
                self.counters.rejected["unsendable"] += 1
                bug = not isinstance(error, ValueError)
                _log.error("cannot be sent: %s", error, exc_info=bug, extra={"type": type(output).__name__})
            else:
                if isinstance(output, Message):
                    gone.append((output, frame.topic))
        for message, topic in gone:
            _log_sent(message, topic)

    def _frame_of(self, output: Message | Cleared | Frame) -> Frame:
        if isinstance(output, Frame):
            return output
        if isinstance(output, Cleared):
            return clear(output)
        return encode(output, self._wire, self._stamp(output))

    def _stamp(self, message: Message) -> dict[str, object]:
        """The common fields that its author left out."""
        stamp: dict[str, object] = {}
        if not message.id:
            stamp["id"] = uuid.uuid4().hex
        if message.ts is None:
            stamp["ts"] = self._now().epoch_ms
        if message.source is None:
            stamp["source"] = self._source
        return stamp

    def _concerns_us(self, delivery: Delivery) -> bool:
        topic = delivery.topic
        if topic == self._dead.topic or _only_deletes(delivery):
            return False
        return self._selective is None or topic == self._status.topic or self._selective.concerns(topic)

    def _decoded(self, delivery: Delivery) -> Decoded | Delivery:
        if self._raw and delivery.topic != self._status.topic:
            return delivery
        if delivery.retained and not may_be_retained(delivery.topic):
            head = delivery.payload[:HEAD_BYTES].hex()
            return Malformed(delivery.topic, RejectReason.INVALID, KEPT_BY_THE_BROKER, head)
        return decode(delivery.topic, delivery.payload)

    def _route(self, item: Decoded | Delivery, delivery: Delivery) -> None:
        if delivery.topic == self._status.topic and not isinstance(item, Delivery):
            self._status.heard(item)
            if not self._wants_status:
                return
            item = delivery if self._raw else item
        if isinstance(item, Malformed):
            self._bury(item)
            return
        if isinstance(item, BadRequest):
            self.counters.rejected["bad_request"] += 1
        with about(action_id=_action_of(item)):
            _log.debug("received", extra={"topic": delivery.topic})
            self._handle(item, delivery)

    def _handle(self, item: object, delivery: Delivery | None) -> None:
        try:
            outputs = self._attempt(lambda: self._component.handle(item, self._now()))
        except _GaveUpError as error:
            outputs = self._give_up(item, delivery, error.cause)
        self.publish(outputs)

    def _attempt(self, work: Callable[[], list[Output]]) -> list[Output]:
        """The outputs of `work`, tried a bounded number of times. Raises _GaveUpError."""
        pauses = iter(self._retry_after_s)
        while True:
            try:
                return work()
            except Exception as error:
                pause_s = next(pauses, None)
                if pause_s is None:
                    raise _GaveUpError(error) from error
                _log.debug("handler failed, trying again", exc_info=True)
            time.sleep(pause_s)

    def _give_up(self, item: object, delivery: Delivery | None, error: Exception) -> list[Output]:
        self.counters.rejected[RejectReason.HANDLER_FAILED] += 1
        text = f"{type(item).__name__} cannot be handled: {_words(error)}"
        _log.error("gave up: %s", text, exc_info=error)
        try:
            answer = self._component.failed(item, error, self._now())
        except Exception:
            _log.exception("the answer to a failure failed", extra={"item": type(item).__name__})
            answer = None
        if answer is not None:
            return answer
        if delivery is not None:
            head = delivery.payload[:HEAD_BYTES].hex()
            self._bury(Malformed(delivery.topic, RejectReason.HANDLER_FAILED, text, head), count=False)
        return []

    def _bury(self, malformed: Malformed, *, count: bool = True) -> None:
        if count:
            self.counters.rejected[malformed.reason] += 1
        letter = self._dead.of(malformed, self._now().monotonic)
        if letter is None:
            self.counters.dead_letters_withheld += 1
            return
        _log.warning(
            "dead letter: %s", malformed.text, extra={"topic": malformed.topic, "reason": malformed.reason}
        )
        self.publish([letter])


class _GaveUpError(Exception):
    """All tries failed; `cause` is what the last one raised."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _only_deletes(delivery: Delivery) -> bool:
    """Whether somebody deletes what was retained where nothing should be, as the letter about it asks to."""
    return not delivery.payload and not may_be_retained(delivery.topic)


def _action_of(item: object) -> str | None:
    if isinstance(item, BadRequest):
        return item.identity.get("action_id")
    if isinstance(item, Message) and "action_id" not in _telling_fields(type(item)):
        return None
    action_id = getattr(item, "action_id", None)
    return action_id if isinstance(action_id, str) else None


def _log_sent(message: Message, topic: str) -> None:
    names = _telling_fields(type(message))
    level = logging.INFO if "action_id" in names or "event_id" in names else logging.DEBUG
    if _log.isEnabledFor(level):
        gist = {name: value for name in names if (value := getattr(message, name)) is not None}
        _log.log(level, "sent", extra={"topic": topic, **gist})


@lru_cache
def _telling_fields(message: type[Message]) -> tuple[str, ...]:
    """Fields of a message type that tell a reader of the log what it is about and how it went."""
    names = ("action_id", "event_id", "node", "workload_id", "phase", "outcome", "verdict", "reason")
    return tuple(name for name in names if name in message.model_fields)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
