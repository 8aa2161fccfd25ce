"""Calling it wrongly, and asking it for help."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.system import PROGRAM, Configuration

COMMANDS = (
    *("up", "run", "scale", "status", "watch", "history", "pause", "resume"),
    *("release", "forget-node", "tail", "doctor", "schema", "demo", "certs", "broker-config"),
)
HEAVY = ("pydantic", "msgpack", "paho", "rich", "prometheus_client", "podman", "yaml", "schemas")


@pytest.fixture
def nowhere(tmp_path: Path) -> Configuration:
    """A configuration that leads to no broker."""
    path = tmp_path / "piriscale.toml"
    path.write_text("[broker]\nurl = 'mqtt://127.0.0.1:1'\n")
    return Configuration(path, 1)


def test_help_is_quick_since_it_loads_nothing_that_a_command_needs() -> None:
    look = f"import sys; sys.argv = ['piriscale', '--help']\ntry:\n    {PROGRAM.replace('; ', chr(10) + '    ')}\n"
    look += f"except SystemExit:\n    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    best_s = 60.0
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best_s = min(best_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert "doctor" in result.stdout
    assert result.stderr == "[]\n"
    assert best_s < 0.3, "seconds of CPU, so that a busy machine does not matter"


def test_version_is_told(nowhere: Configuration) -> None:
    result = nowhere.cli("--version")

    assert (result.exit_code, result.stdout[:10]) == (0, "piriscale ")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(nowhere: Configuration, command: str) -> None:
    result = nowhere.cli(command, "--help")

    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) > 4


def test_help_of_scale_tells_patience_from_waiting_for_room(nowhere: Configuration) -> None:
    told = " ".join(nowhere.cli("scale", "--help").stdout.split())

    patience, _, room = told.partition("--wait")[2].partition("--on-shortage")
    assert "this command" in patience, "not how long a full node is waited for"
    assert "reject at once" in room
    assert "as long as --wait" in room


def test_help_of_scale_knows_every_name_that_resource_manager_takes(nowhere: Configuration) -> None:
    assert "Pullpiri's model" in " ".join(nowhere.cli("scale", "--help").stdout.split())
    assert "Pullpiri" not in nowhere.cli("release", "--help").stdout, "which takes a name or an id"


def test_a_schema_is_either_json_or_a_page(nowhere: Configuration) -> None:
    result = nowhere.cli("schema", "--json", "--markdown")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "--json" in result.stderr


@pytest.mark.parametrize("position", ["before", "after"])
def test_a_mistake_in_the_configuration_names_key_value_and_what_is_allowed(
    nowhere: Configuration, tmp_path: Path, position: str
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[broker]\nport = 99999\n")
    option = ("-c", str(path))
    command = (*option, "status") if position == "before" else ("status", *option)

    result = nowhere.cli(*command)

    assert result.exit_code == 2
    assert "broker.port = 99999" in result.stderr
    assert "65535" in result.stderr


def test_a_configuration_that_is_not_there_is_a_mistake(nowhere: Configuration) -> None:
    result = nowhere.cli("-c", "/does/not/exist.toml", "status")

    assert result.exit_code == 2
    assert "/does/not/exist.toml" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("scale", "cam", "--node", "n", "--cpu", "1"),
        ("pause",),
        ("release", "cam", "--node", "n"),
        ("forget-node", "n"),
        ("tail",),
    ],
)
def test_without_a_broker_a_command_says_so_at_once_and_what_to_do(
    nowhere: Configuration, command: tuple[str, ...]
) -> None:
    began = time.monotonic()

    result = nowhere.cli(*command)

    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr
    assert "piriscale doctor" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert time.monotonic() - began < 5


def test_tls_without_a_trusted_file_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "piriscale.toml"
    path.write_text("[broker]\nurl = 'mqtts://127.0.0.1:8883'\n")

    result = Configuration(path, 1).cli("status")

    assert result.exit_code == 2
    assert "ca_file" in result.stderr


def test_a_password_file_that_cannot_be_read_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "piriscale.toml"
    path.write_text("[broker]\nusername = 'me'\npassword_file = '/no/such/file'\n")

    result = Configuration(path, 1).cli("status")

    assert result.exit_code == 2
    assert "broker.password_file = '/no/such/file'" in result.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_script_may_close_the_output_it_does_not_want(closed: str, tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", f'exec "$0" -c "$1" certs "$2" {closed}', sys.executable, PROGRAM, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "broker" / "cert.pem").is_file()
