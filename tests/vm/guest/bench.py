"""A real Podman to try updates on: makes containers through its REST API, and reads the kernel by itself.

Reads cgroups without our own reader, so that a mistake in that one shows. Runs in the machine under test, and on a
host for its own Podman.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

import podman

from components.node_agent.podman.adapter import PodmanRuntime
from components.node_agent.stamps import Stamps
from components.node_agent.store import MemoryStore
from components.node_agent.update import UpdateProcedure
from components.node_agent.verdict import UpdateOrder, UpdateResult
from schemas.limits import Limits

Made = TypeVar("Made")
CALL_TIMEOUT_S: Final = 60.0
MARGIN_MIB: Final = 32
"""The default of node_agent.memory_margin_mib."""
BYTES_PER_MIB: Final = 1 << 20
PERIOD_US: Final = 100_000
CRUN_SUBGROUP: Final = "container"
"""With systemd, crun makes one of this name below the scope."""
UNLIMITED_BYTES: Final = 1 << 60
HELD_MIB: Final = 48
HOLD: Final = f"""
/bin/busybox dd if=/dev/zero of=/dev/shm/held bs=1M count={HELD_MIB}
echo held
exec /bin/busybox sleep 100000
"""
"""For a container that holds memory which cannot be taken back."""


def resource_limits(cpu: int | None = None, memory: int | None = None) -> dict[str, Any]:
    """Limits as Podman wants them at creation; millicores and MiB."""
    limits: dict[str, Any] = {}
    if cpu is not None:
        limits["cpu"] = {"quota": cpu * PERIOD_US // 1000, "period": PERIOD_US}
    if memory is not None:
        limits["memory"] = {"limit": memory * BYTES_PER_MIB}
    return {"resource_limits": limits} if limits else {}


class Bench:
    """One Podman service, with our own update procedure on it."""

    def __init__(self, url: str, cli: Callable[..., str], image: str) -> None:
        """`cli` runs Podman's command line on the same storage; `image` holds /bin/busybox, and needs no more."""
        self.cli = cli
        self.image = image
        self._api = podman.PodmanClient(base_url=url, timeout=CALL_TIMEOUT_S).api
        self.runtime = PodmanRuntime(url, CALL_TIMEOUT_S)
        self.procedure = UpdateProcedure(
            self.runtime, MemoryStore(), Stamps(), margin_mib=MARGIN_MIB, clock=time.monotonic
        )
        self._lasting = ExitStack()
        self._made = dict[object, Any]()

    def lasting(self, make: Callable[["Bench"], AbstractContextManager[Made]]) -> Made:
        """What `make` makes, from its first use until `close`: a pod takes an emulated machine ten seconds."""
        if make not in self._made:
            self._made[make] = self._lasting.enter_context(make(self))
        made: Made = self._made[make]
        return made

    def close(self) -> None:
        """Undo what was to last."""
        self._made.clear()
        self._lasting.close()

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One call of Podman's REST API. Raises podman's APIError when it fails."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        ask = {"GET": self._api.get, "POST": self._api.post, "DELETE": self._api.delete}[method]
        response = ask(path, data=data, headers=headers, timeout=CALL_TIMEOUT_S)
        response.raise_for_status()
        return response.json() if response.content[:1] in (b"{", b"[") else response.text

    @property
    def manager(self) -> str:
        """Who makes cgroups for this service: "systemd" or "cgroupfs"."""
        return str(self.call("GET", "/info")["host"]["cgroupManager"])

    def start(self, name: str, *, script: str = "exec /bin/busybox sleep 100000", **options: Any) -> str:
        """Run a container with busybox's shell, in place of an older one of that name; its full id."""
        self.remove(name)
        body = {
            "image": self.image,
            "name": name,
            "command": ["/bin/busybox", "sh", "-c", script],
            "netns": {"nsmode": "none"},
            "stop_timeout": 0,
        }
        identity = str(self.call("POST", "/containers/create", body | options)["Id"])
        self.call("POST", f"/containers/{identity}/start")
        return identity

    def remove(self, name: str) -> None:
        """End and remove a container, if there is one."""
        self._api.delete(f"/containers/{name}", params={"force": "true", "timeout": "0"}, timeout=CALL_TIMEOUT_S)

    def runs(self, name: str) -> bool:
        """Whether there is such a container, and it runs."""
        rows = self.call("GET", "/containers/json")
        return any(name in row["Names"] for row in rows)

    def update(self, workload: str, *, runtime_id: str | None = None, **target: Any) -> UpdateResult:
        """Let the node agent's procedure give a container these limits."""
        order = UpdateOrder(workload, Limits(**target), time.monotonic() + CALL_TIMEOUT_S, runtime_id)
        return self.procedure.run(order)

    def kernel(self, name: str) -> "KernelView":
        """What the kernel says of a running container."""
        told = self.call("GET", f"/containers/{name}/json")
        return KernelView(int(told["State"]["Pid"]), told["Id"])


