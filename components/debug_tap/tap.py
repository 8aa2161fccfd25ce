"""The tap: what was said on a topic is said again as JSON on `debug/<topic>`, not too often."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from broker.bus import Delivery, Subscription
from components.component import Instant, Output
from components.debug_tap.rendering import render
from schemas.codec import Frame
from schemas.topics import DEBUG_PREFIX, TOPICS, Role, lookup

PER_TOPIC_PER_S: Final = 20
TOPICS_MAX: Final = 20_000
"""Topics whose rate is watched at a time; with more, those that fell silent are forgotten."""


@dataclass
class _Second:
    """What was repeated of one topic in the second that began at `since`."""

    since: float
    repeated: int = 0
    withheld: bytes | None = None
    """Newest payload of a retained topic, to be shown when the second is over."""


class DebugTap:
    """Repeats what it hears. A retained topic that changes too fast ends with its newest value."""

    role = Role.DEBUG_TAP
    instance = "main"
    persistent = False
    raw = True

    def __init__(self) -> None:
        self._seconds: dict[str, _Second] = {}
        self._withheld: set[str] = set()
        self.limited = 0

    @property
    def problem(self) -> str | None:
        """Always well: it has nothing that can break."""
        return None

    def subscriptions(self) -> Sequence[Subscription]:
        """Everything of the registry, and so nothing of `debug/`. A lost retained value would stay wrong."""
        return [Subscription(topic.filter(), 1 if topic.retained else 0) for topic in TOPICS]

    def start(self, now: Instant) -> list[Output]:
        """Nothing to say."""
        del now
        return []

    def connected(self, now: Instant) -> list[Output]:
        """Nothing to say: what is retained comes again by itself."""
        del now
        return []

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """Repeat a delivery, unless its topic had its share of this second."""
        if not isinstance(item, Delivery) or item.topic.startswith(DEBUG_PREFIX):
            return []
        second = self._second_of(item.topic, now)
        if second.repeated < PER_TOPIC_PER_S:
            second.repeated += 1
            return self._repeat(item.topic, item.payload)
        self.limited += 1
        if _retained(item.topic):
            second.withheld = item.payload
            self._withheld.add(item.topic)
        return []

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """Nothing to answer, and no letter about a message that was only copied."""
        del item, error, now
        return []

    def tick(self, now: Instant) -> list[Output]:
        """Show the newest values of retained topics that changed too fast."""
        outputs: list[Output] = []
        for topic in [one for one in self._withheld if now.monotonic >= self._seconds[one].since + 1]:
            self._withheld.discard(topic)
            payload = self._seconds[topic].withheld
            second = self._second_of(topic, now)
            if payload is not None:
                second.repeated += 1
                outputs += self._repeat(topic, payload)
        return outputs

    def close(self) -> None:
        """Nothing to release."""

    def samples(self) -> Iterable[Metric]:
        """How many messages were not repeated."""
        yield CounterMetricFamily(
            "piriscale_debug_limited", "Messages not repeated under debug/: too many on one topic", self.limited
        )

    def _second_of(self, topic: str, now: Instant) -> _Second:
        second = self._seconds.get(topic)
        if second is None or now.monotonic >= second.since + 1:
            if len(self._seconds) >= TOPICS_MAX:
                self._forget_silent(now)
            second = self._seconds[topic] = _Second(now.monotonic)
        return second

    def _forget_silent(self, now: Instant) -> None:
        self._seconds = {
            topic: second
            for topic, second in self._seconds.items()
            if topic in self._withheld or now.monotonic < second.since + 1
        }

    @staticmethod
    def _repeat(topic: str, payload: bytes) -> list[Output]:
        retained = _retained(topic)
        if not payload:
            return [Frame(DEBUG_PREFIX + topic, b"", 0, retain=True)] if retained else []
        return [Frame(DEBUG_PREFIX + topic, render(payload), 0, retain=retained)]


def _retained(topic: str) -> bool:
    found = lookup(topic)
    return found is not None and found[0].retained
