"""A shell at work for a test, with its bus in reach."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker.bus import BusEvent, Identity
from components.shell.inbox import Inbox
from components.shell.shell import Shell
from tests.shell.doubles import Probe, RecordingBus

PATIENCE_S = 15.0


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.002)


class Stage:
    """A shell with its bus in reach."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.inbox = Inbox()
        self.ended = threading.Event()
        self.buses: list[RecordingBus] = []
        self.shell = Shell(probe, self.inbox, self._connect, on_end=self.ended.set)

    def _connect(self, identity: Identity, deliver: Callable[[BusEvent], bool]) -> RecordingBus:
        self.buses.append(RecordingBus(identity, deliver))
        return self.buses[0]

    @property
    def bus(self) -> RecordingBus:
        return self.buses[0]

    def stop(self) -> None:
        self.shell.stop()
        assert self.shell.join(PATIENCE_S)


@contextmanager
def running(probe: Probe) -> Iterator[Stage]:
    stage = Stage(probe)
    stage.shell.start()
    try:
        until(lambda: stage.shell.up, "connected")
        yield stage
    finally:
        stage.stop()
