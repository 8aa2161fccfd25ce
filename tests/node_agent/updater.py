"""The update procedure on a runtime, called in one line."""

import time
from collections.abc import Callable

from components.node_agent.podman.adapter import PodmanRuntime
from components.node_agent.runtime import Container, Enforced, Host
from components.node_agent.stamps import Stamps
from components.node_agent.store import MemoryStore
from components.node_agent.update import UpdateProcedure
from components.node_agent.verdict import UpdateOrder, UpdateResult
from schemas.limits import Limits
from tests.fixtures.podman import Box

TIMEOUT_S = 10.0
MARGIN_MIB = 32


class Updater:
    """Updates containers of a real Podman."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self.runtime = PodmanRuntime(url, timeout_s)
        self.disturbed = Disturbed(self.runtime)
        self.intents = MemoryStore()
        self._procedure = UpdateProcedure(
            self.disturbed, self.intents, Stamps(), margin_mib=MARGIN_MIB, clock=time.monotonic
        )

    def __call__(self, workload: Box | str, *, runtime_id: str | None = None, **limits: int | str) -> UpdateResult:
        name = workload if isinstance(workload, str) else workload.name
        target = Limits.model_validate(limits)
        return self._procedure.run(UpdateOrder(name, target, time.monotonic() + TIMEOUT_S, runtime_id))


class Disturbed:
    """A runtime to which something happens right before or after an update."""

    def __init__(self, runtime: PodmanRuntime) -> None:
        self._runtime = runtime
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        self.calls: list[Limits] = []
        self.info = runtime.info
        self.containers = runtime.containers
        self.open_events = runtime.open_events
        self.close = runtime.close

    def host(self) -> Host:
        return self._runtime.host()

    def resolve(self, workload: str) -> Container:
        return self._runtime.resolve(workload)

    def read(self, container: Container) -> Enforced:
        return self._runtime.read(container)

    def update(self, container: Container, changes: Limits) -> None:
        self.calls.append(changes)
        self.before()
        try:
            self._runtime.update(container, changes)
        finally:
            self.after()


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Poll a real Podman or kernel until something is so."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"waited in vain until {what}"
        time.sleep(0.02)
