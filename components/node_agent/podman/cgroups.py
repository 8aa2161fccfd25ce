"""Where a container's limits lie in the kernel: cgroup v1, v2, and hybrids of both.

Found through /proc, since what Podman calls the cgroup path is trimmed to systemd's scope, and empty when stopped.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from components.node_agent.runtime import NotRunningError, QueryFailedError

CONTROLLERS: Final = ("cpu", "memory", "cpuset", "cpuacct")
CRUN_SUBGROUP: Final = "container"
"""crun, with systemd, puts a container's limits into a cgroup of this name below the scope."""

NAMESPACE_REMEDY: Final = "run the agent in the host's namespaces (podman run --pid=host --cgroupns=host)"


@dataclass(frozen=True, slots=True)
class Levels:
    """The cgroup directories that bind a container, for one controller, leaf first."""

    own: tuple[str, ...]
    """Made for this container alone; empty when it has none (`--cgroups=disabled`)."""
    above: tuple[str, ...]
    """Its pod's, its slices', up to the root."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one container lies, per controller. Under cgroup v2 all controllers share one place."""

    version: int
    levels: Mapping[str, Levels]


@dataclass(frozen=True, slots=True)
class _Mount:
    directory: str
    root: str


def read_text(path: str) -> str:
    """A small file of the kernel, in one read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65_536).decode()
    finally:
        os.close(descriptor)


class CgroupTree:
    """The mounted cgroup hierarchies. `root` is "/" but for tests, which bring a tree of files."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Raises QueryFailedError when no usable hierarchy is mounted."""
        self._root = str(root).rstrip("/")
        self._v1: dict[str, _Mount] = {}
        self._v2: _Mount | None = None
        try:
            lines = Path(f"{self._root}/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise QueryFailedError(f"cannot tell where cgroups are mounted: {error}") from error
        for line in lines:
            self._note_mount(line)
        if self.version == 0:
            raise QueryFailedError("no cgroup hierarchy with CPU and memory is mounted; mount /sys/fs/cgroup")

    def _note_mount(self, line: str) -> None:
        mount, _, filesystem = line.partition(" - ")
        fields, kind = mount.split(" "), filesystem.split(" ")
        if kind[0] == "cgroup2":
            self._v2 = self._v2 or _Mount(self._root + fields[4], fields[3].rstrip("/"))
        elif kind[0] == "cgroup":
            for controller in kind[2].split(","):
                if controller in CONTROLLERS:
                    self._v1.setdefault(controller, _Mount(self._root + fields[4], fields[3].rstrip("/")))

    @property
    def version(self) -> int:
        """1 or 2: which of them controls CPU and memory; 0: neither. A hybrid is 1."""
        if "cpu" in self._v1 and "memory" in self._v1:
            return 1
        return 2 if self._v2 is not None else 0

    def root_directory(self, controller: str) -> str | None:
        """The top directory of a controller's hierarchy; None when it is not mounted."""
        mount = self._v2 if self.version == 2 else self._v1.get(controller)
        return None if mount is None else mount.directory

    def memberships(self, pid: int) -> str:
        """The text of /proc/PID/cgroup. Raises NotRunningError when there is no such process."""
        try:
            return read_text(f"{self._root}/proc/{pid}/cgroup")
        except (FileNotFoundError, ProcessLookupError):
            raise NotRunningError(f"its first process ({pid}) is gone") from None
        except OSError as error:
            raise QueryFailedError(f"cannot read /proc/{pid}/cgroup: {error}; {NAMESPACE_REMEDY}") from error

    def place(self, container_id: str, memberships: str) -> Placement:
        """Where the container lies, from the text of its first process's /proc/PID/cgroup.

        Raises QueryFailedError when its cgroup cannot be seen from here.
        """
        paths: dict[str, str] = {}
        for line in memberships.splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                paths[controller] = path
        if self.version == 2 and self._v2 is not None:
            levels = _levels(container_id, self._v2, paths.get("", "/"))
            return Placement(2, dict.fromkeys(CONTROLLERS, levels))
        return Placement(
            1, {name: _levels(container_id, mount, paths.get(name, "/")) for name, mount in self._v1.items()}
        )


def _levels(container_id: str, mount: _Mount, path: str) -> Levels:
    if path.startswith("/.."):
        raise QueryFailedError(
            f"the container's cgroup {path} lies outside of what is seen here; {NAMESPACE_REMEDY}"
        )
    if mount.root and not (path + "/").startswith(mount.root + "/"):
        raise QueryFailedError(f"the container's cgroup {path} is not mounted here; {NAMESPACE_REMEDY}")
    names = [name for name in path[len(mount.root) :].split("/") if name]
    directories = [mount.directory]
    for name in names:
        directories.append(f"{directories[-1]}/{name}")
    top = next((depth for depth, name in enumerate(names) if container_id in name), None)
    if top is None:
        return Levels((), tuple(reversed(directories)))
    # What lies deeper is the workload's own affair, such as systemd's init.scope inside the container.
    leaf = top + 1 if names[top + 1 : top + 2] == [CRUN_SUBGROUP] else top
    return Levels(tuple(reversed(directories[top + 1 : leaf + 2])), tuple(reversed(directories[: top + 1])))
