"""The managed broker: what it needs, what it says when it cannot run, and that it comes back and goes."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import mosquitto
from broker.bus import Identity, Subscription
from broker.configuration import MosquittoConfiguration, ServerTls
from broker.mosquitto import BrokerError, ManagedBroker, find_mosquitto
from schemas.codec import Frame
from tests.broker.started import Started
from tests.fixtures.broker import RunningBroker, free_port, has_mosquitto, running_broker
from tests.requirements import require

WAIT_S = 20.0


def wait(what: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def user_of(pid: int) -> str:
    return pwd.getpwuid(Path(f"/proc/{pid}").stat().st_uid).pw_name


START = """
import sys
from pathlib import Path
from broker.configuration import MosquittoConfiguration
from broker.mosquitto import ManagedBroker
broker = ManagedBroker(Path(sys.argv[1]), MosquittoConfiguration(int(sys.argv[2])))
broker.start()
"""


def run_as_nobody(script: str, home: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", script, str(home / "broker"), str(free_port())]
    try:
        return subprocess.run(
            command, user="nobody", group="nogroup", extra_groups=[], capture_output=True, text=True, check=False
        )
    except PermissionError:
        return subprocess.CompletedProcess(command, 1)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    require(has_mosquitto() and os.geteuid() == 0, "mosquitto, and root to mount a small file system")
    where = tmp_path / "disk"
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "piriscale-test", str(where)]
    mounted = subprocess.run(command, check=False, capture_output=True)
    require(mounted.returncode == 0, "the right to mount a file system")
    yield where
    subprocess.run(["umount", where], check=True)


def fill(disk: Path) -> None:
    with (disk / "others").open("wb", buffering=0) as others, contextlib.suppress(OSError):
        while True:
            others.write(b"x" * 4096)


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[ManagedBroker]:
    require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
    with ManagedBroker(tmp_path / "broker", MosquittoConfiguration(port=free_port())) as broker:
        yield broker


class TestConfiguration:
    def test_an_open_broker_stays_on_this_machine(self) -> None:
        with pytest.raises(ValueError, match=r"a broker on 0\.0\.0\.0 is open to the network"):
            MosquittoConfiguration(bind="0.0.0.0")  # noqa: S104 - which is refused
        assert "allow_anonymous true" in MosquittoConfiguration(bind="::1").text(Path("/d"))
        guarded = MosquittoConfiguration(bind="0.0.0.0", password_file=Path("/p"))  # noqa: S104 - with a password
        assert "allow_anonymous false" in guarded.text(Path("/d"))

    def test_every_line_is_understood_without_a_warning(self, broker: RunningBroker) -> None:
        assert not [
            line for line in broker.log.splitlines() if "warning" in line.lower() or "error" in line.lower()
        ]

    def test_files_for_access_and_tls_are_passed_on(self) -> None:
        tls = ServerTls(Path("/ca"), Path("/cert"), Path("/key"), require_certificate=True)
        text = MosquittoConfiguration(password_file=Path("/p"), acl_file=Path("/a"), tls=tls).text(Path("/d"))
        wanted = {"password_file /p", "acl_file /a", "cafile /ca", "certfile /cert", "keyfile /key"}
        assert wanted | {"require_certificate true", "persistence_location /d/"} <= set(text.splitlines())


class TestQueues:
    def test_thousands_of_requests_wait_for_a_client_that_is_away(
        self, broker: RunningBroker, started: Started
    ) -> None:
        # Mosquitto's own default would keep 1000 and drop the others silently.
        worker = Identity("worker", (Subscription("t"),), persistent=True)
        away = started.client(broker, worker)
        away.wait_connected()
        away.bus.stop()
        sender = started.client(broker, Identity("sender"))
        for number in range(3000):
            sender.bus.publish(Frame("t", b"%d" % number))
        sender.wait(lambda: sender.bus.counts.published == 3000)
        back = started.client(broker, worker)
        back.wait(lambda: len(back.messages) == 3000)

    def test_a_mib_of_garbage_comes_through_to_be_seen(self, broker: RunningBroker, started: Started) -> None:
        client = started.client(broker, Identity("client", (Subscription("t"),)))
        client.wait_connected()
        client.bus.publish(Frame("t", os.urandom(1024 * 1024)))
        client.wait(lambda: len(client.messages) == 1)


class TestStarting:
    def test_a_port_in_use_is_named_with_what_to_do(self, tmp_path: Path) -> None:
        require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            broker = ManagedBroker(tmp_path, MosquittoConfiguration(port=port))
            with pytest.raises(
                BrokerError, match=f"port {port} on 127.0.0.1 is taken by another process"
            ) as raised:
                broker.start()
        assert "systemctl disable --now mosquitto" in str(raised.value)

    def test_a_missing_program_is_named_with_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(BrokerError, match="apt-get install mosquitto"):
            find_mosquitto(str(tmp_path))

    def test_what_mosquitto_says_against_its_configuration_is_passed_on(self, tmp_path: Path) -> None:
        require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
        configuration = MosquittoConfiguration(port=free_port(), extra=("no_such_option 1",))
        broker = ManagedBroker(tmp_path / "broker", configuration)
        with pytest.raises(BrokerError, match=r"exit code [\s\S]*no_such_option"):
            broker.start()
        assert broker.pid is None

    def test_started_by_root_it_runs_as_its_own_user(self, broker: RunningBroker) -> None:
        require(os.geteuid() == 0, "root")
        assert user_of(broker.pid) in {"mosquitto", "nobody"}
        broker.stop()
        assert broker.directory.joinpath("data", "mosquitto.db").exists()

    def test_where_that_user_cannot_go_it_runs_as_root_rather_than_not_at_all(
        self, managed: ManagedBroker
    ) -> None:
        require(os.geteuid() == 0, "root")  # pytest's own directories are closed to others
        assert managed.pid is not None
        assert user_of(managed.pid) == "root"

    def test_it_runs_for_a_user_without_rights_as_well(self) -> None:
        require(has_mosquitto() and os.geteuid() == 0, "mosquitto and root, to become somebody else")
        with running_broker() as place:
            home = place.directory / "home"
            home.mkdir()
            shutil.chown(home, "nobody", "nogroup")
            tried = run_as_nobody("import broker.mosquitto", home)
            if tried.returncode:
                pytest.skip("nobody may not run this Python or read this checkout")
            shown = run_as_nobody(START + "print(Path(f'/proc/{broker.pid}').owner())\nbroker.stop()", home)
            assert (shown.stdout, shown.stderr) == ("nobody\n", "")


class TestLiving:
    def test_a_killed_broker_is_started_again_on_its_port(self, managed: ManagedBroker) -> None:
        first = managed.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait(lambda: managed.restarts == 1 and managed.problem is None)
        assert managed.pid not in (None, first)
        socket.create_connection((managed.host, managed.port)).close()

    def test_it_ends_in_order_and_its_port_is_free_again(self, managed: ManagedBroker) -> None:
        pid = managed.pid
        assert pid is not None
        managed.stop()
        assert not runs(pid)
        assert managed.pid is None
        socket.create_server((managed.host, managed.port)).close()
        managed.stop()  # twice does no harm

    def test_one_that_hangs_is_killed(self, managed: ManagedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mosquitto, "END_S", 0.1)
        pid = managed.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        managed.stop()
        assert not runs(pid)

    def test_a_log_that_grew_is_moved_aside_while_it_is_written(
        self, managed: ManagedBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mosquitto, "LOG_BYTES_MAX", 1)
        managed._trim_log()
        assert managed.log_file.stat().st_size == 0
        assert managed.log_file.with_suffix(".log.1").stat().st_size > 0
        socket.create_connection((managed.host, managed.port)).close()
        wait(lambda: managed.log_file.read_bytes().startswith(b"20"))  # the year: no hole at its start

    def test_a_full_disk_ends_neither_the_broker_nor_the_watch_over_it(
        self, tiny_disk: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mosquitto, "LOG_CHECK_S", 0.05)
        with ManagedBroker(tiny_disk / "broker", MosquittoConfiguration(port=free_port())) as managed:
            first = managed.pid
            fill(tiny_disk)
            monkeypatch.setattr(mosquitto, "LOG_BYTES_MAX", 1)
            wait(lambda: managed.log_file.stat().st_size == 0)
            assert managed.pid == first
            assert first is not None
            os.kill(first, signal.SIGKILL)
            wait(lambda: managed.restarts >= 1 and managed.pid not in (None, first))
            wait(lambda: managed.problem is None)

    def test_it_is_started_again_as_soon_as_that_is_possible(self, managed: ManagedBroker) -> None:
        place, pid = managed.log_file.parent, managed.pid
        assert pid is not None
        away = place.rename(place.with_name("away"))
        os.kill(pid, signal.SIGKILL)
        wait(lambda: "No such file" in (managed.problem or ""))
        away.rename(place)
        wait(lambda: managed.problem is None)
        assert managed.pid not in (None, pid)

    @pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
    def test_it_goes_when_the_process_that_started_it_goes(self, death: signal.Signals) -> None:
        require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
        with running_broker() as place:
            script = f"import time\n{START}print(broker.pid, flush=True)\ntime.sleep(60)"
            command = [sys.executable, "-c", script, str(place.directory / "inner"), str(free_port())]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
                assert parent.stdout is not None
                pid = int(parent.stdout.readline())
                assert runs(pid)
                parent.send_signal(death)
                parent.wait()
            wait(lambda: not runs(pid))

    def test_retained_state_survives_an_orderly_restart(self, broker: RunningBroker, started: Started) -> None:
        client = started.client(broker, Identity("client", (Subscription("state"),)))
        client.wait_connected()
        client.bus.publish(Frame("state", b"kept", retain=True))
        client.wait_messages(b"kept")
        broker.stop()
        broker.start()
        client.wait_messages(b"kept", b"kept")
        assert client.deliveries[-1].retained
