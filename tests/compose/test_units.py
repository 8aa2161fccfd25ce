"""systemd units and quadlets: what systemd and Podman's own generator say of them, and how much they may."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from components.cli.assembly import role_of
from schemas.topics import Role
from tests.requirements import require

COMPOSE = Path(__file__).parents[2] / "compose"
UNITS = COMPOSE / "systemd"
CONTROL_PLANE = (
    *("resource-manager", "action-controller", "policy-manager"),
    *("monitoring-server", "debug-tap", "dashboard"),
)
INSTANCES = [*(f"piriscale@{name}.service" for name in CONTROL_PLANE), "piriscale-agent.service"]
EXPOSURE_MAX = {"piriscale@resource-manager.service": 15, "piriscale-agent.service": 25}
"""Tenths; 100 is what a service without any protection has."""
SYSTEM_UNITS = Path("/lib/systemd/system")
FORBIDDEN = ("CapabilityBoundingSet=", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The root of a machine where everything lies as the README says; podman.socket is a stand-in."""
    require(shutil.which("systemd-analyze") is not None, "systemd-analyze (apt-get install systemd)")
    root = tmp_path / "root"
    units = root / "etc/systemd/system"
    shutil.copytree(SYSTEM_UNITS, root / "lib/systemd/system", symlinks=True)
    shutil.copytree(UNITS, units, ignore=shutil.ignore_patterns("*.md", "*.sysusers"))
    (units / "podman.socket").write_text("[Socket]\nListenStream=/run/podman/podman.sock\nAccept=yes\n")
    (units / "podman@.service").write_text("[Service]\nExecStart=/bin/true\n")
    for program in ("opt/piriscale/bin/piriscale", "bin/true"):
        (root / program).parent.mkdir(parents=True, exist_ok=True)
        (root / program).write_text("#!/bin/sh\n")
        (root / program).chmod(0o755)
    return root


def analyze(root: Path, verb: str, *arguments: str) -> str:
    """What systemd-analyze says. Fails when it is not content."""
    command = ["systemd-analyze", verb, f"--root={root}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_has_nothing_to_say_against_the_units(machine: Path) -> None:
    told = analyze(machine, "verify", "--man=no", "--recursive-errors=no", *INSTANCES, "piriscale.target")
    assert [line for line in told.splitlines() if "piriscale" in line] == []


@pytest.mark.parametrize("unit", EXPOSURE_MAX)
def test_the_units_are_exposed_as_little_as_their_work_allows(machine: Path, unit: str) -> None:
    told = analyze(machine, "security", "--offline=yes", f"--threshold={EXPOSURE_MAX[unit]}", unit)
    assert "Overall exposure level" in told


@pytest.mark.parametrize("unit", ["piriscale@.service", "piriscale-agent.service"])
def test_a_unit_has_no_capability_and_gains_no_privilege(unit: str) -> None:
    lines = (UNITS / unit).read_text(encoding="utf-8").splitlines()
    assert set(FORBIDDEN) <= set(lines)
    assert "AmbientCapabilities=" in lines
    assert "ProtectControlGroups=yes" in lines, "the agent reads cgroups and never writes them"


def test_each_sees_the_certificates_of_its_own_identity_alone() -> None:
    hidden = "TemporaryFileSystem=/etc/piriscale/certs:ro"
    for unit in ("piriscale@.service", "piriscale-agent.service"):
        assert hidden in (UNITS / unit).read_text(encoding="utf-8").splitlines(), unit
    for name in CONTROL_PLANE:
        text = (UNITS / f"piriscale@{name}.service.d" / "certs.conf").read_text(encoding="utf-8")
        assert text == f"[Service]\nBindReadOnlyPaths=-/etc/piriscale/certs/{role_of(name)}\n"
    agent = (UNITS / "piriscale-agent.service").read_text(encoding="utf-8")
    assert re.findall(r"^Bind.*certs/(.*)$", agent, flags=re.MULTILINE) == [Role.NODE_AGENT]


def test_the_target_wants_every_component_and_each_is_one() -> None:
    wanted = re.findall(r"piriscale@([a-z-]+)\.service", (UNITS / "piriscale.target").read_text(encoding="utf-8"))
    assert tuple(wanted) == CONTROL_PLANE
    no_service = {Role.NODE_AGENT, Role.CLI, Role.APPLICATION, Role.ANYONE}
    assert {role_of(name) for name in wanted} == set(Role) - no_service


def test_every_component_serves_its_metrics_on_a_port_of_its_own() -> None:
    ports = [
        re.findall(r"METRICS_PORT=(\d+)", drop_in.read_text(encoding="utf-8"))[0]
        for drop_in in UNITS.glob("piriscale@*.service.d/metrics.conf")
    ]
    ports += re.findall(r"--metrics-port (\d+)", (UNITS / "piriscale-agent.service").read_text(encoding="utf-8"))
    assert len(ports) == len(set(ports)) == len(INSTANCES)
