"""Podman as a container runtime: writes through its REST API, reads the truth from the kernel."""

import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from components.node_agent.podman.catalog import Catalog, from_inspect, from_list
from components.node_agent.podman.kernel import CONTROLLER_OF, KernelReader, OwnValues, not_delegated
from components.node_agent.podman.plan import Resources, before, full_set, resources_for
from components.node_agent.podman.rest import PodmanEvents, PodmanRest
from components.node_agent.runtime import (
    Container,
    ContainerRuntimeError,
    Enforced,
    Host,
    NotRunningError,
    RuntimeEvent,
    RuntimeInfo,
    RuntimeRefusedError,
    RuntimeTimeoutError,
    UnknownContainerError,
)
from schemas.limits import Limits, mismatches

_log = logging.getLogger(__name__)

FIRST_WITH_UPDATE: Final = (4, 3)
FIRST_THAT_STORES: Final = (5, 1)
FIRST_THAT_MERGES: Final = (5, 4)
CLOSE_LOOKS_MAX: Final = 200
"""Containers inspected for their exact start in one listing; the others' is known to the second."""
ASK_AGAIN_S: Final = 5.0
"""How long a Podman that could not tell its containers is not asked again where memory will do."""

RELEVANT_EVENTS: Final = ("start", "died", "remove", "rename", "pause", "unpause", "update")


def default_url() -> str:
    """Where Podman's socket is: the system's for root, else the user's."""
    if os.geteuid() == 0:
        return "unix:///run/podman/podman.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    return f"unix://{runtime}/podman/podman.sock"


