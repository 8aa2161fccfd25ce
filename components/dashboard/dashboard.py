"""The component: hears everything, shows the picture to who watches, and says what the form asks for."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from broker.bus import Delivery, Subscription
from components.component import Instant, Output
from components.dashboard.form import FormError
from components.dashboard.items import (
    Asked,
    AskError,
    Document,
    Joined,
    Left,
    Listener,
    ScalingAsked,
    SeriesAsked,
    TimelineAsked,
)
from components.dashboard.picture import Picture, Sections, difference
from components.dashboard.requested import Requested
from components.dashboard.rows import series_document, timeline_document, timeline_row
from components.overview.history import History
from components.overview.overview import HEARD, Overview
from components.overview.steps import CHAIN
from components.overview.timeline import Timelines
from schemas.codec import decode
from schemas.scaling import ScalingStatus
from schemas.topics import TOPICS, Role

SHOW_EVERY_S: Final = 0.5
"""Changes are shown at most so often."""

BEAT_EVERY_S: Final = 5.0
"""A sign of life when nothing changes, so that a page knows that its picture is of now."""

MARKS_MAX: Final = 20
"""Scalings marked in one chart."""

CLOCK_SET_MS: Final = 1000
"""From this difference on the machine's clock was set, and is followed."""

_WANTED: Final = frozenset((*HEARD, *CHAIN))


class FineClock:
    """UTC epoch ms with fractions, in order: for what comes less than a ms apart."""

    def __init__(self) -> None:
        self._offset_ms = math.inf

    def epoch_ms(self, now: Instant) -> float:
        """The moment; set anew when the clock of the machine was set."""
        fine_ms = now.monotonic * 1000 + self._offset_ms
        if not abs(fine_ms - now.epoch_ms) <= CLOCK_SET_MS:
            self._offset_ms = now.epoch_ms - now.monotonic * 1000
            return float(now.epoch_ms)
        return fine_ms


class Server(Protocol):
    """What shows the page."""

    @property
    def problem(self) -> str | None:
        """What is wrong, in words."""

    def start(self) -> None:
        """Answer requests."""

    def stop(self) -> None:
        """Answer no more."""


