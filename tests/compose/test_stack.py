"""The images really built, compose.yaml really brought up: a container beside it is scaled as on a vehicle."""

import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from components.node_agent.podman.private import PrivatePodman
from tests.compose import images
from tests.compose.podman import ImagePodman
from tests.compose.stack import COMPOSE, Stack, eventually, stack_of
from tests.fixtures.broker import free_port
from tests.fixtures.podman import Box
from tests.system.foreign import ForeignClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NODE = "node-1"
OWN = "http://127.0.0.1:9464"
MIB = 1024 * 1024
CONNACK = 0x20
IMAGE_MIB_MAX = 260
"""Base, Python and all libraries; without compilers, documents and caches."""
SERVICES: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))["services"]


@pytest.fixture(scope="module")
def podman() -> Iterator[PrivatePodman]:
    """A Podman that has both images."""
    images.require_tools()
    with (
        tempfile.TemporaryDirectory(prefix="ps-wheels-") as folder,
        ImagePodman(Path(tempfile.mkdtemp(prefix="ps-podman-"))) as own,
    ):
        images.build(own, Path(folder))
        yield own


@pytest.fixture(scope="module")
def stack(podman: PrivatePodman) -> Iterator[Stack]:
    """All services whose images can exist here, each healthy."""
    running = stack_of(podman, "ps-compose", SERVICES)
    try:
        running.up()
        yield running
    finally:
        running.down()


def image(podman: PrivatePodman, tag: str) -> Any:
    return json.loads(podman.command("inspect", "--type", "image", tag))[0]


def everything(podman: PrivatePodman) -> str:
    """Names of all containers, volumes and networks."""
    kinds = (("ps", "--all", "--format={{.Names}}"), ("volume", "ls", "--quiet"), ("network", "ls", "--quiet"))
    return "\n".join(podman.command(*kind) for kind in kinds)


def processes_user(stack: Stack, service: str) -> str:
    """The numbers of the user and group that its first process runs as."""
    status = Path(f"/proc/{stack.inspect(service)['State']['Pid']}/status").read_text(encoding="utf-8")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return fields["Uid"].split("\t")[1]


def capabilities(stack: Stack, service: str) -> tuple[int, str]:
    """Effective ones as a mask, and whether new privileges are forbidden."""
    status = Path(f"/proc/{stack.inspect(service)['State']['Pid']}/status").read_text(encoding="utf-8")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return int(fields["CapEff"], 16), fields["NoNewPrivs"]


@pytest.mark.parametrize(("tag", "user"), [(images.PIRISCALE, "10001"), (images.BROKER, "10002")])
def test_an_image_is_small_is_not_roots_and_checks_its_health(podman: PrivatePodman, tag: str, user: str) -> None:
    found = image(podman, tag)
    assert found["User"] == user
    assert found["Size"] < IMAGE_MIB_MAX * MIB, f"{found['Size'] / MIB:.0f} MiB"
    assert found["Healthcheck"]["Test"][0] == "CMD"
    assert found["Config"]["StopSignal"] == "SIGTERM"


def test_an_image_holds_no_installer_and_no_compiler(stack: Stack) -> None:
    look = "for each in pip pip3 gcc git curl; do command -v $each; done; python -c 'import pip' 2>&1"
    told = stack.podman.command("exec", stack.container("debug-tap"), "bash", "-c", f"{look} || true")
    assert [line for line in told.splitlines() if line.startswith("/")] == []
    assert "No module named 'pip'" in told


def test_the_image_is_the_command(stack: Stack) -> None:
    command = ("exec", stack.container("debug-tap"), "piriscale", "-c", "/etc/piriscale/piriscale.toml")
    told = json.loads(stack.podman.command(*command, "status", "--json"))
    assert {component["component"] for component in told["components"]} >= {"resource_manager", "node_agent"}


def test_every_service_is_healthy_and_only_the_agent_is_root_without_any_capability(stack: Stack) -> None:
    for service in stack.services:
        assert stack.healthy(service), stack.log(service)
        user = processes_user(stack, service)
        assert (user == "0") == (service == "node-agent"), service
        assert capabilities(stack, service) == (0, "1"), service
        assert stack.inspect(service)["HostConfig"]["ReadonlyRootfs"], service


def test_prometheus_would_reach_every_target_by_its_name(stack: Stack) -> None:
    configuration = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = [job for job in configuration["scrape_configs"] if job["job_name"] == "piriscale"]
    targets = job["static_configs"][0]["targets"]
    assert {target.partition(":")[0] for target in targets} == set(stack.services) - {"broker"}
    for target in targets:
        component = target.partition(":")[0].replace("-", "_")
        page = stack.get("monitoring-server", f"http://{target}/metrics")
        assert f'piriscale_component_up{{component="{component}"}} 1.0' in page


def test_the_web_page_is_served_on_loopback_and_scales_nothing(stack: Stack) -> None:
    with urlopen(f"http://127.0.0.1:{stack.dashboard_port}/", timeout=10) as page:
        assert "piriscale" in page.read().decode()