class PodmanRuntime:
    """Podman on this machine. Keeps the protocol `ContainerRuntime`."""

    def __init__(self, url: str, timeout_s: float, root: Path = Path("/")) -> None:
        """Raises ValueError for an unusable URL, QueryFailedError when no cgroups are mounted below `root`."""
        self._rest = PodmanRest(url, timeout_s)
        self._kernel = KernelReader(root)
        self._catalog = Catalog()
        self._version: tuple[int, ...] | None = None
        self._ask_again_at = 0.0

    def info(self) -> RuntimeInfo:
        """Podman's version, what it may change, and the machine. Takes about 0.3 s: Podman measures CPU use."""
        text = self._rest.version()
        body = self._rest.get("/info")
        host = body.get("host") or {}
        runtime = host.get("ociRuntime") or {}
        self._kernel.weights.runtime_is(str(runtime.get("name")), _numbers(str(runtime.get("version"))))
        self._version = _numbers(text)
        return RuntimeInfo(
            version=text,
            total=self._kernel.host().total,
            cgroup_version=self._kernel.version,
            rootless=bool((host.get("security") or {}).get("rootless")),
            unsupported=_unsupported(text, self._version, host.get("cgroupControllers") or []),
        )

    def host(self) -> Host:
        """The machine as the kernel shows it."""
        return self._kernel.host()

    def containers(self, *, fresh: bool) -> Sequence[Container]:
        """All containers; not `fresh`: from memory while no event told of a change, or Podman cannot be asked."""
        known = [] if fresh else self._catalog.all()
        if not fresh and (self._catalog.complete or (known and time.monotonic() < self._ask_again_at)):
            return known
        changes = self._catalog.changes
        try:
            rows = self._rest.get("/containers/json", all="true")
        except ContainerRuntimeError:
            self._ask_again_at = time.monotonic() + ASK_AGAIN_S
            if known:
                return known
            raise
        listed = [from_list(row) for row in rows]
        containers = self._with_exact_starts([container for container in listed if container.name])
        self._catalog.replace(containers, changes)
        return containers

    def _with_exact_starts(self, containers: list[Container]) -> list[Container]:
        """A restart within one second of the last would go unnoticed if starts were known to the second only."""
        looks = CLOSE_LOOKS_MAX
        exact = []
        for container in containers:
            known = self._catalog.precise_start(container)
            if known is None and container.alive and looks > 0:
                looks -= 1
                try:
                    known = self._inspect(container.id)
                except UnknownContainerError:
                    continue  # removed meanwhile
                except ContainerRuntimeError as error:
                    _log.warning("cannot look closely at %s: %s", container.name, error)
                    looks = 0
            exact.append(known or container)
        return exact

    def resolve(self, workload: str) -> Container:
        """The container of this exact name or full id; Podman is asked unless it was seen, and still runs."""
        known = self._catalog.find(workload)
        if known is not None and self._kernel.alive(known):
            return known
        found = self._inspect(workload)
        # Podman also takes the beginning of an id.
        if workload not in (found.name, found.id):
            raise UnknownContainerError(f"no container is named {workload} or has it as its full id")
        return found

    def _inspect(self, workload: str) -> Container:
        container = from_inspect(self._rest.get(f"/containers/{quote(workload, safe='')}/json"))
        self._catalog.put(container)
        return container

    def read(self, container: Container) -> Enforced:
        """What the kernel enforces on the container."""
        return self._kernel.read(container)

    def update(self, container: Container, changes: Limits) -> None:
        """One REST call for all changes. What Podman stored but did not apply is taken back."""
        own = self._kernel.own_values(container)
        stores = self._podman_version() >= FIRST_THAT_STORES
        shown = self._kernel.read(container).limits if stores else changes
        if changes.cpu_shares is not None:
            self._kernel.weights.asked(container.id, changes.cpu_shares)
        body = self._complete(container, resources_for(changes, own), own)
        try:
            self._rest.update(container.id, body)
        except RuntimeRefusedError as error:
            refused = error
        else:
            return
        # Outside the handler, or a failure of the take-back would be told as one that came of the refusal.
        if stores:
            self._store_again(container, changes, own, shown, refused)
        raise refused

    def _complete(self, container: Container, body: Resources, own: OwnValues) -> Resources:
        """The body with all that must be said besides, by version, so that nothing else changes.

        Since 5.1 Podman gives the runtime all it has stored, so a limit that others changed in the kernel would
        fall back unless it is said, too. 5.1 to 5.3 even forget what is not said.
        """
        if self._podman_version() < FIRST_THAT_STORES:
            return body
        if self._podman_version() >= FIRST_THAT_MERGES:
            return full_set(body, own, {})
        inspected = self._rest.get(f"/containers/{container.id}/json")
        return full_set(body, own, inspected.get("HostConfig") or {})

    def _store_again(
        self, container: Container, changes: Limits, own: OwnValues, shown: Limits, cause: RuntimeRefusedError
    ) -> None:
        """Post the old values of what did not come into force, or the next start would bring the new ones.

        Where that fails, too, raises RuntimeTimeoutError when its outcome is unknown, else RuntimeRefusedError.
        """
        try:
            lost = changes.only(set(mismatches(changes, self._kernel.read(container).limits)))
            if not lost.empty:
                body = before(lost, own, shown, self._kernel.host())
                self._rest.update(
                    container.id, self._complete(container, body, self._kernel.own_values(container))
                )
        except NotRunningError:
            return
        except ContainerRuntimeError as error:
            _log.warning("%s: Podman may have stored limits that it refused to apply: %s", container.name, error)
            text = (
                f"{cause}; and Podman did not take back the refused values ({error}), so a restart may bring them"
            )
            if isinstance(error, RuntimeTimeoutError):  # the old values may still be on their way into force
                raise RuntimeTimeoutError(text) from cause
            raise RuntimeRefusedError(text) from cause

    def _podman_version(self) -> tuple[int, ...]:
        if self._version is None:
            self._version = _numbers(self._rest.version())
        return self._version

    def open_events(self, since: float | None) -> "WatchedEvents":
        """Events of containers. A new stream may mean another Podman, so its version is asked for anew."""
        self._version = None
        filters = {"type": ["container"], "event": list(RELEVANT_EVENTS)}
        return WatchedEvents(self._rest.open_events(filters, since), self._catalog)

    def close(self) -> None:
        """Close connections."""
        self._rest.close()


class WatchedEvents:
    """Podman's events; each also makes the catalog forget what it told about."""

    def __init__(self, events: PodmanEvents, catalog: Catalog) -> None:
        self._events = events
        self._catalog = catalog

    def __iter__(self) -> Iterator[RuntimeEvent]:
        """Wait for events."""
        self._catalog.watched(begins=True)
        try:
            for event in self._events:
                if event.action != "update":
                    self._catalog.changed(event.container_id)
                yield event
        finally:
            self._catalog.watched(begins=False)

    def close(self) -> None:
        """End the iteration."""
        self._events.close()


def _numbers(text: str) -> tuple[int, ...]:
    """The first dotted number in a text: "runc version 1.1.5+ds1" is (1, 1, 5); () when there is none."""
    match = re.search(r"\d+(\.\d+)+", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def _unsupported(text: str, version: tuple[int, ...], controllers: Sequence[str]) -> dict[str, str]:
    if version < FIRST_WITH_UPDATE:
        why = f"Podman {text or 'of unknown version'} cannot update running containers; 4.3.0 or newer can"
        return dict.fromkeys(CONTROLLER_OF, why)
    return {
        limit: not_delegated(controller)
        for limit, controller in CONTROLLER_OF.items()
        if controller not in controllers
    }
