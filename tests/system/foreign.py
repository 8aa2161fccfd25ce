"""A client that knows nothing of piriscale's code: topics and messages as the documents give them."""

import bisect
import functools
import itertools
import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack

from broker.plain import PlainClient

STORY_MAX = 6000
"""Characters of what was heard that a failure tells."""
Body = dict[str, Any]
Wanted = Callable[[Body], bool]
_numbers = itertools.count(1)


@dataclass
class Heard:
    """One message: its place among all, and what it says."""

    number: int
    payload: bytes

    @functools.cached_property
    def body(self) -> Body:
        return read(self.payload)


class ForeignClient(PlainClient):
    """Hears everything, remembers it, and says what a test wants."""

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        mqtt5: bool = False,
        packed: bool = False,
        subscribe: tuple[str, ...] = ("#",),
    ) -> None:
        super().__init__(host, port, f"foreign-{uuid.uuid4().hex[:8]}", self._hear, subscribe, mqtt5=mqtt5)
        self._packed = packed
        self._news = threading.Condition()
        self._count = 0
        self._topics: dict[str, list[Heard]] = {}

    def _hear(self, topic: str, payload: bytes, _retained: bool) -> None:
        with self._news:
            self._count += 1
            self._topics.setdefault(topic, []).append(Heard(self._count, payload))
            self._news.notify_all()

    def say(self, topic: str, body: Body | bytes, *, qos: int = 1) -> None:
        """Publish a map in this client's format, or bytes as they are."""
        if isinstance(body, dict):
            body = msgpack.packb(body) if self._packed else json.dumps(body).encode()
        self.publish(topic, body, qos)

    def mark(self) -> int:
        """A place in what was heard, to look from."""
        with self._news:
            return self._count

    def heard(self, topic: str, since: int = 0) -> list[Body]:
        """Messages on one topic, decoded."""
        return [one.body for one in self._since(topic, since) if one.payload]

    def topics(self, prefix: str) -> list[str]:
        """Topics heard so far that begin like this."""
        with self._news:
            return [topic for topic in self._topics if topic.startswith(prefix)]

    def order(self, since: int) -> list[tuple[str, int]]:
        """Topic and size in bytes of all that was heard, in order."""
        with self._news:
            heard = [(one.number, topic, len(one.payload)) for topic, all_ in self._topics.items() for one in all_]
        return [(topic, size) for number, topic, size in sorted(heard) if number > since]

    def story(self, since: int) -> str:
        """All that was heard but metrics and what the tap repeats, a line each, for a test that fails."""
        with self._news:
            heard = [
                (one.number, topic, one.body)
                for topic, every in self._topics.items()
                if not topic.startswith(("metrics/", "debug/"))
                for one in every
                if one.number > since
            ]
        return "\n".join(
            f"{topic} {json.dumps(body, default=str)}" for _, topic, body in sorted(heard, key=lambda h: h[0])
        )

    def payloads(self, topic: str, since: int = 0) -> list[bytes]:
        """Messages on one topic, as they came."""
        return [one.payload for one in self._since(topic, since)]

    def _since(self, topic: str, mark: int) -> "list[Heard]":
        with self._news:
            found = self._topics.get(topic, [])
            first = bisect.bisect_right(found, mark, key=lambda one: one.number)
            return found[first:]

    def await_message(
        self,
        topic: str,
        wanted: Wanted = lambda _: True,
        *,
        since: int = 0,
        timeout_s: float = 20.0,
    ) -> Body:
        """The first message on a topic for which `wanted` holds; fails after `timeout_s`."""
        end = time.monotonic() + timeout_s
        looked = since
        while True:
            for one in self._since(topic, looked):
                looked = one.number
                if one.payload and holds(wanted, one.body):
                    return one.body
            left = end - time.monotonic()
            assert left > 0, (
                f"nothing such on {topic} within {timeout_s} s; heard there: {self.heard(topic, since)[-5:]}; "
                f"last of all:\n{self.story(since)[-STORY_MAX:]}"
            )
            with self._news:
                self._news.wait(min(left, 0.2))

    def scale(self, node: str, workload: str, **action: Any) -> str:
        """Ask for a scaling; the action's id."""
        action_id = action.pop("action_id", None) or f"foreign-{next(_numbers)}-{uuid.uuid4().hex[:8]}"
        self.say("scaling/action", {"action_id": action_id, "node": node, "workload_id": workload, **action})
        return action_id

    def final(self, action_id: str, *, timeout_s: float = 40.0) -> Body:
        """The final status of an action."""
        return self.await_message(
            "scaling/status", lambda b: b["action_id"] == action_id and "outcome" in b, timeout_s=timeout_s
        )

    def state(self, node: str, workload: str, wanted: Wanted, *, since: int = 0) -> Body:
        """The first state of a workload for which `wanted` holds."""
        return self.await_message(f"resources/state/{node}/{workload}", wanted, since=since)


def read(payload: bytes) -> Body:
    """What a payload says, in whichever of the two formats; empty when it says nothing."""
    try:
        body = json.loads(payload) if payload[:1] == b"{" else msgpack.unpackb(payload)
    except (ValueError, RecursionError, msgpack.UnpackException):
        return {}
    return body if isinstance(body, dict) else {}


def holds(wanted: Wanted, body: Body) -> bool:
    """Whether a condition holds; for a body without the fields it asks for it does not."""
    try:
        return wanted(body)
    except (KeyError, TypeError):
        return False
