"""The images really built, compose.yaml really brought up: a container beside it is scaled as on a vehicle."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.node_agent.podman.private import PrivatePodman
from tests.compose import images
from tests.compose.podman import ImagePodman
from tests.compose.stack import COMPOSE, NOT_HERE, Stack, stack_of
from tests.fixtures.podman import Box
from tests.system.foreign import ForeignClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NODE = "node-1"
MIB = 1024 * 1024
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
    running = stack_of(podman, podman.directory / "ps-compose", list(SERVICES))
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


@pytest.mark.parametrize(("tag", "user"), [(images.PIRISCALE, "10001"), (images.BROKER, "mosquitto")])
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


def test_nothing_is_left_when_it_is_taken_down(podman: PrivatePodman) -> None:
    once = stack_of(podman, podman.directory / "ps-once", ["broker", "monitoring-server"])
    once.up()
    assert "ps-once" in everything(podman)
    once.down()
    assert "ps-once" not in everything(podman)


def test_every_image_is_ours_or_pinned() -> None:
    for name, service in SERVICES.items():
        registry, _, tag = service["image"].partition(":")
        assert tag not in ("", "latest"), name
        assert (name in NOT_HERE) == registry.startswith("docker.io/")


def test_podman_compose_reads_the_whole_file(stack: Stack) -> None:
    shown = yaml.safe_load(stack.compose("config"))
    assert set(shown["services"]) == set(SERVICES)
