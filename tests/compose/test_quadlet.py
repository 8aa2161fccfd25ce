"""Quadlets as Podman itself reads them: complete, and as confined as the units."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from components.cli.assembly import ROLES, role_of
from tests.compose.images import BROKER, PIRISCALE
from tests.compose.quadlet import quadlet, units_of
from tests.requirements import require

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COMPOSE = Path(__file__).parents[2] / "compose"
QUADLETS = COMPOSE / "quadlet"


def copied_to(folder: Path) -> Path:
    """A machine's folder of quadlets."""
    for file in (*QUADLETS.glob("*.container"), *QUADLETS.glob("*.network")):
        shutil.copy(file, folder)
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return quadlet(tmp_path_factory.mktemp("quadlet"))


@pytest.fixture(scope="module")
def units(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Without those of locked/, which Podman would find in the folder below, too."""
    folder = copied_to(tmp_path_factory.mktemp("open"))
    return units_of(program, folder)


@pytest.fixture(scope="module")
def locked(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With the drop-ins of locked/, and a link for each instance, as the README says."""
    folder = copied_to(tmp_path_factory.mktemp("locked"))
    shutil.copytree(QUADLETS / "locked", folder, dirs_exist_ok=True)
    for drop_ins in folder.glob("piriscale@*.container.d"):
        (folder / drop_ins.stem).symlink_to("piriscale@.container")
    return units_of(program, folder)


def start_of(unit: str) -> str:
    """The command that starts a container."""
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    return line


def containers(units: dict[str, str]) -> dict[str, str]:
    return {name: start_of(text) for name, text in units.items() if "podman run" in text}


def test_podman_makes_a_unit_of_each(units: dict[str, str]) -> None:
    assert set(units) == {
        "piriscale-network.service",
        "piriscale-broker.service",
        "piriscale@.service",
        "piriscale-dashboard.service",
        "piriscale-agent.service",
    }


def test_every_container_is_confined(units: dict[str, str]) -> None:
    for name, command in containers(units).items():
        for word in ("--cap-drop all", "--read-only", "--security-opt=no-new-privileges"):
            assert word in command, name
        assert "--privileged" not in command, name


def test_only_the_agent_has_podmans_socket_and_the_hosts_namespaces(units: dict[str, str]) -> None:
    for name, command in containers(units).items():
        agent = name == "piriscale-agent.service"
        for word in ("podman.sock", "/sys/fs/cgroup:ro", "--pid=host", "--cgroupns=host", "--user 0"):
            assert (word in command) == agent, f"{name}: {word}"


def test_broker_and_web_page_are_reached_on_the_machines_loopback_and_nothing_else_is(
    units: dict[str, str],
) -> None:
    ports = {name: re.findall(r"--publish (\S+)", command) for name, command in containers(units).items()}
    assert {name: opened for name, opened in ports.items() if opened} == {
        "piriscale-broker.service": ["127.0.0.1:1883:1883"],
        "piriscale-dashboard.service": ["127.0.0.1:9465:9465"],
    }


def test_locked_each_has_its_own_certificate_and_no_other(locked: dict[str, str]) -> None:
    given = {
        name: re.findall(r"-v /etc/piriscale/certs/(\S+):\S+:ro", command)
        for name, command in containers(locked).items()
    }
    assert given.pop("piriscale@.service") == given.pop("piriscale-broker.service") == []
    names = {name: re.sub(r"^piriscale[@-]|\.service$", "", name) for name in given}
    names["piriscale-agent.service"] = "node_agent"
    assert given == {name: [str(role_of(words))] for name, words in names.items()}
    assert len(given) == len(ROLES)


def test_locked_the_broker_listens_with_tls_only(locked: dict[str, str]) -> None:
    command = containers(locked)["piriscale-broker.service"]
    assert re.findall(r"--publish (\S+)", command) == ["127.0.0.1:8883:8883", "127.0.0.1:8884:8884"]
    assert "-v /etc/piriscale/broker:/etc/piriscale/broker " in command


def test_images_are_those_of_the_containerfile_and_compose(units: dict[str, str]) -> None:
    commands = containers(units)
    assert BROKER in commands["piriscale-broker.service"]
    assert PIRISCALE in commands["piriscale@.service"]
    assert PIRISCALE in commands["piriscale-dashboard.service"]
    assert PIRISCALE in commands["piriscale-agent.service"]
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert {services[name]["image"] for name in ("broker", "node-agent")} == {BROKER, PIRISCALE}


def test_systemd_has_nothing_to_say_against_what_podman_makes(units: dict[str, str], tmp_path: Path) -> None:
    require(shutil.which("systemd-analyze") is not None, "systemd-analyze (apt-get install systemd)")
    folder = tmp_path / "etc/systemd/system"
    shutil.copytree("/lib/systemd/system", tmp_path / "lib/systemd/system", symlinks=True)
    folder.mkdir(parents=True)
    for name, text in units.items():
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copy(QUADLETS / "piriscale.target", folder)
    (folder / "podman.socket").write_text("[Socket]\nListenStream=/run/podman/podman.sock\nAccept=yes\n")
    (folder / "podman@.service").write_text("[Service]\nExecStart=/usr/bin/podman\n")
    program = tmp_path / "usr/bin/podman"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    command = ["systemd-analyze", "verify", f"--root={tmp_path}", "--man=no", "piriscale.target"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert [line for line in (done.stdout + done.stderr).splitlines() if "piriscale" in line] == []