class Dashboard:
    """Only looks, but for the form: what that asks for is said as any client would say it."""

    role = Role.DASHBOARD
    instance = "main"
    persistent = False
    raw = True  # to tell what is retained from what happens now, and to leave dead letters to those concerned

    def __init__(self, server: Server, new_id: Callable[[], str], *, scale_form: bool, repeat_s: float) -> None:
        """`repeat_s`: how often MonitoringServer says a degradation anew."""
        self.asked_total: Counter[str] = Counter()
        """Forms sent as actions, by kind: dry_run, scaling."""
        self._server = server
        self._new_id = new_id
        self._scale_form = scale_form
        self._seen = Overview(repeat_s)
        self._timelines = Timelines()
        self._history = History(self._seen.measures.names)
        self._requested = Requested()
        self._picture = Picture(scale_form=scale_form)
        self._shown: Sections = {}
        self._listeners: dict[Listener, None] = {}
        self._connections = 0
        self._clock = FineClock()
        self._heard_ms = 0
        self._show_at = self._beat_at = 0.0

    @property
    def problem(self) -> str | None:
        """What is wrong with the page, in words."""
        return self._server.problem

    def subscriptions(self) -> Sequence[Subscription]:
        """Every topic that the picture or a time line is made of."""
        return [Subscription(topic.filter(), topic.qos) for topic in TOPICS if topic.message in _WANTED]

    def start(self, now: Instant) -> list[Output]:
        """Open the page."""
        del now
        self._server.start()
        return []

    def connected(self, now: Instant) -> list[Output]:
        """What was asked for again; and after the first time, something may have been missed."""
        if self._connections:
            self._seen.reconnected(now.epoch_ms)
        self._connections += 1
        return list(self._requested.again(now.monotonic))

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """Take in a message, a browser that comes or goes, or a question."""
        match item:
            case Delivery():
                self._hear(item, now)
            case Joined(listener):
                self._join(listener, now)
            case Left(listener):
                self._listeners.pop(listener, None)
            case SeriesAsked() | TimelineAsked() | ScalingAsked():
                return self._answer(item, now)
        return []

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """A message that cannot be shown troubles nobody else; a question gets its answer."""
        del now
        if isinstance(item, SeriesAsked | TimelineAsked | ScalingAsked) and not item.answer.done():
            item.answer.set_exception(AskError(f"that failed: {type(error).__name__}: {error}", 500))
        return []

    def tick(self, now: Instant) -> list[Output]:
        """Show what changed; repeat what was asked for and is not answered."""
        if self._listeners and now.monotonic >= self._show_at:
            self._show(now)
        return list(self._requested.due(now))

    def close(self) -> None:
        """Close the page."""
        self._server.stop()

    def samples(self) -> Iterable[Metric]:
        """How many browsers watch, and what they asked for."""
        yield GaugeMetricFamily(
            "piriscale_dashboard_watching", "Browsers that watch the web page now", len(self._listeners)
        )
        asked = CounterMetricFamily(
            "piriscale_dashboard_actions", "Actions that were asked for on the web page", labels=("kind",)
        )
        for kind in ("dry_run", "scaling"):
            asked.add_metric([kind], self.asked_total[kind])
        yield asked

    def _hear(self, delivery: Delivery, now: Instant) -> None:
        message = decode(delivery.topic, delivery.payload)
        retained = delivery.retained
        self._seen.hear(message, now.epoch_ms, retained=retained)
        self._timelines.hear(message, self._clock.epoch_ms(now), retained=retained)
        self._history.hear(message, now.epoch_ms)
        if isinstance(message, ScalingStatus):
            self._requested.hear(message)
        self._heard_ms = now.epoch_ms

    def _join(self, listener: Listener, now: Instant) -> None:
        self._show(now)  # so that all others are where the newcomer begins
        self._listeners[listener] = None
        listener.send(_frame("picture", {"now": now.epoch_ms, "heard": self._heard_ms, "put": self._shown}))

    def _show(self, now: Instant) -> None:
        self._show_at = now.monotonic + SHOW_EVERY_S
        sections = self._picture.sections(self._seen, self._timelines, now.epoch_ms)
        sections["requested"] = self._requested.rows()
        change = difference(self._shown, sections)
        self._shown = sections
        if not self._listeners or not (change or now.monotonic >= self._beat_at):
            return
        self._beat_at = now.monotonic + BEAT_EVERY_S
        frame = _frame(
            "change", {"now": now.epoch_ms, "heard": self._heard_ms, "put": change.put, "gone": change.gone}
        )
        for listener in self._listeners:
            listener.send(frame)

    def _answer(self, asked: Asked, now: Instant) -> list[Output]:
        if asked.answer.done():  # nobody waits any more
            return []
        outputs: list[Output] = []
        try:
            match asked:
                case SeriesAsked():
                    document = self._series(asked, now)
                case TimelineAsked():
                    document = self._timeline(asked)
                case ScalingAsked():
                    document = self._scale(asked, now, outputs)
        except AskError as error:
            asked.answer.set_exception(error)
        else:
            asked.answer.set_result(document)
        return outputs

    def _series(self, asked: SeriesAsked, now: Instant) -> Document:
        key = (asked.node, asked.workload)
        if key not in self._seen.workloads:
            raise AskError(f"{asked.workload} on {asked.node} is not known", 404)
        marks = [timeline_row(line) for line in self._timelines.of(*key)[:MARKS_MAX]]
        return {
            **series_document(self._history.follow(*key), asked.after_ms),
            "now": now.epoch_ms,
            "marks": [mark for mark in marks if mark["action_id"] and not mark["dry_run"]],
        }

    def _timeline(self, asked: TimelineAsked) -> Document:
        line = self._timelines.get(asked.key)
        if line is None:
            raise AskError("this scaling is not known, or not any more", 404)
        return timeline_document(line)

    def _scale(self, asked: ScalingAsked, now: Instant, outputs: list[Output]) -> Document:
        if not asked.form.dry_run and not self._scale_form:
            raise AskError("scaling from this page is switched off: [dashboard] scale_form", 403)
        try:
            action = asked.form.action(self._new_id())
        except FormError as error:
            raise AskError(str(error), 422) from error
        outputs.append(self._requested.send(action, now))
        self.asked_total["dry_run" if action.dry_run else "scaling"] += 1
        return {"action_id": action.action_id}


def _frame(event: str, body: Document) -> bytes:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event}\ndata: {text}\n\n".encode(errors="replace")
