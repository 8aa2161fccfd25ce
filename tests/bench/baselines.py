"""What the runtime itself takes for a change of limits: its REST call, and its command."""

import http.client
import json
import socket
import time
from pathlib import Path
from typing import Any

from components.node_agent.podman.private import PrivatePodman


class BareRest(http.client.HTTPConnection):
    """A kept-alive connection to libpod and nothing else."""

    def __init__(self, path: Path) -> None:
        super().__init__("podman", timeout=30)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)

    def update(self, container_id: str, body: Any) -> float:
        """Change limits; how long until the answer, seconds."""
        began = time.perf_counter()
        headers = {"Content-Type": "application/json"}
        self.request("POST", f"/v4.0.0/libpod/containers/{container_id}/update", json.dumps(body), headers)
        response = self.getresponse()
        text = response.read()
        took = time.perf_counter() - began
        if response.status != http.client.CREATED:
            raise AssertionError(f"libpod: {response.status} {text!r}")
        return took


def update_by_command(podman: PrivatePodman, name: str, quota: int) -> float:
    """`podman update`; how long, seconds."""
    began = time.perf_counter()
    podman.command("update", f"--cpu-quota={quota}", "--cpu-period=100000", name)
    return time.perf_counter() - began


def cpu_seconds(pid: int) -> float:
    """CPU time a process has used, user and system, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident_mib(pid: int) -> float:
    """Memory a process holds, MiB: its own share of what it shares with others."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no Pss for {pid}")
