"""Several components in one process: each its own connection, inbox and worker; one end for all."""

import gc
import logging
import queue
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from components.component import Component
from components.shell.counters import BrokerFigures, new_registry
from components.shell.http import LOOPBACK, HealthServer
from components.shell.inbox import Inbox
from components.shell.shell import Connect, Shell
from schemas.message import Wire

_log = logging.getLogger(__name__)

END_WITHIN_S: Final = 10.0
"""How long all components together may take to end; then the process ends without them."""
ALLOCATIONS_PER_COLLECTION: Final = 100_000
"""How many new objects make Python look for cycles among them; with its 700 MonitoringServer is a third slower.

What it keeps of each container is new with every message and in no cycle, so looking at it finds nothing.
"""

Build = Callable[[Callable[[object], None]], Component]
"""Makes a component that may post items into its own inbox from its own threads."""


class Process:
    """The components of this process."""

    def __init__(
        self,
        connect: Connect,
        *,
        topic_prefix: str = "",
        wire: Wire = Wire.MSGPACK,
        metrics_port: int | None = None,
        metrics_host: str = LOOPBACK,
        statistics: BrokerFigures | None = None,
        expiries: Mapping[str, float] | None = None,
        also: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`metrics_port` 0 takes a free one, None serves nothing. `also` tells of trouble beside the components.

        `expiries`, which may be filled later: when certificates of components end, as Unix time.
        Raises PortTakenError.
        """
        self.shells: list[Shell] = []
        self._connect = connect
        self._topic_prefix = topic_prefix
        self._wire = wire
        self._also = also
        self._stopping = False
        self._ends: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._http = None
        if metrics_port is not None:
            self._http = HealthServer(
                metrics_port, new_registry(self.shells, statistics, expiries), self.problems, host=metrics_host
            )

    @property
    def metrics_port(self) -> int | None:
        """Where /metrics and /healthz are; None: nowhere."""
        return self._http.port if self._http else None

    def add(self, build: Build) -> Component:
        """Make a component and its shell. Raises what `build` raises."""
        component, shell = self._made(build)
        self.shells.append(shell)
        return component

    def _made(self, build: Build) -> tuple[Component, Shell]:
        inbox = Inbox()
        component = build(inbox.post)
        shell = Shell(
            component,
            inbox,
            self._connect,
            topic_prefix=self._topic_prefix,
            wire=self._wire,
            on_end=lambda: self._ended(shell, build),
        )
        return component, shell

    def _ended(self, shell: Shell, build: Build) -> None:
        """A component ended by itself, for good or to begin anew. The last act of its worker."""
        if shell.fatal is not None:
            self._ends.put(f"{shell.name}: {shell.fatal}")
        elif not self._stopping:
            try:
                _, fresh = self._made(build)
            except Exception as error:
                _log.exception("%s cannot begin anew", shell.name)
                self._ends.put(f"{shell.name}: cannot begin anew: {error}")
                return
            self.shells[self.shells.index(shell)] = fresh
            fresh.start()
            if self._stopping:  # since it was asked above
                fresh.stop()

    def problems(self) -> list[str]:
        """What is wrong, one text each; none: all is well."""
        texts: Iterable[str | None] = (self._also(), *(shell.problem for shell in self.shells))
        return [text for text in texts if text]

    def start(self) -> None:
        """Let all components work. Python's garbage collection looks less often from then on."""
        gc.set_threshold(ALLOCATIONS_PER_COLLECTION, *gc.get_threshold()[1:])
        if self._http:
            self._http.start()
        for shell in self.shells:
            shell.start()

    def end(self, why: str | None = None) -> None:
        """Let `wait` return; safe to call from a signal handler and from any thread."""
        self._ends.put(why)

    def wait(self) -> str | None:
        """Wait for the end: None when it was asked for, else why a component ended by itself."""
        return self._ends.get()

    def stop(self) -> bool:
        """Let all components finish what they do and say goodbye. False when one did not end in time."""
        self._stopping = True
        for shell in self.shells:
            shell.stop()
        until = time.monotonic() + END_WITHIN_S
        hanging = [shell.name for shell in self.shells if not shell.join(max(0.0, until - time.monotonic()))]
        if self._http:
            self._http.stop()
        if hanging:
            _log.error("did not end within %s s: %s", END_WITHIN_S, ", ".join(hanging))
        return not hanging