class KernelView:
    """The cgroup files of one container, found through its first process."""

    def __init__(self, pid: int, identity: str) -> None:
        self._identity = identity
        self._paths = dict[str, str]()
        for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                self._paths[controller] = path
        self.version = 1 if "memory" in self._paths else 2

    def directories(self, controller: str) -> list[Path]:
        """From the container's leaf to the root."""
        if self.version == 2:
            top, path = Path("/sys/fs/cgroup"), self._paths[""]
        else:
            top, path = Path("/sys/fs/cgroup") / controller, self._paths[controller]
        leaf = top / path.lstrip("/")
        return [leaf, *(parent for parent in leaf.parents if parent.is_relative_to(top) and parent != top)]

    def read(self, controller: str, file: str) -> dict[str, str]:
        """A file's text in each directory from the leaf up to the root that has it."""
        return {
            directory.name: (directory / file).read_text(encoding="ascii").strip()
            for directory in self.directories(controller)
            if (directory / file).exists()
        }

    def cpu(self) -> int | None:
        """Millicores in force."""
        if self.version == 2:
            pairs = [text.split() for text in self.read("cpu", "cpu.max").values()]
        else:
            quotas, periods = self.read("cpu", "cpu.cfs_quota_us"), self.read("cpu", "cpu.cfs_period_us")
            pairs = [[quotas[name], periods[name]] for name in quotas]
        limits = [int(quota) * 1000 // int(period) for quota, period in pairs if quota not in ("max", "-1")]
        return min(limits, default=None)

    def memory(self) -> int | None:
        """MiB in force."""
        texts = self.read("memory", "memory.max" if self.version == 2 else "memory.limit_in_bytes").values()
        limits = [int(text) for text in texts if text != "max" and int(text) < UNLIMITED_BYTES]
        return min(limits) // BYTES_PER_MIB if limits else None

    def weight(self) -> int | None:
        """CPU weight (cgroup v2) or shares (v1) of the outermost cgroup of the container alone, if any."""
        if self.version == 1:
            return int(next(iter(self.read("cpu", "cpu.shares").values())))
        own = [
            text
            for name, text in self.read("cpu", "cpu.weight").items()
            if name == CRUN_SUBGROUP or self._identity in name
        ]
        return int(own[-1]) if own else None

    def memory_used(self) -> int:
        """Bytes, with the page cache."""
        file = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        return int(next(iter(self.read("memory", file).values())))

    def cpuset(self) -> str:
        """CPUs in effect."""
        file = "cpuset.cpus.effective" if self.version == 2 else "cpuset.effective_cpus"
        return next(iter(self.read("cpuset", file).values()))

    def killed(self) -> int:
        """Processes of the container that were killed for lack of memory."""
        text = next(
            iter(self.read("memory", "memory.events" if self.version == 2 else "memory.oom_control").values())
        )
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))


def run(*argv: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
    """Run a command; its output. Raises RuntimeError with what it said when it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, env=os.environ, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout
