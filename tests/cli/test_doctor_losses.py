"""`doctor` on brokers that would lose messages: each is a real Mosquitto that was told to."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.configuration import MosquittoConfiguration
from broker.mosquitto import find_mosquitto
from broker.options import BrokerOptions
from broker.probe import Probe, Promises
from components.cli.doctor.finding import Finding, Level
from components.cli.doctor.losses import QUEUED, check_losses, judge, look_into_queue
from components.cli.doctor.mosquitto_conf import Configured, check_configuration, running_at
from components.cli.doctor.mosquitto_conf import judge as judge_file
from tests.broker.proxy import PUBLISH, Proxy
from tests.cli.findings import all_ok, only_wrong
from tests.cli.system import until
from tests.fixtures.broker import RunningBroker, free_port, has_mosquitto, running_broker
from tests.fixtures.watch import watching
from tests.requirements import require

WRITABLE = "perf/degraded"
FEW = 200
"""Messages, where the test's broker was told to keep fewer."""


@contextmanager
def told(*lines: str) -> Iterator[RunningBroker]:
    """Mosquitto with further lines; of options said twice the last counts."""
    with running_broker(MosquittoConfiguration(extra=lines)) as running:
        yield running


class Stalling(Proxy):
    """The way to a broker on a busy machine: for a while nothing comes, in the middle of what waited."""

    def __init__(self, broker: RunningBroker, silence_s: float | None) -> None:
        """`silence_s`: None: nothing comes any more."""
        self._left = FEW - 10
        self._silence_s = silence_s
        self._closing = threading.Event()
        super().__init__(broker.host, broker.port)

    def __enter__(self) -> BrokerOptions:
        return BrokerOptions(port=self.port)

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self.close()

    def _passes(self, packet: bytes, target: socket.socket, inwards: bool) -> bool:
        if inwards and packet[0] >> 4 == PUBLISH:
            self._left -= 1
            if not self._left:
                self._closing.wait(self._silence_s)
        return super()._passes(packet, target, inwards)


def options_of(broker: RunningBroker) -> BrokerOptions:
    return BrokerOptions(port=broker.port)


def test_the_broker_as_we_configure_it_loses_nothing(broker: RunningBroker) -> None:
    assert all_ok(check_losses(options_of(broker), WRITABLE, FEW))
    assert all_ok(check_configuration(broker.host, broker.port))


def test_packets_that_are_too_small_for_a_snapshot() -> None:
    with told("max_packet_size 100000") as broker:
        found = only_wrong(check_losses(options_of(broker), WRITABLE, FEW))

    assert "above 100000 bytes are refused" in found.text
    assert "max_packet_size" in found.remedy


def test_large_messages_that_are_dropped_without_a_word_to_older_clients() -> None:
    with told("message_size_limit 100000") as broker:
        found = only_wrong(check_losses(options_of(broker), WRITABLE, FEW))

    assert "messages of 131072 bytes are refused" in found.text
    assert "message_size_limit" in found.remedy


def test_few_messages_in_flight_are_slow_but_lose_nothing() -> None:
    with told("max_inflight_messages 2") as broker:
        (found,) = check_losses(options_of(broker), WRITABLE, FEW)

    assert found.level is Level.NOTE
    assert "max_inflight_messages" in found.remedy


def test_no_retained_messages() -> None:
    with told("retain_available false") as broker:
        assert "retain_available true" in only_wrong(check_losses(options_of(broker), WRITABLE, FEW)).remedy


def test_a_queue_that_drops_what_the_broker_acknowledged() -> None:
    with told("max_queued_messages 50") as broker:
        found = only_wrong(look_into_queue(options_of(broker), FEW))

    assert f"of {FEW} messages" in found.text
    assert "max_queued_messages" in found.remedy


def test_a_busy_machine_on_which_messages_come_late_is_not_taken_for_loss(broker: RunningBroker) -> None:
    with Stalling(broker, silence_s=1.5) as options:
        assert look_into_queue(options, FEW) == []


def test_where_a_machine_is_too_busy_to_tell_nothing_is_called_lost(broker: RunningBroker) -> None:
    with Stalling(broker, silence_s=None) as options:
        (found,) = look_into_queue(options, FEW, patience_s=1.5)

    assert found.level is Level.NOTE
    assert f"only {FEW - 11} of {FEW} messages" in found.text
    assert "max_queued_messages" not in found.remedy, "which may be set already, and would change nothing"


