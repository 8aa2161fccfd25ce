"""What the way to the runtime takes at least: the messages of one scaling, passed on by bare paho clients."""

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Final, Self

from broker.plain import PlainClient
from schemas.topics import Role
from tests.bench.relay import PREFIX, Relay, Seen, rules_of

ROLES: Final = (Role.MONITORING_SERVER, Role.POLICY_MANAGER, Role.ACTION_CONTROLLER, Role.RESOURCE_MANAGER)
NOISE: Final = ("metrics/", "component/", "debug/", "deadletter/")
"""Not of the chain: what comes by itself meanwhile."""
WITHIN_S: Final = 20.0


def chain_of(order: Sequence[tuple[str, int]], first: str, last: str) -> list[Seen]:
    """From the metric to the command of the node: what belongs to the scaling, out of all that was heard."""
    topics = [topic for topic, _ in order]
    begin = topics.index(first)
    chain = order[begin : topics.index(last, begin) + 1]
    return [Seen(*one) for number, one in enumerate(chain) if number == 0 or not one[0].startswith(NOISE)]


class Floor(AbstractContextManager["Floor"]):
    """Four processes that pass the messages on as the components do, and think nothing."""

    def __init__(self, port: int, chain: Sequence[Seen]) -> None:
        self._first = f"{PREFIX}{chain[0].kind}/0"
        self._size = chain[0].size
        self._last = f"{PREFIX}{chain[-1].kind}/{len(chain) - 1}"
        self._relay = Relay(port, rules_of(chain, ROLES))
        self._arrived = threading.Event()
        name = f"floor-{uuid.uuid4().hex[:8]}"
        self._client = PlainClient("127.0.0.1", port, name, lambda *_: self._arrived.set(), (self._last,))
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self._relay)
            opened.enter_context(self._client)
            end = time.monotonic() + WITHIN_S
            while not self._arrived.wait(0.1):  # by then it is subscribed
                assert time.monotonic() < end, f"nobody passes on to {self._last}"
                self._client.publish(self._first, bytes(self._size), 1)
            time.sleep(0.5)
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def pass_on(self) -> None:
        """Send the first message, and wait for the last."""
        self._arrived.clear()
        self._client.publish(self._first, bytes(self._size), 1)
        assert self._arrived.wait(WITHIN_S), f"nothing on {self._last}"
