"""`doctor`: what does not work is told, with one line that mends it."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from components.cli.doctor.broker import check_connection
from components.cli.doctor.cgroups import Cgroups, check_cgroups, read_cgroups
from components.cli.doctor.finding import Level
from components.cli.doctor.storage import check_storage
from components.settings import BrokerSettings, ResourceManagerSettings, Settings
from tests.cli.findings import HYBRID, V1, V2, all_ok, only_wrong
from tests.cli.system import Configuration, guarded_broker
from tests.fixtures.broker import RunningBroker, free_port
from tests.requirements import require

# The broker


def test_a_broker_that_lets_us_in_is_fine(broker: RunningBroker) -> None:
    assert all_ok(check_connection(BrokerSettings(url=f"mqtt://127.0.0.1:{broker.port}")))


def test_no_broker_where_one_is_configured() -> None:
    found = only_wrong(check_connection(BrokerSettings(url=f"mqtt://127.0.0.1:{free_port()}")))

    assert "refused" in found.text
    assert "systemctl start mosquitto" in found.remedy


def test_a_managed_broker_that_does_not_run_now_is_no_trouble(broker: RunningBroker) -> None:
    levels = {finding.level for finding in check_connection(BrokerSettings(port=free_port()))}

    assert levels == {Level.OK, Level.NOTE}
    assert all_ok(check_connection(BrokerSettings(port=broker.port)))


def test_no_mosquitto_for_a_managed_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("broker.mosquitto._PLACES", ())

    assert "apt-get install mosquitto" in only_wrong(check_connection(BrokerSettings())).remedy


def test_a_wrong_password_and_a_missing_one(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("wrong\n")
    with guarded_broker() as guarded:
        url = f"mqtt://127.0.0.1:{guarded.port}"
        missing = only_wrong(check_connection(BrokerSettings(url=url)))
        wrong = only_wrong(check_connection(BrokerSettings(url=url, username="me", password_file=password)))

    assert "set broker.username" in missing.remedy
    assert "password of me" in wrong.remedy
    assert "Not authorized" in wrong.text


def test_a_password_file_that_is_not_there() -> None:
    settings = BrokerSettings(url="mqtt://127.0.0.1:1", username="me", password_file=Path("/no/such"))

    assert "/no/such" in only_wrong(check_connection(settings)).text


def test_a_port_where_something_else_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        def hang_up() -> None:
            connection, _ = other.accept()
            connection.sendall(b"SSH-2.0-no broker\r\n")
            connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        found = only_wrong(check_connection(BrokerSettings(url=f"mqtt://127.0.0.1:{port}")))

    assert str(port) in found.text


# Cgroups

MOUNTS = {
    V1: "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
    V2: "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n",
    Cgroups(0, hybrid=False): "tmpfs /run tmpfs rw 0 0\n",
}
MOUNTS[HYBRID] = MOUNTS[V1] + "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"


def root_with(folder: Path, mounts: str, *, own_namespaces: bool = False) -> Path:
    ns = folder / "proc/self/ns"
    ns.mkdir(parents=True)
    (folder / "proc/self/mounts").write_text(mounts)
    (ns / "pid").symlink_to("pid:[4026532999]" if own_namespaces else "pid:[4026531836]")
    (ns / "cgroup").symlink_to("cgroup:[4026531835]")
    return folder


@pytest.mark.parametrize("expected", MOUNTS, ids=["v1", "v2", "none", "hybrid"])
def test_the_mounted_version_is_told(tmp_path: Path, expected: Cgroups) -> None:
    assert read_cgroups(root_with(tmp_path, MOUNTS[expected])) == expected


def test_a_machine_without_cgroups(tmp_path: Path) -> None:
    root = root_with(tmp_path, "")

    assert "mount" in only_wrong(check_cgroups(read_cgroups(root), root)).remedy


def test_an_agent_that_is_shut_in_a_container(tmp_path: Path) -> None:
    root = root_with(tmp_path, MOUNTS[V2], own_namespaces=True)

    texts = [finding.remedy for finding in check_cgroups(V2, root) if finding.level is Level.NOTE]

    assert texts == ["run the agent in the host's: podman run --pid=host --cgroupns=host"]


# Storage


def settings_at(database: Path) -> Settings:
    return Settings(resource_manager=ResourceManagerSettings(database=database))


def test_a_full_disk(tmp_path: Path) -> None:
    found = check_storage(settings_at(tmp_path / "rm.sqlite3"), free_mib_min=2**40)[0]

    assert found.level is Level.WRONG
    assert "disk full" in found.text
    assert str(tmp_path) in found.text


def test_a_directory_that_can_be_written_though_it_is_not_there_yet(tmp_path: Path) -> None:
    assert (
        check_storage(settings_at(tmp_path / "new" / "deep" / "rm.sqlite3"), free_mib_min=1)[0].level is Level.OK
    )


def test_a_place_that_is_no_directory() -> None:
    assert check_storage(settings_at(Path("/dev/null/rm.sqlite3")))[0].level is Level.WRONG


def test_permissions_are_missed_by_an_ordinary_user(tmp_path: Path) -> None:
    """Root may write everywhere, so the check runs as somebody else."""
    require(os.geteuid() == 0, "root, to become somebody else")
    path = tmp_path / "podman.sock"
    locked = Path("/root")
    look = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from components.cli.doctor.podman import check_podman\n"
        "from components.cli.doctor.cgroups import Cgroups\n"
        "from components.cli.doctor.storage import check_storage\n"
        "from components.settings import NodeAgentSettings, ResourceManagerSettings, Settings\n"
        "os.setgid(65534); os.setuid(65534)\n"
        f"agent = NodeAgentSettings(podman_url='unix://{path}')\n"
        "print(check_podman(agent, Cgroups(2, hybrid=False))[0].text)\n"
        f"rm = ResourceManagerSettings(database=Path('{locked}/rm.sqlite3'))\n"
        "print(check_storage(Settings(resource_manager=rm))[0].text)\n"
    )
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o600)
        for parent in (tmp_path, *tmp_path.parents[:2]):
            parent.chmod(parent.stat().st_mode | 0o005)
        result = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    podman, storage = result.stdout.splitlines()
    assert podman == f"{path}: permission denied"
    assert storage == "/root cannot be written by this user"


# The command


def test_everything_needed_works_beside_a_running_system(system: Configuration) -> None:
    result = system.cli("doctor")

    assert result.exit_code == 0, result.stdout
    assert result.stdout.splitlines()[-1] == "everything that is needed works"


def test_what_is_wrong_makes_the_exit_code_and_comes_with_its_remedy(tmp_path: Path) -> None:
    path = tmp_path / "piriscale.toml"
    path.write_text(
        f"[broker]\nurl = 'mqtt://127.0.0.1:{free_port()}'\n[node_agent]\nruntime = 'simulated'\n"
        f"[resource_manager]\ndatabase = '{tmp_path}/rm.sqlite3'\n"
    )
    configured = Configuration(path, 1)

    shown = configured.cli("doctor")
    as_json = configured.cli("doctor", "--json")

    assert (shown.exit_code, as_json.exit_code) == (1, 1)
    assert "→ start it (systemctl start mosquitto)" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "1 to mend"
    assert [one["area"] for one in json.loads(as_json.stdout) if one["level"] == "wrong"] == ["broker"]


def test_whose_rights_are_looked_at_can_be_said(alone: Configuration) -> None:
    shown = alone.cli("doctor", "--component", "policy-manager", "--component", "cli", "--json")
    rights = [one["text"] for one in json.loads(shown.stdout) if one["area"] == "rights"]

    assert rights == ["an anonymous client may say and subscribe to what policy_manager and cli must"]
    assert alone.cli("doctor", "--component", "nobody").exit_code == 2