@contextmanager
def by_hand(port: int, *arguments: str, folder: Path | None = None) -> Iterator[None]:
    """Mosquitto as somebody starts it in a folder."""
    require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
    process = subprocess.Popen([find_mosquitto(), *arguments], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        until(lambda: running_at("127.0.0.1", port) is not None, "listens")
        yield
    finally:
        process.terminate()
        process.wait()


def test_mosquitto_without_a_configuration_loses_what_is_above_its_default() -> None:
    """As `mosquitto -p 1883` starts it, and as a package does without further files."""
    port = free_port()
    with by_hand(port, "-p", str(port)):
        queue = only_wrong(look_into_queue(BrokerOptions(port=port)))
        findings = check_configuration("127.0.0.1", port)

    assert f"of {QUEUED} messages" in queue.text
    assert [finding.level for finding in findings] == [Level.WRONG, Level.WRONG]
    assert "keeps nothing over a restart" in findings[0].text
    assert "max_queued_messages is 1000" in findings[1].text


def test_the_look_into_the_queue_leaves_nothing_behind() -> None:
    with running_broker() as broker:
        with watching(broker) as watch:
            assert look_into_queue(options_of(broker), FEW) == []
            watch.settle()
        broker.stop()
        stored = b"".join(file.read_bytes() for file in (broker.directory / "data").iterdir())

    assert {topic.split("/")[0] for topic in watch.topics} == {"piriscale-doctor"}, "no topic of ours"
    assert b"piriscale-doctor" not in stored, "no session and no message"


def test_a_queue_that_this_user_may_not_try_is_said_to_be_unknown() -> None:
    with running_broker() as place:
        rights = place.directory / "rights"
        rights.write_text("topic readwrite perf/#\n")
        rights.chmod(0o644)
        with running_broker(MosquittoConfiguration(acl_file=rights)) as broker:
            (found,) = look_into_queue(options_of(broker), FEW)

    assert found.level is Level.NOTE
    assert "piriscale-doctor/#" in found.remedy


@pytest.mark.parametrize(
    ("lines", "says", "remedy"),
    [
        (("persistence false",), "keeps nothing over a restart", "persistence true"),
        (("autosave_interval 1800",), "saves every 1800 s only", "autosave_interval 10"),
        (("autosave_interval 0",), "saves at its orderly end only", "autosave_interval 10"),
        (("max_queued_bytes 1000",), "max_queued_bytes is 1000", "max_queued_bytes"),
    ],
    ids=["nothing stored", "stored seldom", "stored at its end", "few bytes"],
)
def test_what_the_file_of_the_running_broker_tells(lines: tuple[str, ...], says: str, remedy: str) -> None:
    with told(*lines) as broker:
        found = only_wrong(check_configuration(broker.host, broker.port))

    assert says in found.text
    assert remedy in found.remedy
    assert "mosquitto.conf" in found.remedy


def test_a_folder_of_further_files_counts(tmp_path: Path) -> None:
    with running_broker() as place:
        folder = place.directory / "conf.d"
        folder.mkdir()
        (folder / "local.conf").write_text("# ours\npersistence false\n")
        with told(f"include_dir {folder}") as broker:
            assert "keeps nothing" in only_wrong(check_configuration(broker.host, broker.port)).text


@contextmanager
def including(*files: tuple[str, str]) -> Iterator[RunningBroker]:
    """Mosquitto with the folders `first` and `second` of these files: name and text, {} being where they are."""
    with running_broker() as place:
        for name, text in files:
            file = place.directory / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text.format(place.directory))
        folders = [f"include_dir {place.directory / name}" for name in ("first", "second")]
        with told(*folders) as broker:
            yield broker


def test_several_folders_count() -> None:
    with including(("first/piece.conf", "persistence false\n"), ("second/piece.conf", "# ours\n")) as broker:
        assert "keeps nothing" in only_wrong(check_configuration(broker.host, broker.port)).text


def test_of_folders_and_files_the_last_counts_as_it_does_for_mosquitto() -> None:
    """In the order of names whatever their case; and what an included file includes counts for neither."""
    sizes = [
        ("first/piece.conf", "max_packet_size 200001\n"),
        ("second/B.conf", "max_packet_size 200003\ninclude_dir {}/inner\n"),
        ("second/a.conf", "max_packet_size 200002\n"),
        ("inner/piece.conf", "max_packet_size 200004\n"),
    ]
    with including(*sizes) as broker:
        configured = running_at(broker.host, broker.port)
        with Probe(options_of(broker), "looks", within_s=10) as probe:
            packet_max = probe.promises.packet_max

    assert configured is not None
    assert configured.options["max_packet_size"] == str(packet_max) == "200003"


def test_a_folder_is_sought_from_where_mosquitto_was_started(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "own.conf").write_text(f"listener {port} 127.0.0.1\ninclude_dir conf.d\n")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "local.conf").write_text("max_queued_messages 77\n")
    with by_hand(port, "-c", "own.conf", folder=tmp_path):
        configured = running_at("127.0.0.1", port)

    assert configured is not None
    assert configured.number("max_queued_messages") == 77


def test_of_a_broker_elsewhere_it_is_said_what_cannot_be_seen() -> None:
    (found,) = check_configuration("192.0.2.1", 1883)

    assert found.level is Level.NOTE
    assert "persistence true" in found.remedy


def test_what_saves_on_every_change_is_not_reproached_for_its_interval() -> None:
    file = Configured(
        Path("/etc/mosquitto.conf"),
        {
            "persistence": "true",
            "autosave_on_changes": "true",
            "autosave_interval": "1",
            "max_queued_messages": "0",
        },
    )

    assert all_ok(judge_file(file))


@pytest.mark.parametrize(
    ("promises", "remedy"),
    [
        (Promises(qos_max=0), "max_qos 2"),
        (Promises(wildcards=False), "allow them"),
        (Promises(session_expiry_s=60), "session expiry"),
    ],
    ids=["no QoS 1", "no wildcards", "short sessions"],
)
def test_promises_that_mosquitto_cannot_be_told_to_make(promises: Promises, remedy: str) -> None:
    findings: list[Finding] = judge(promises)

    assert remedy in only_wrong(findings).remedy
