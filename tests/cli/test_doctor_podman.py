"""`doctor` on Podman: socket, version, runtime, delegated controllers."""

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

import pytest

from components.cli.doctor.cgroups import Cgroups, read_cgroups
from components.cli.doctor.finding import Level
from components.cli.doctor.podman import check_podman, judge_host
from components.node_agent.podman.private import PrivatePodman
from components.settings import NodeAgentSettings
from tests.cli.findings import HYBRID, V1, V2, all_ok, only_wrong
from tests.requirements import require


class _Service(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@contextmanager
def podman_service(folder: Path, version: str, host: dict[str, Any]) -> Iterator[NodeAgentSettings]:
    """Answers as a Podman of any version would; old ones cannot be had here."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"OK" if self.path.endswith("/_ping") else json.dumps({"host": host}).encode()
            self.send_response(200)
            self.send_header("Libpod-Api-Version", version)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "a unix socket"

        def log_message(self, *_: Any) -> None:
            pass

    path = folder / "podman.sock"
    with _Service(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield NodeAgentSettings(podman_url=f"unix://{path}")
        finally:
            server.shutdown()
            thread.join()


ROOTFUL = {"ociRuntime": {"name": "crun"}, "cgroupControllers": ["cpuset", "cpu", "memory", "pids"]}


def test_a_podman_that_can_change_limits_is_fine(tmp_path: Path) -> None:
    with podman_service(tmp_path, "4.3.1", ROOTFUL) as settings:
        assert all_ok(check_podman(settings, V2))


def test_the_podman_of_this_machine_is_fine(private_podman: PrivatePodman) -> None:
    levels = {
        found.level for found in check_podman(NodeAgentSettings(podman_url=private_podman.url), read_cgroups())
    }

    assert Level.WRONG not in levels


def test_the_podman_of_this_machine_with_crun_where_cgroups_are_mixed(own_podman: PrivatePodman) -> None:
    """It would start no container, and say so only then."""
    require(read_cgroups().hybrid, "a machine that mixes cgroup v1 and v2")
    require(shutil.which("crun") is not None, "crun (apt-get install crun)")
    own_podman.kill_service()
    file = own_podman.directory / "containers.conf"
    file.write_text(file.read_text().replace('runtime = "runc"', 'runtime = "crun"'))
    own_podman.start_service()

    found = only_wrong(check_podman(NodeAgentSettings(podman_url=own_podman.url), read_cgroups()))

    assert "crun cannot create containers" in found.text
    assert 'runtime = "runc"' in found.remedy


def test_a_podman_that_is_too_old(tmp_path: Path) -> None:
    with podman_service(tmp_path, "4.2.0", ROOTFUL) as settings:
        found = only_wrong(check_podman(settings, V2))

    assert "4.2.0 cannot change limits" in found.text
    assert "4.3" in found.remedy


def test_no_podman_socket(tmp_path: Path) -> None:
    settings = NodeAgentSettings(podman_url=f"unix://{tmp_path}/none.sock")

    found = only_wrong(check_podman(settings, V2))

    assert "none.sock" in found.text or "not installed" in found.text


def test_a_socket_that_nobody_serves_any_more(tmp_path: Path) -> None:
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    found = only_wrong(check_podman(NodeAgentSettings(podman_url=f"unix://{path}"), V2))

    assert "restart it" in found.remedy


def test_with_simulated_containers_podman_is_not_needed() -> None:
    assert all_ok(check_podman(NodeAgentSettings(runtime="simulated"), V2))


@pytest.mark.parametrize(
    ("host", "cgroups", "says", "remedy"),
    [
        ({"ociRuntime": {"name": "crun"}}, HYBRID, "v1 and v2 are mixed", 'runtime = "runc"'),
        (
            {"security": {"rootless": True}, "cgroupControllers": ["memory", "pids"]},
            V2,
            "not delegated: cpu",
            "Delegate=cpu cpuset io memory pids",
        ),
        ({"security": {"rootless": True}}, V1, "without root, limits need cgroup v2", "as root"),
        ({"cgroupControllers": ["pids"]}, V2, "not delegated: cpu, memory", "cgroup.subtree_control"),
    ],
    ids=["crun-on-hybrid", "rootless-without-cpu", "rootless-on-v1", "rootful-without-controllers"],
)
def test_a_host_where_limits_cannot_be_set(host: dict[str, Any], cgroups: Cgroups, says: str, remedy: str) -> None:
    found = only_wrong(judge_host(host, cgroups))

    assert says in found.text
    assert remedy in found.remedy


def test_without_cpuset_all_but_affinity_works() -> None:
    host = {"security": {"rootless": True}, "cgroupControllers": ["cpu", "memory", "pids"]}

    levels = [finding.level for finding in judge_host(host, V2)]

    assert levels == [Level.OK, Level.NOTE]


@pytest.mark.parametrize("cgroups", [V1, HYBRID])
def test_runc_on_cgroup_v1_is_fine(cgroups: Cgroups) -> None:
    assert all_ok(judge_host({"ociRuntime": {"name": "runc"}}, cgroups))
