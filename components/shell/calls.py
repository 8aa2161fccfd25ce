"""Blocking work of a component, in a few threads of its own, so that one hung call blocks nobody else."""

import contextvars
import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

from components.component import Call, CallFailed

_log = logging.getLogger(__name__)

CALLS_AT_ONCE: Final = 4
CALLS_OPEN_MAX: Final = 10_000


class CallPool:
    """Runs calls; what they return, or a `CallFailed`, goes to `done`, from a thread of the pool.

    All methods belong to the component's worker. The threads are daemons: a call that hangs for ever does not
    keep the process from ending.
    """

    def __init__(self, name: str, done: Callable[[object], None], size: int = CALLS_AT_ONCE) -> None:
        self.open = 0
        """Calls whose result was not taken back yet."""
        self._name = name
        self._done = done
        self._size = size
        self._queue: queue.SimpleQueue[tuple[contextvars.Context, Call] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, call: Call) -> None:
        """Run a call as soon as a thread is free. Beyond 10,000 open ones it fails at once."""
        self.open += 1
        if self.open > CALLS_OPEN_MAX:
            self._done(CallFailed(call, OverflowError(f"{CALLS_OPEN_MAX} calls are open already")))
            return
        if len(self._threads) < min(self._size, self.open):
            self._start_thread()
        self._queue.put((contextvars.copy_context(), call))

    def taken(self) -> None:
        """Note that one result was taken back."""
        self.open -= 1

    def stop(self) -> None:
        """Begin no call after those that wait; does not wait for those that run."""
        for _ in self._threads:
            self._queue.put(None)

    def _start_thread(self) -> None:
        name = f"{self._name}-call-{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            context, call = work
            self._done(context.run(_run, call))


def _run(call: Call) -> object:
    try:
        return call.run()
    except Exception as error:
        _log.exception("call failed", extra={"call": call.name})
        return CallFailed(call, error)
