"""Watches the runtime's events in a thread of its own, and tells the component that something changed.

Events come twice and get lost, so they carry no knowledge: they only say when to look.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from components.node_agent.runtime import ContainerRuntime, ContainerRuntimeError, EventStream, RuntimeEvent

_log = logging.getLogger(__name__)

BACKOFF_FIRST_S: Final = 0.2
BACKOFF_SLOWEST_S: Final = 15.0
STEADY_S: Final = 10.0
"""A stream that stood so long resets the back-off."""
REMEMBERED: Final = 1024

LIMITS_CHANGED: Final = "update"
"""The action of an event that tells of changed limits, ours or others' (since Podman 5.1)."""


@dataclass(frozen=True)
class ContainersChanged:
    """Containers started, stopped, were re-created or removed."""

    limits_only: bool = False
    """Only limits were changed, by whomever."""


@dataclass(frozen=True)
class RuntimeFound:
    """A stream of events stands. Changes before it may have been missed."""


@dataclass(frozen=True)
class RuntimeLost:
    """The runtime cannot be reached, and why."""

    text: str


Notice = ContainersChanged | RuntimeFound | RuntimeLost


class EventWatcher:
    """Keeps a stream of events open, with back-off, until it is stopped."""

    def __init__(self, runtime: ContainerRuntime, notify: Callable[[Notice], None]) -> None:
        """`notify` is called from the watcher's thread; it must not block."""
        self._runtime = runtime
        self._notify = notify
        self._stop = threading.Event()
        self._stream: EventStream | None = None
        self._thread = threading.Thread(target=self._run, name="container-events", daemon=True)
        self._seen = Seen()
        self._since: float | None = None

    def start(self) -> None:
        """Begin to watch. Returns at once."""
        self._thread.start()

    def stop(self, wait_s: float = 1.0) -> None:
        """End; waits a little for the thread."""
        self._stop.set()
        stream = self._stream
        if stream is not None:
            stream.close()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _run(self) -> None:
        pause_s = BACKOFF_FIRST_S
        while not self._stop.is_set():
            opened = time.monotonic()
            try:
                self._watch()
            except ContainerRuntimeError as error:
                if self._stop.is_set():
                    return
                _log.warning("cannot watch container events: %s", error)
                self._notify(RuntimeLost(str(error)))
            except Exception:  # noqa: BLE001 - a bug must not blind the agent for good; it is logged, and tried again
                _log.exception("watching container events failed")
            if time.monotonic() - opened > STEADY_S:
                pause_s = BACKOFF_FIRST_S
            self._stop.wait(pause_s)
            pause_s = min(pause_s * 2, BACKOFF_SLOWEST_S)

    def _watch(self) -> None:
        """Hear one stream to its end. Raises ContainerRuntimeError when it breaks."""
        stream = self._stream = self._runtime.open_events(self._since)
        self._since = self._since or time.time()
        if self._stop.is_set():
            stream.close()
        self._notify(RuntimeFound())
        for event in stream:
            self._since = max(self._since, event.time_nano / 1e9)
            if self._seen.first_time(event):
                self._notify(ContainersChanged(limits_only=event.action == LIMITS_CHANGED))


class Seen:
    """Recognizes events that come again after a reconnection. Remembers the last 1024."""

    def __init__(self) -> None:
        self._order: deque[RuntimeEvent] = deque()
        self._known: set[RuntimeEvent] = set()

    def first_time(self, event: RuntimeEvent) -> bool:
        """Whether the event was not seen before; two are the same by id, action and time."""
        if event in self._known:
            return False
        self._known.add(event)
        self._order.append(event)
        if len(self._order) > REMEMBERED:
            self._known.discard(self._order.popleft())
        return True