def test_a_container_beside_the_stack_is_scaled(stack: Stack, podman: PrivatePodman) -> None:
    name = "ps-beside"
    container_id = podman.run(name, cpus=0.2, memory_mib=64)
    box = Box(podman, name, container_id)
    try:
        with ForeignClient(stack.broker_port) as client:
            client.state(NODE, name, lambda b: b["actual"]["cpu_limit"] == 200)
            final = client.final(client.scale(NODE, name, target={"cpu_limit": 300, "memory_limit": 96}))
            assert final["outcome"] == "COMPLETED", final
            client.state(NODE, name, lambda b: b["sync_state"] == "SYNCHRONIZED")
        quota, period = box.quota_and_period
        assert quota / period == pytest.approx(0.3)
        assert box.memory == 96 * MIB
    finally:
        podman.command("rm", "--force", "--time", "0", name)


def test_what_is_desired_survives_a_restart_of_everything(stack: Stack, podman: PrivatePodman) -> None:
    name = "ps-survivor"
    podman.run(name, cpus=0.2, memory_mib=64)
    try:
        with ForeignClient(stack.broker_port) as client:
            client.state(NODE, name, lambda b: b["actual"]["cpu_limit"] == 200)
            final = client.final(client.scale(NODE, name, target={"cpu_limit": 300}))
            assert final["outcome"] == "COMPLETED", final
        stack.compose("restart", *stack.services)
        stack.up()
        with ForeignClient(stack.broker_port) as client:
            state = client.state(NODE, name, lambda b: b["sync_state"] == "SYNCHRONIZED")
        assert state["desired"] == {"cpu_limit": 300}
    finally:
        podman.command("rm", "--force", "--time", "0", name)


def test_secured_each_service_is_let_in_with_its_certificate_and_nobody_without(
    podman: PrivatePodman, tmp_path: Path
) -> None:
    locked = secured(podman, tmp_path)
    try:
        locked.up()
        eventually(lambda: tells_of_broker(locked), lambda: locked.log("monitoring-server"))
        port, authority = int(locked.more["PIRISCALE_SECURED_PORT"]), tmp_path / "certs"
        assert answer(port, authority, "cli/tester")[0] == CONNACK
        with pytest.raises(OSError, match=r"(?i)certificate|handshake|alert|EOF|reset"):
            answer(port, authority, None)
    finally:
        locked.down()


def tells_of_broker(stack: Stack) -> bool:
    """Whether MonitoringServer may hear what the broker tells of itself."""
    return "\npiriscale_broker_dropped_messages_total 0.0" in stack.get("monitoring-server", f"{OWN}/metrics")


def secured(podman: PrivatePodman, folder: Path) -> Stack:
    """A bench's authority and a locked broker, as compose.secured.yaml says in its head."""
    certificates, broker = folder / "certs", folder / "broker"
    piriscale(
        "certs",
        certificates,
        "broker",
        f"node_agent/{NODE}",
        "cli/tester",
        "--host",
        "broker",
        "--host",
        "localhost",
    )
    piriscale("broker-config", certificates, "--into", broker, "--bind", "0.0.0.0")  # noqa: S104 - in its container
    for path in (broker, *broker.rglob("*")):
        os.chown(path, 10002, 10002)
    components = [
        path for path in certificates.iterdir() if path.name not in ("ca", "broker", "node_agent", "cli")
    ]
    for path in (each for component in components for each in (component, *component.iterdir())):
        os.chown(path, 10001, 10001)
    return replace(
        stack_of(podman, "ps-secured", SERVICES),
        files=("compose.yaml", "compose.secured.yaml"),
        more={
            "PIRISCALE_CONFIG": str(COMPOSE / "secured.toml"),
            "PIRISCALE_CERTS": str(certificates),
            "PIRISCALE_BROKER": str(broker),
            "PIRISCALE_SECURED_PORT": str(free_port()),
            "PIRISCALE_GUESTS_PORT": str(free_port()),
        },
    )


def piriscale(*arguments: str | Path) -> None:
    program = Path(sys.executable).with_name("piriscale")
    subprocess.run([str(program), *map(str, arguments)], check=True, capture_output=True, timeout=60)


def answer(port: int, authority: Path, identity: str | None) -> bytes:
    """What the broker says to MQTT's first packet, from somebody with this certificate or with none."""
    context = ssl.create_default_context(cafile=authority / "ca" / "ca.pem")
    if identity is not None:
        context.load_cert_chain(authority / identity / "cert.pem", authority / identity / "key.pem")
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as spoken,
    ):
        spoken.sendall(bytes.fromhex("10 0c 00 04 4d 51 54 54 04 02 00 3c 00 00 e0 00"))
        told = spoken.recv(4)
        if not told:
            raise ConnectionResetError("reset without a word")
        return told


def test_nothing_is_left_when_it_is_taken_down(podman: PrivatePodman) -> None:
    once = stack_of(podman, "ps-once", ("broker", "monitoring-server"))
    once.up()
    assert "ps-once" in everything(podman)
    once.down()
    assert "ps-once" not in everything(podman)
