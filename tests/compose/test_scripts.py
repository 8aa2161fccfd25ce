"""The commands a newcomer types first: valid shell, executable, and quiet where a program reads them."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = ROOT / "compose" / "setup.sh"
COMMANDS = [ROOT / "compose" / "demo", ROOT / "compose" / "test", ROOT / ".ci" / "run"]
SCRIPTS = [*COMMANDS, ROOT / "compose" / "secured-bench", SETUP]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def bash(script: str, *, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script with only `path` as PATH, if given: a machine that has just those programs."""
    environment = {**os.environ, "PATH": str(path)} if path else dict(os.environ)
    return subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of which nothing is set up yet."""
    (tmp_path / "compose").mkdir()
    for script in (SETUP, *COMMANDS[:2]):
        shutil.copy(script, tmp_path / "compose")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.fixture
def ready_checkout(checkout: Path) -> Path:
    """A checkout whose .venv is set up, with stand-ins that print how they were called."""
    programs = checkout / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("piriscale", "pytest"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
        program.chmod(0o755)
    (programs / "python").symlink_to("/usr/bin/env")
    done = bash('. compose/setup.sh; fingerprint > "$stamp.dev"', cwd=checkout)
    assert done.returncode == 0, done.stderr
    return checkout


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_script_is_valid_bash(script: Path) -> None:
    checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_script_satisfies_shellcheck(script: Path) -> None:
    checked = subprocess.run(
        ["shellcheck", "-x", "-P", SETUP.parent, script], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_command_can_be_typed_as_it_stands(command: Path) -> None:
    assert command.stat().st_mode & stat.S_IXUSR
    assert command.read_text().startswith("#!/bin/bash\n")


def test_demo_passes_its_options_on_and_adds_nothing_to_stdout(ready_checkout: Path) -> None:
    run = bash("compose/demo --help --json 'two words'", cwd=ready_checkout)
    assert run.stdout.splitlines() == ["piriscale", "demo", "--help", "--json", "two words"]
    assert run.stderr == ""


def test_demo_can_be_started_from_another_folder(ready_checkout: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = bash(f"'{ready_checkout}/compose/demo' --help", cwd=elsewhere)
    assert run.stdout.splitlines() == ["piriscale", "demo", "--help"]


def test_environment_is_made_anew_when_pyproject_changes(ready_checkout: Path) -> None:
    ready = ". compose/setup.sh; is_ready dev"
    assert bash(ready, cwd=ready_checkout).returncode == 0
    with (ready_checkout / "pyproject.toml").open("a") as pyproject:
        pyproject.write("# another dependency\n")
    assert bash(ready, cwd=ready_checkout).returncode == 1


@pytest.mark.parametrize(
    ("profile", "packages"),
    [
        ("run", {"python3-venv"}),
        ("simulated", {"python3-venv", "mosquitto"}),
        ("demo", {"python3-venv", "mosquitto", "podman", "runc", "busybox-static"}),
        ("test", {"python3-venv", "mosquitto", "podman", "runc", "busybox-static"}),
    ],
)
def test_only_what_a_profile_needs_is_installed(checkout: Path, profile: str, packages: set[str]) -> None:
    nothing_there = "has() { false; }; has_venv() { false; }"
    found = bash(f". compose/setup.sh; {nothing_there}; missing_packages {profile}", cwd=checkout)
    assert set(found.stdout.split()) == packages


def test_who_cannot_install_is_told_what_is_missing_and_how_to_get_it(checkout: Path) -> None:
    user = "id() { echo 1000; }; has() { [ $1 = apt-get ]; }; has_venv() { false; }"
    refused = bash(f". compose/setup.sh; {user}; ensure_packages simulated", cwd=checkout)
    assert refused.returncode == 1
    assert "apt-get install --no-install-recommends python3-venv mosquitto" in refused.stderr


def test_without_python_the_message_names_the_package(checkout: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "dirname").symlink_to("/usr/bin/dirname")
    refused = bash(". compose/setup.sh; PATH=$PWD/bin setup run", cwd=checkout, path=bare)
    assert refused.returncode == 1
    assert "apt-get install python3" in refused.stderr


def test_a_failing_installation_shows_its_log_and_a_working_one_is_silent(checkout: Path) -> None:
    good = bash(". compose/setup.sh; quietly echo fine", cwd=checkout)
    bad = bash(". compose/setup.sh; quietly sh -c 'echo no space left; exit 3'", cwd=checkout)
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "")
    assert (bad.returncode, bad.stdout, bad.stderr) == (1, "", "no space left\n")
