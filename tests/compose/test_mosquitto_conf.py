"""The broker of compose.yaml keeps messages as the one that `piriscale up` starts: both are written down apart."""

import subprocess
import time
from pathlib import Path

import pytest

from broker.access import Principal
from broker.certificates import BenchAuthority
from broker.configuration import MosquittoConfiguration
from broker.mosquitto import find_mosquitto
from broker.options import BrokerOptions, TlsFiles
from broker.probe import Probe
from broker.secured import owner_of, secured_broker
from tests.fixtures.broker import free_port, has_mosquitto
from tests.requirements import require

MOSQUITTO = Path(__file__).parents[2] / "compose" / "mosquitto"
PLACES = {"listener", "persistence_location", "include_dir", "per_listener_settings"}
"""Options that say where things are; they differ, and may."""
WITHIN_S = 20.0
OF_MESSAGES = {
    "persistence",
    "autosave_interval",
    "max_queued_messages",
    "max_queued_bytes",
    "max_inflight_messages",
    "persistent_client_expiration",
    "max_packet_size",
}


def options(text: str) -> set[tuple[str, str]]:
    """Every option with its value, but for those that say where things are."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {(name, value) for name, value in lines if name not in PLACES}


MANAGED = options(MosquittoConfiguration().text(Path("/data")))
COMPOSED = options("\n".join((MOSQUITTO / name).read_text() for name in ("mosquitto.conf", "open/listener.conf")))


@pytest.mark.parametrize("option", sorted(OF_MESSAGES))
def test_both_lose_and_keep_the_same_messages(option: str) -> None:
    """Mosquitto's default would take the place of a line that is missing in either, and lose messages."""
    assert option in dict(MANAGED)
    assert {value for name, value in COMPOSED if name == option} == {dict(MANAGED)[option]}


def await_entry(options: BrokerOptions) -> None:
    """Until the broker lets us in."""
    end = time.monotonic() + WITHIN_S
    while True:
        try:
            with Probe(options, "tester", 5.0):
                return
        except OSError:
            assert time.monotonic() < end, "it does not let us in"
            time.sleep(0.05)


def test_a_real_mosquitto_takes_the_locked_one_and_a_piece_of_ones_own(tmp_path: Path) -> None:
    require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
    authority, own, port = BenchAuthority(tmp_path / "certs"), tmp_path / "conf.d", free_port()
    authority.issue_broker(["localhost"])
    person = authority.issue(Principal.parse("cli/alice"))
    into = tmp_path / "broker"
    broker = secured_broker(
        authority.directory, into=into, port=port, guests_port=free_port(), owner=owner_of(into)
    )
    broker.write(authority.directory)
    own.mkdir()
    (own / "own.conf").write_text("sys_interval 1\n")
    text = (MOSQUITTO / "locked.conf").read_text(encoding="utf-8")
    for place, here in (("/etc/piriscale/broker", into), ("/etc/mosquitto/conf.d", own)):
        assert place in text
        text = text.replace(place, str(here))
    (tmp_path / "mosquitto.conf").write_text(text)
    command = [find_mosquitto(), "-c", str(tmp_path / "mosquitto.conf")]
    options = BrokerOptions(
        "localhost", port, TlsFiles(*(person.folder / f"{name}.pem" for name in ("ca", "cert", "key")))
    )
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            await_entry(options)
        finally:
            process.terminate()
            assert process.stderr is not None
            told = process.stderr.read()
    assert "own.conf" in told
    assert "rror" not in told


def test_nothing_else_is_set_in_one_of_them_only() -> None:
    """Two brokers with different options are two systems, of which one was tried."""
    assert sorted(COMPOSED) == sorted(MANAGED)
