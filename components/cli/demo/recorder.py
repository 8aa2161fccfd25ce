"""What happens on the bus during the demo: every message decoded, with the time it came."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from schemas.codec import decode
from schemas.enums import ConnectionState
from schemas.message import Message
from schemas.operations import ComponentStatus
from schemas.topics import DEBUG_PREFIX

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Heard:
    """One message and when it came, monotonic seconds."""

    at: float
    topic: str
    message: Message


class Recorder:
    """Keeps what a plain client hears, and lets the story wait for it. Safe to use from two threads."""

    def __init__(self, watch: Callable[[Heard], None]) -> None:
        self._watch = watch
        self._unread: BrokenPipeError | None = None
        self._heard: list[Heard] = []
        self._news = threading.Condition()

    def hear(self, topic: str, payload: bytes, _retained: bool) -> None:
        """Take a message; what cannot be decoded is not part of the story."""
        if topic.startswith(DEBUG_PREFIX):
            return
        message = decode(topic, payload)
        if not isinstance(message, Message):
            return
        heard = Heard(time.monotonic(), topic, message)
        with self._news:
            self._heard.append(heard)
            self._news.notify_all()
        try:
            self._watch(heard)
        except BrokenPipeError as error:  # it would end the network thread; `wait` ends the story
            self._unread = error

    def all(self, kind: type[M]) -> list[tuple[float, M]]:
        """Messages of one type, oldest first, with the time they came."""
        with self._news:
            return [(h.at, h.message) for h in self._heard if isinstance(h.message, kind)]

    def latest(self, kind: type[M]) -> M | None:
        """The last message of one type."""
        found = self.all(kind)
        return found[-1][1] if found else None

    def ready(self) -> set[str]:
        """Components that say they are ready."""
        states = {status.component: status.state for _, status in self.all(ComponentStatus)}
        return {name for name, state in states.items() if state is ConnectionState.READY}

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition on what was heard holds; False after `timeout_s` seconds.

        Raises BrokenPipeError when nobody reads what is shown of it.
        """
        end = time.monotonic() + timeout_s
        while not until():
            if self._unread is not None:
                raise self._unread
            left = end - time.monotonic()
            if left <= 0:
                return False
            with self._news:
                self._news.wait(min(left, 0.1))
        return True
