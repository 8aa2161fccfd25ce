"""A small REST service that stands for Podman versions that are not installed here.

It keeps stored limits as they do, and writes those in force into a cgroup tree of files. Real newer versions run
in the virtual machine's tests.
"""

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast

from tests.node_agent.test_cgroups import ID, PID, SYSTEMD, V2_ALL, V2_FREE, Tree, unified

MIB = 1024 * 1024


class NewerPodman:
    """A service of some version with one running container, `app`, on cgroup v2."""

    def __init__(self, directory: Path, version: str) -> None:
        self.version = version
        self.bodies: list[dict[str, Any]] = []
        self.stored: dict[str, Any] = {"CpuShares": 512, "PidsLimit": 2048}
        self.refuse_cpu = False
        """Fail at the CPU, after the memory was applied."""
        self.refuse_all = 0
        """How many of the next updates are refused altogether."""
        self.complaint = "failed: exit status 1"
        self.drop = 0
        """How many of the next requests get no answer: the connection is closed."""
        self.silent_at: set[int] = set()
        """Which updates, counted from 1, are carried out without an answer: the connection is closed."""
        self.nonsense = False
        """Answer GETs with something that is no JSON."""
        self.gets = 0
        self.streams: list[str] = []
        """The path of every stream of events that was opened; each tells of one start, and then nothing."""
        self._closing = threading.Event()
        self.tree: Tree = unified(directory, SYSTEMD)
        self.tree.cgroup("", **V2_ALL)
        self.tree.cgroup(SYSTEMD, **V2_FREE, **V2_ALL, memory__current="1048576")
        self.force({"cpu": {"quota": 50_000, "period": 100_000}, "memory": {"limit": 64 * MIB}})
        self.socket = directory / "api.sock"
        self._server = _Server(str(self.socket), _Handler)
        self._server.podman = self
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def force(self, body: dict[str, Any]) -> None:
        """Bring limits into force."""
        cpu, memory = body.get("cpu", {}), body.get("memory", {})
        if "quota" in cpu:
            self.tree.cgroup(SYSTEMD, cpu__max=f"{cpu['quota']} {cpu['period']}")
        if "limit" in memory:
            self.tree.cgroup(SYSTEMD, memory__max=str(memory["limit"]), memory__swap__max="0")

    def update(self, body: dict[str, Any]) -> int:
        """Store first, then apply, as 5.1 and later do; the HTTP status."""
        self.bodies.append(body)
        if self.refuse_all:
            self.refuse_all -= 1
            return 500
        if self.refuse_cpu and "cpu" in body:
            self.refuse_cpu = False
            self.force({"memory": body.get("memory", {})})
            return 500
        self.force(body)
        return 201

    def wait_for_close(self) -> None:
        """Block for as long as this service runs."""
        self._closing.wait()

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    podman: NewerPodman


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""

    @property
    def _podman(self) -> NewerPodman:
        return cast("_Server", self.server).podman

    def _dropped(self) -> bool:
        if not self._podman.drop:
            return False
        self._podman.drop -= 1
        self.close_connection = True
        return True

    def do_GET(self) -> None:
        self._podman.gets += 1
        if self._dropped():
            return
        if self._podman.nonsense:
            self._send(200, b"<html>")
        elif self.path.endswith("/_ping"):
            self._answer(200, {})
        elif "/containers/" in self.path:
            state = {"Status": "running", "Pid": PID, "StartedAt": "2026-01-02T03:04:05.678901234+09:00"}
            self._answer(200, {"Name": "app", "Id": ID, "State": state, "HostConfig": self._podman.stored})
        elif "/events?" in self.path:
            self._stream({"id": ID, "Action": "start", "timeNano": 1_767_290_645_678_000_000})
        else:
            self._answer(404, {"cause": "no such thing", "message": "no such thing"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self._podman.update(body)
        if len(self._podman.bodies) in self._podman.silent_at:
            self.close_connection = True
        elif not self._dropped():
            self._answer(status, ID if status == 201 else {"cause": "crun", "message": self._podman.complaint})

    def _stream(self, event: object) -> None:
        self._podman.streams.append(self.path)
        line = json.dumps(event).encode() + b"\n"
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self._podman.wait_for_close()

    def _answer(self, status: int, body: object) -> None:
        self._send(status, json.dumps(body).encode())

    def _send(self, status: int, payload: bytes) -> None:
        self.send_response(status)
        self.send_header("Libpod-Api-Version", self._podman.version)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)
