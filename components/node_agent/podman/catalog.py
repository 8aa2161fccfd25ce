"""Which containers there are, as Podman last told, so that hot paths need not ask again."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from components.node_agent.runtime import Container, ContainerState, workload_name

_STATES: Final = {
    "running": ContainerState.RUNNING,
    "stopping": ContainerState.RUNNING,
    "paused": ContainerState.PAUSED,
}


def from_list(row: Mapping[str, Any]) -> Container:
    """A container from a row of `containers/json`. Its start is known to the second only."""
    return Container(
        name=workload_name(str((row.get("Names") or [""])[0]), str(row["Id"])),
        id=str(row["Id"]),
        state=_STATES.get(str(row.get("State")), ContainerState.STOPPED),
        image_id=str(row.get("ImageID") or ""),
        started_at=max(0, int(row.get("StartedAt") or 0)) * 1000,
        pid=int(row.get("Pid") or 0),
        infra=bool(row.get("IsInfra")),
        pod=str(row.get("PodName") or row.get("Pod") or ""),
        labels=row.get("Labels") or {},
    )


def from_inspect(body: Mapping[str, Any]) -> Container:
    """A container from `containers/{id}/json`."""
    state = body.get("State") or {}
    return Container(
        name=workload_name(str(body["Name"]), str(body["Id"])),
        id=str(body["Id"]),
        state=_STATES.get(str(state.get("Status")), ContainerState.STOPPED),
        image_id=str(body.get("Image") or ""),
        started_at=epoch_ms(str(state.get("StartedAt") or "")),
        pid=int(state.get("Pid") or 0),
        infra=bool(body.get("IsInfra")),
        pod=str(body.get("Pod") or ""),
        labels=(body.get("Config") or {}).get("Labels") or {},
    )


def epoch_ms(text: str) -> int:
    """Milliseconds of a time as Go writes it; 0 for its zero time, the year 1, and for what is no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000)) if moment.year > 1 else 0


class Catalog:
    """The containers last seen, by id and by name. Thread-safe."""

    def __init__(self) -> None:
        self._by_id: dict[str, Container] = {}
        self._by_name: dict[str, Container] = {}
        self._starts: dict[str, tuple[int, int]] = {}
        """By id: the pid and the start, epoch ms, of the last run that was looked at closely."""
        self._complete = False
        self._changes = 0
        self._watchers = 0
        self._lock = threading.Lock()

    @property
    def complete(self) -> bool:
        """Whether it holds all containers, as far as events tell; never while nobody hears events."""
        return self._complete and self._watchers > 0

    @property
    def changes(self) -> int:
        """A number that grows whenever something happened to a container."""
        return self._changes

    def all(self) -> list[Container]:
        """Every container."""
        with self._lock:
            return list(self._by_id.values())

    def find(self, workload: str) -> Container | None:
        """The container with this exact name or full id."""
        with self._lock:
            return self._by_name.get(workload) or self._by_id.get(workload)

    def replace(self, containers: Sequence[Container], changes: int) -> None:
        """Take over a complete list that was asked for when `changes` stood so."""
        with self._lock:
            self._by_id, self._by_name = {}, {}
            self._enter(containers)
            self._starts = {key: start for key, start in self._starts.items() if key in self._by_id}
            self._complete = changes == self._changes

    def put(self, container: Container) -> None:
        """Take over what a close look at one container told."""
        with self._lock:
            self._starts[container.id] = (container.pid, container.started_at)
            self._enter([container])

    def changed(self, container_id: str) -> None:
        """Something happened to a container: what is known of it is not to be trusted."""
        with self._lock:
            self._changes += 1
            self._complete = False
            self._forget(container_id)

    def watched(self, *, begins: bool) -> None:
        """A stream of events begins or ends; what happened in between may have been missed."""
        with self._lock:
            self._watchers += 1 if begins else -1
            self._changes += 1
            self._complete = False

    def precise_start(self, container: Container) -> Container | None:
        """The same container with its start to the millisecond, if it was not started again since; else None."""
        with self._lock:
            known = self._starts.get(container.id)
        if known is None or container.pid not in (0, known[0]) or known[1] // 1000 != container.started_at // 1000:
            return None
        return replace(container, started_at=known[1])

    def _enter(self, containers: Iterable[Container]) -> None:
        for container in containers:
            self._forget(container.id)
            namesake = self._by_name.get(container.name)
            if namesake is not None:
                self._forget(namesake.id)
            self._by_id[container.id] = container
            self._by_name[container.name] = container

    def _forget(self, container_id: str) -> None:
        old = self._by_id.pop(container_id, None)
        if old is not None:
            self._by_name.pop(old.name, None)
