"""Events on their way in: given to the component's inbox, or kept until it has room."""

import logging
from collections import deque

from broker.bus import BusCounts, BusEvent, Deliver, Delivery

log = logging.getLogger(__name__)


class Handover:
    """Loses QoS 0 deliveries only. What else finds no room waits here, in order.

    It is bounded by what the broker sends unacknowledged, and by what a connection has to say of itself.
    """

    def __init__(self, deliver: Deliver, counts: BusCounts) -> None:
        self._deliver = deliver
        self._counts = counts
        self._waiting: deque[BusEvent] = deque()

    @property
    def waiting(self) -> bool:
        """Whether `retry` has something to do."""
        return bool(self._waiting)

    def offer(self, event: BusEvent) -> None:
        """Hand an event over, now or later."""
        losable = isinstance(event, Delivery) and event.qos == 0
        if (losable or not self._waiting) and self._taken(event):
            return
        if losable:
            self._counts.dropped_in += 1
            return
        if not self._waiting:
            log.warning("the inbox has no room; what must not be lost waits")
        self._waiting.append(event)

    def retry(self) -> None:
        """Hand over what waits, as far as there is room."""
        while self._waiting and self._taken(self._waiting[0]):
            self._waiting.popleft()

    def connection_lost(self) -> None:
        """Forget deliveries that wait: the broker sends them again, if the session persists."""
        self._waiting = deque(event for event in self._waiting if not isinstance(event, Delivery))

    def _taken(self, event: BusEvent) -> bool:
        try:
            taken = self._deliver(event)
        except (Exception, SystemExit):
            level = logging.DEBUG if event in self._waiting else logging.ERROR  # once, not at every retry
            log.log(level, "the inbox failed to take %s", type(event).__name__, exc_info=True)
            return False
        if taken and isinstance(event, Delivery):
            self._counts.received += 1
        return taken
