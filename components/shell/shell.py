"""A component at work: one connection to the bus, one inbox, one worker thread, a few threads for calls."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.access import component_identity
from broker.bus import Bus, BusCounts, BusEvent, Connected, Delivery, Disconnected, Identity, Subscription
from broker.frames import matches
from components.component import Booted, Component, Observable, Parallel, Renewable
from components.shell.calls import CALLS_AT_ONCE, CallPool
from components.shell.counters import Counters
from components.shell.dispatch import Clock, Dispatcher, clock
from components.shell.inbox import Inbox, Posted, Returned
from components.shell.logs import about
from components.shell.pace import TICK_S, Pace
from components.shell.status import OwnStatus
from schemas.codec import Frame, encode
from schemas.enums import ConnectionState
from schemas.message import Wire
from schemas.topics import Role

if TYPE_CHECKING:
    from prometheus_client import Metric

_log = logging.getLogger(__name__)

STALLED_S: Final = 10.0
"""A worker that has not come round for so long is unhealthy."""
CALLS_DRAIN_S: Final = 2.0
"""How long an ending component waits for the results of calls that run."""
SAMPLES_WAIT_S: Final = 1.0
ECHO_WITHIN_S: Final = 10.0
"""A granted subscription to its own topic brings it what it says; if not, the broker's rules withhold it."""
DENIED_AGAIN_S: Final = 30.0
"""How often what was denied is tried again: the rules may have been mended."""

Connect = Callable[[Identity, Callable[[BusEvent], bool]], Bus]
"""Makes the bus for an identity, delivering into the given inbox; it is not started yet."""


@dataclass(frozen=True)
class _Stop:
    """Ends the worker."""


@dataclass(frozen=True)
class _SampleRequest:
    """Asks the worker for the component's metrics, since nobody else may touch the component."""

    of: Observable
    answer: "Future[list[Metric]]" = field(default_factory=Future)


def client_id_of(role: Role, instance: str, topic_prefix: str = "") -> str:
    """The MQTT client id: one per component and vehicle, so that a second instance takes over the first."""
    vehicle = f"{topic_prefix.replace('/', ':')}-" if topic_prefix else ""
    return f"piriscale-{vehicle}{role}-{instance}"


