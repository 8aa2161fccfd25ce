"""Requests that wait for their answer: said again, with the same id, further and further apart.

The broker is a carrier, not a memory, so whoever asks repeats until the answer comes or the purpose is gone.
"""

import hashlib
import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from schemas.message import ID_LENGTH_MAX, Message

FIRST_REPEAT_S: Final = 1.0
SLOWEST_REPEAT_S: Final = 16.0


def request_id(*parts: object) -> str:
    """An id made of what a request is about: always the same for the same, and never longer than an id may be."""
    text = ":".join(str(part) for part in parts)
    if len(text) <= ID_LENGTH_MAX:
        return text
    digest = f"~{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
    return text[: ID_LENGTH_MAX - len(digest)] + digest


@dataclass
class _Waiting:
    message: Message
    interval_s: float
    due: float


class Repeater:
    """Outstanding requests by key. Bounded by what its owner has open, since a key holds one request."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, _Waiting] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._waiting

    def copy(self) -> "Repeater":
        """The same requests, in an object of its own."""
        same = Repeater()
        same._waiting, same._heap, same._pushed = dict(self._waiting), list(self._heap), self._pushed
        return same

    def send(self, key: Hashable, message: Message, now: float, *, first_s: float = FIRST_REPEAT_S) -> Message:
        """Remember the request, in place of an earlier one with this key, and return it to be published."""
        self._schedule(key, _Waiting(message, first_s, now + first_s))
        return message

    def answered(self, key: Hashable) -> bool:
        """Stop repeating; False when nothing was waiting under this key."""
        return self._waiting.pop(key, None) is not None

    def due(self, now: float) -> list[Message]:
        """Requests to be said again now."""
        again = []
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            waiting = self._waiting.get(key)
            if waiting is None or waiting.due != due:
                continue  # answered, or replaced since
            again.append(waiting.message)
            interval = min(waiting.interval_s * 2, SLOWEST_REPEAT_S)
            self._schedule(key, _Waiting(waiting.message, interval, now + interval))
        return again

    def repeat_all(self, now: float) -> list[Message]:
        """All outstanding requests, to be said again at once: the connection was lost in between."""
        for key, waiting in list(self._waiting.items()):
            self._schedule(key, _Waiting(waiting.message, FIRST_REPEAT_S, now + FIRST_REPEAT_S))
        return [waiting.message for waiting in self._waiting.values()]

    def _schedule(self, key: Hashable, waiting: _Waiting) -> None:
        self._waiting[key] = waiting
        self._pushed += 1
        heapq.heappush(self._heap, (waiting.due, self._pushed, key))
