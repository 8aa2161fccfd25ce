"""`doctor` on certificates: how long they are valid is told while there is time to renew them."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from broker.access import Principal
from broker.certificates import BenchAuthority
from broker.configuration import MosquittoConfiguration, ServerTls
from components.cli.doctor.certificates import check_certificates
from components.cli.doctor.examination import checks_of
from components.cli.doctor.finding import Level
from components.settings import BrokerSettings, NodeAgentSettings, Settings, TlsSettings
from tests.cli.findings import all_ok, only_wrong
from tests.fixtures.broker import free_port, running_broker

NOW = datetime.now(UTC)
HERE = ("resource_manager", "node_agent/hpc-1", "cli/alice")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Certificates of three identities of this machine, for 397 days; and of another one's agent, for one."""
    monkeypatch.setenv("PIRISCALE_IDENTITY", "cli/alice")
    authority = BenchAuthority(tmp_path, NOW)
    for name in HERE:
        authority.issue(Principal.parse(name))
    authority.issue(Principal.parse("node_agent/hpc-2"), days=1)
    return tmp_path


def settings_of(folder: Path, who: str = "{identity}", port: int | None = None) -> Settings:
    place = folder / who
    tls = TlsSettings(ca_file=place / "ca.pem", cert_file=place / "cert.pem", key_file=place / "key.pem")
    broker = BrokerSettings(url=f"mqtts://127.0.0.1:{port or free_port()}", tls=tls)
    return Settings(broker=broker, node_agent=NodeAgentSettings(node="hpc-1"))


def test_those_of_this_machine_are_told_in_one_line_while_all_is_well(folder: Path) -> None:
    (found,) = check_certificates(settings_of(folder), NOW)

    assert found.level is Level.OK
    assert f"{NOW + timedelta(days=397):%Y-%m-%d}" in found.text
    assert all(name in found.text for name in HERE)


def test_thirty_days_before_its_end_it_is_to_be_renewed(folder: Path) -> None:
    BenchAuthority(folder, NOW).issue(Principal.parse("resource_manager"), days=40, force=True)

    early = check_certificates(settings_of(folder), NOW + timedelta(days=9))
    found = check_certificates(settings_of(folder), NOW + timedelta(days=11))

    assert all_ok(early)
    (soon,) = (each for each in found if each.level is Level.NOTE)
    assert "resource_manager: expires on" in soon.text
    assert "in 28 days" in soon.text or "in 29 days" in soon.text
    assert "piriscale certs DIRECTORY resource_manager --force" in soon.remedy
    assert "restart its owner" in soon.remedy


def test_one_that_expired_is_wrong(folder: Path) -> None:
    BenchAuthority(folder, NOW).issue(Principal.parse("node_agent/hpc-1"), days=40, force=True)

    found = only_wrong(check_certificates(settings_of(folder), NOW + timedelta(days=41)))

    assert "node_agent/hpc-1: expired on" in found.text
    assert "--force" in found.remedy


def test_one_that_is_not_valid_yet_points_to_the_clock(folder: Path) -> None:
    found = check_certificates(settings_of(folder, "cli/alice"), NOW - timedelta(days=3))

    assert "not valid before" in only_wrong(found).text
    assert "clock" in only_wrong(found).remedy


def test_one_that_all_share_is_told_once(folder: Path) -> None:
    (found,) = check_certificates(settings_of(folder, "node_agent/hpc-2"), NOW)

    assert found.text.startswith("node_agent/hpc-2: expires on")


def test_without_certificates_there_is_nothing_to_tell() -> None:
    assert check_certificates(Settings()) == []


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    """A broker whose own certificate ends in 20 days."""
    BenchAuthority(folder, NOW).issue_broker(["127.0.0.1"], days=20)
    with running_broker() as place:
        for name in ("ca.pem", "cert.pem", "key.pem"):
            shutil.copy(folder / "broker" / name, place.directory)
            (place.directory / name).chmod(0o644)
        ca_file, cert_file, key_file = (place.directory / name for name in ("ca.pem", "cert.pem", "key.pem"))
        tls = ServerTls(ca_file, cert_file, key_file, require_certificate=True)
        with running_broker(MosquittoConfiguration(tls=tls)) as broker:
            yield broker.port


def test_the_brokers_own_is_looked_at_too(folder: Path, port: int) -> None:
    certs = next(check for check in checks_of(settings_of(folder, port=port), ()) if check.area == "certs")

    ours, brokers = certs.run()

    assert ours.level is Level.OK
    assert brokers.level is Level.NOTE
    assert "the broker's own expires on" in brokers.text
    assert "broker --force --host" in brokers.remedy