class Shell:
    """Runs one component until it is stopped, or until its connection is refused for good.

    `on_end` is called, from the worker, when it ended by itself: `fatal` then says why, or `renewal` says why
    another shell shall begin anew in its place.
    """

    def __init__(
        self,
        component: Component,
        inbox: Inbox,
        connect: Connect,
        *,
        topic_prefix: str = "",
        wire: Wire = Wire.MSGPACK,
        now: Clock = clock,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.fatal: str | None = None
        self.renewal: str | None = None
        self._component = component
        self._renewable = component if isinstance(component, Renewable) else None
        self._inbox = inbox
        self._on_end = on_end
        self._wire = wire
        boot_id = component.boot_id if isinstance(component, Booted) else now().epoch_ms
        self._status = OwnStatus(component.role, component.instance, boot_id)
        wanted = tuple(component.subscriptions())
        wants_status = any(matches(one.filter, self._status.topic) for one in wanted)
        own = () if wants_status else (Subscription(self._status.topic),)
        self._bus = connect(
            Identity(
                client_id=client_id_of(component.role, component.instance, topic_prefix),
                subscriptions=(*wanted, *own),
                persistent=component.persistent,
                will=self._own_frame(ConnectionState.LOST),
                birth=self._own_frame(ConnectionState.INIT),
                principal=component_identity(component.role, component.instance),
            ),
            inbox.deliver,
        )
        size = component.calls_at_once if isinstance(component, Parallel) else CALLS_AT_ONCE
        self._calls = CallPool(self.name, lambda result: inbox.put(Returned(result)), size)
        self._dispatcher = Dispatcher(
            component, self._bus, self._status, self._calls.submit, wants_status=wants_status, wire=wire, now=now
        )
        self.counters: Counters = self._dispatcher.counters
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._stopping = False
        self._bus_started = False
        self._expelled = False
        self._disconnected: str | None = "not connected to the broker yet"
        self._came_round = time.monotonic()
        self._echo_by: float | None = None
        """When what it says of itself must have come back to it."""
        self._denial: str | None = None
        self._again_at = 0.0
        self._last_samples: list[Metric] = []

    @property
    def component(self) -> str:
        """Role of the component."""
        return self._component.role

    @property
    def name(self) -> str:
        """Role, and instance where there are several."""
        instance = self._component.instance
        return str(self._component.role) if instance == "main" else f"{self._component.role}/{instance}"

    @property
    def up(self) -> bool:
        """Whether it runs and is connected."""
        return self._thread.is_alive() and self._disconnected is None

    @property
    def bus_counts(self) -> BusCounts:
        """What became of its frames."""
        return self._bus.counts

    @property
    def dropped_posts(self) -> int:
        """Items of its own threads that found no room."""
        return self._inbox.dropped_posts

    @property
    def problem(self) -> str | None:
        """What is wrong, in words; None when all is well. May be asked from any thread."""
        if self.fatal or not self._thread.is_alive():
            return f"{self.name}: {self.fatal or 'not running'}"
        stalled_s = time.monotonic() - self._came_round
        if stalled_s > STALLED_S:
            return f"{self.name}: busy with one message for {stalled_s:.0f} s"
        wrong = self._disconnected or self._dispatcher.problem or self._denied
        return f"{self.name}: {wrong}" if wrong else None

    @property
    def _denied(self) -> str | None:
        """What the broker's access rules keep from it, in words; None: nothing that it knows of."""
        refused = dict(self._bus.counts.refused)
        if refused:
            topic, reason = next(iter(refused.items()))
            more = f" and {len(refused) - 1} more topics" if len(refused) > 1 else ""
            return f"the broker does not let it publish on {topic}{more}: {reason}"
        if self._echo_by is not None and time.monotonic() > self._echo_by:
            return f"the broker withholds {self._status.topic} from it, and perhaps more: it may not read"
        return None

    def samples(self) -> "Iterable[Metric]":
        """The component's own metric families, read by its worker; those of last time if it is busy."""
        if not isinstance(self._component, Observable) or not self._thread.is_alive():
            return []
        request = _SampleRequest(self._component)
        self._inbox.put(request)
        try:
            self._last_samples = request.answer.result(SAMPLES_WAIT_S)
        except TimeoutError:
            _log.debug("busy, metrics of last time are given", extra={"component": self.name})
        return self._last_samples

    def start(self) -> None:
        """Connect, and work in a thread of its own. Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the message at hand, say goodbye, disconnect. Returns at once; see `join`."""
        self._stopping = True
        if self._thread.ident is None:  # never started
            self._end()
        else:
            self._inbox.put(_Stop())

    def join(self, timeout_s: float) -> bool:
        """Wait until it has ended; False when it has not."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _own_frame(self, state: ConnectionState) -> Frame:
        said = self._status.now(state)
        return encode(said.model_copy(update={"id": f"{said.boot_id}-{state}"}), self._wire)

    def _run(self) -> None:
        with about(component=self.name):
            try:
                self._dispatcher.start()
                self._bus_started = True
                self._bus.start()
                self._work()
                if self.fatal is None:
                    self._drain_calls()
            except Exception as error:
                _log.exception("ended by a bug or a broken machine")
                self.fatal = f"{type(error).__name__}: {error}"
            self._end()

    def _work(self) -> None:
        pace = Pace(time.monotonic())
        while not self._stopping:
            item = self._inbox.take(pace.next_at - time.monotonic())
            if item is not None:
                self._take(item)
                pace.busy(time.monotonic())
                self._heed_renewal()
            self._came_round = time.monotonic()
            if self._came_round >= pace.next_at:
                self._dispatcher.tick()
                self._heed_denial(self._came_round)
                pace.ticked(self._came_round)

    def _heed_renewal(self) -> None:
        if self._renewable is not None and self._renewable.renewal is not None:
            self.renewal = self._renewable.renewal
            self._stopping = True
            _log.warning("begins anew: %s", self.renewal)

    def _take(self, item: object) -> None:
        match item:
            case Delivery():
                if item.topic == self._status.topic:
                    self._echo_by = None
                self._dispatcher.delivered(item)
            case Posted():
                self._dispatcher.returned(item.item)
            case Returned():
                self._taken_back(item)
            case Connected():
                self._disconnected = None
                self._denial = None
                self._echo_by = time.monotonic() + ECHO_WITHIN_S
                self._dispatcher.connected(item)
            case Disconnected():
                self._lost(item)
            case _SampleRequest():
                self._sample(item)

    def _heed_denial(self, now: float) -> None:
        """A component that is denied something is not ready, and says so; now and then it tries again."""
        denied = self._denied if self._disconnected is None else None
        if denied != self._denial:
            self._denial = denied
            if denied is not None:
                _log.error("not ready: %s", denied)
            self._dispatcher.ready(is_ready=denied is None)
            self._again_at = now + DENIED_AGAIN_S
        elif denied is not None and now >= self._again_at:
            self._again_at = now + DENIED_AGAIN_S
            self._dispatcher.say_retained()

    def _taken_back(self, returned: Returned) -> None:
        self._calls.taken()
        if returned.item is not None:
            self._dispatcher.returned(returned.item)

    def _lost(self, event: Disconnected) -> None:
        self._disconnected = f"not connected to the broker: {event.reason}"
        self._dispatcher.disconnected()
        if event.fatal:
            self.fatal = event.reason
            self._expelled = self._stopping = True
            _log.error("stopping: %s", event.reason)
        else:
            _log.warning("disconnected: %s", event.reason)

    def _sample(self, request: _SampleRequest) -> None:
        try:
            found = list(request.of.samples())
        except Exception:
            _log.exception("metrics cannot be read")
            found = []  # the values of last time would be a lie; Prometheus shows a gap
        request.answer.set_result(found)

    def _end(self) -> None:
        """Say goodbye, disconnect, let go: each in any case, since nobody is left to raise to."""
        self._calls.stop()
        self._status.state = ConnectionState.DISCONNECTED
        for step in (self._say_goodbye, self._component.close):
            try:
                step()
            except Exception:
                _log.exception("could not end cleanly")
        self._disconnected = "stopped"
        if self.fatal is not None or self.renewal is not None:
            self._on_end()

    def _say_goodbye(self) -> None:
        if self._expelled or not self._bus_started:  # someone else may speak under our name now
            self._bus.stop()
        else:
            self._bus.stop(self._own_frame(ConnectionState.DISCONNECTED))

    def _drain_calls(self) -> None:
        """Handle the results of calls that run; whatever else waits is not acknowledged and comes again."""
        deadline = time.monotonic() + CALLS_DRAIN_S
        while self._calls.open and (left_s := deadline - time.monotonic()) > 0:
            item = self._inbox.take(min(left_s, TICK_S))
            if isinstance(item, Returned):
                self._taken_back(item)
