"""compose.yaml, unlocked and locked, as podman-compose reads it: confined, pinned, on loopback, complete."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.cli.assembly import ROLES, role_of
from components.settings import load_settings
from tests.compose.images import BROKER, CONTAINERFILE, PIRISCALE
from tests.compose.stack import NOT_HERE
from tests.requirements import require

COMPOSE = Path(__file__).parents[2] / "compose"
LOCKED = {"PIRISCALE_CONFIG": str(COMPOSE / "secured.toml")}
SECRETS = re.compile(r":/etc/piriscale/certs/([a-z_]+(?:/[a-z0-9-]+)?):")


def services(*files: str, **variables: str) -> dict[str, dict[str, Any]]:
    """All services of these files laid over each other."""
    require(shutil.which("podman") is not None, "podman (apt-get install podman)")
    program = Path(sys.executable).with_name("podman-compose")
    require(program.exists(), "podman-compose (pip install podman-compose)")
    command = [str(program), *(f"--file={COMPOSE / name}" for name in files), "config"]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    read: dict[str, dict[str, Any]] = yaml.safe_load(done.stdout)["services"]
    return read


@pytest.fixture(scope="module")
def plain() -> dict[str, dict[str, Any]]:
    return services("compose.yaml")


@pytest.fixture(scope="module")
def locked() -> dict[str, dict[str, Any]]:
    return services("compose.yaml", "compose.secured.yaml", **LOCKED)


def component_of(service: dict[str, Any]) -> str:
    """What is run: `run COMPONENT`."""
    return str(service["command"][1])


def ours(read: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Services that are components."""
    return {name: service for name, service in read.items() if service["image"] == PIRISCALE}


def test_every_component_is_a_service_named_after_it(plain: dict[str, dict[str, Any]]) -> None:
    assert {name: role_of(component_of(service)) for name, service in ours(plain).items()} == {
        role.replace("_", "-"): role for role in ROLES
    }


def test_every_image_is_one_of_ours_or_pinned(plain: dict[str, dict[str, Any]]) -> None:
    for name, service in plain.items():
        image, _, tag = service["image"].partition(":")
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag), name
        assert (name in NOT_HERE) == image.startswith("docker.io/"), name
    assert plain["broker"]["image"] == BROKER
    base = re.findall(r"^ARG BASE=(.*)$", CONTAINERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/debian:[a-z]+-\d{8}-slim", base[0])


def test_every_service_is_confined(plain: dict[str, dict[str, Any]]) -> None:
    for name, service in plain.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges"], name
        assert service.get("privileged") is None, name
        assert service.get("read_only") or name == "grafana", name


def test_only_the_agent_has_podmans_socket_and_the_hosts_namespaces(plain: dict[str, dict[str, Any]]) -> None:
    for name, service in plain.items():
        agent = name == "node-agent"
        assert ("podman.sock" in str(service["volumes"])) == agent, name
        assert (service.get("pid") == service.get("cgroup") == "host") == agent, name
        assert ("/sys/fs/cgroup:/sys/fs/cgroup:ro" in service["volumes"]) == agent, name


def test_ports_are_opened_on_loopback_only(locked: dict[str, dict[str, Any]]) -> None:
    ports = [str(port) for service in locked.values() for port in service.get("ports", [])]
    assert len(ports) == 6
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_prometheus_scrapes_every_component(plain: dict[str, dict[str, Any]]) -> None:
    configuration = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = [job for job in configuration["scrape_configs"] if job["job_name"] == "piriscale"]
    assert set(job["static_configs"][0]["targets"]) == {f"{name}:9464" for name in ours(plain)}
    assert all(service["command"][-2:] == ["--metrics-port", "9464"] for service in ours(plain).values())


def test_files_that_are_mounted_exist(plain: dict[str, dict[str, Any]]) -> None:
    mounted = [str(volume).split(":")[0] for service in plain.values() for volume in service["volumes"]]
    local = [path for path in mounted if path.startswith(".")]
    assert local
    assert [path for path in local if not (COMPOSE / path).exists()] == []


def test_locked_each_service_has_its_own_certificate_and_no_other(locked: dict[str, dict[str, Any]]) -> None:
    for name, service in ours(locked).items():
        component = role_of(component_of(service))
        identity = "node_agent/node-1" if component == "node_agent" else str(component)
        assert SECRETS.findall(" ".join(map(str, service["volumes"]))) == [identity], name
    assert SECRETS.findall(str(locked["broker"]["volumes"])) == []


def test_both_configurations_are_valid_and_of_the_same_node() -> None:
    plain, locked = (load_settings(COMPOSE / name) for name in ("piriscale.toml", "secured.toml"))
    assert plain.broker.address == ("broker", 1883, False)
    assert locked.broker.address == ("broker", 8883, True)
    assert plain.node_agent == locked.node_agent
    assert plain.metrics == locked.metrics
    assert plain.dashboard == locked.dashboard
