"""The one queue before a component's worker: bus events, posted items, results of calls, as they arrive."""

import queue
from dataclasses import dataclass
from typing import Final

from broker.bus import BusEvent, Delivery

QOS_0_MAX: Final = 10_000
"""QoS 0 messages are dropped while more than this waits; QoS 1 are bounded by the receive maximum."""
POSTED_MAX: Final = 10_000


@dataclass(frozen=True)
class Posted:
    """What a component's own threads gave it."""

    item: object


@dataclass(frozen=True)
class Returned:
    """What a call returned, or a `CallFailed`."""

    item: object


class Inbox:
    """Thread-safe and bounded; putting never blocks."""

    def __init__(self, *, qos_0_max: int = QOS_0_MAX, posted_max: int = POSTED_MAX) -> None:
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._qos_0_max = qos_0_max
        self._posted_max = posted_max
        self.dropped_posts = 0

    def __len__(self) -> int:
        return self._queue.qsize()

    def deliver(self, event: BusEvent) -> bool:
        """Take a bus event; False when it is a QoS 0 message and there is no room, so that it is lost."""
        if isinstance(event, Delivery) and event.qos == 0 and self._queue.qsize() >= self._qos_0_max:
            return False
        self._queue.put(event)
        return True

    def post(self, item: object) -> None:
        """Take an item from a component's own thread; dropped and counted when there is no room."""
        if self._queue.qsize() >= self._posted_max:
            self.dropped_posts += 1
            return
        self._queue.put(Posted(item))

    def put(self, item: object) -> None:
        """Take what is bounded by its sender: results of calls, and the shell's own signals."""
        self._queue.put(item)

    def take(self, timeout_s: float) -> object | None:
        """The next item, waiting for one up to `timeout_s`; None when none came."""
        try:
            if timeout_s <= 0:
                return self._queue.get_nowait()
            return self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None
