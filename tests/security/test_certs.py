"""`piriscale certs` and `piriscale broker-config`: what they make, keep, and refuse."""

import os
import pwd
import shutil
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from typer.testing import CliRunner, Result

from broker.access import Principal
from broker.certificates import BenchAuthority, CertificateError
from broker.secured import secured_broker
from components.cli.main import app
from tests.requirements import require


def piriscale(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200", "NO_COLOR": "1"})


def certificate(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())


def names(certificate: x509.Certificate) -> list[str]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in found]


def use(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def all_of(folder: Path) -> list[Path]:
    return [folder, *folder.rglob("*")]


class TestCerts:
    def test_one_command_makes_all_and_says_how_to_use_it(self, tmp_path: Path) -> None:
        made = piriscale("certs", tmp_path / "pki", "node_agent/hpc-1", "cli/alice", "--host", "broker.car")

        assert made.exit_code == 0, made.stderr
        for name in ("broker", "resource_manager", "debug_tap", "node_agent/hpc-1", "cli/alice"):
            assert name in made.stdout
            assert certificate(tmp_path / "pki" / name).subject.rfc4514_string() == f"CN={name}"
        assert "[broker.tls]" in made.stdout
        assert "{identity}/cert.pem" in made.stdout
        assert "broker-config" in made.stdout
        assert names(certificate(tmp_path / "pki" / "broker")) == ["broker.car"]

    def test_nobody_else_reads_a_key(self, tmp_path: Path) -> None:
        old = os.umask(0)
        try:
            piriscale("certs", tmp_path / "pki", "node_agent/hpc-1")
            piriscale("certs", tmp_path / "pki", "node_agent/hpc-1", "--force")
        finally:
            os.umask(old)
        keys = [*(tmp_path / "pki").rglob("key.pem"), tmp_path / "pki" / "ca" / "ca.key"]
        assert len(keys) > 8
        assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
        assert not list((tmp_path / "pki").rglob(".*")), "nothing half-written is left"

    def test_a_renewed_key_is_still_its_owners(self, tmp_path: Path) -> None:
        require(os.geteuid() == 0, "root, to give files away")
        piriscale("certs", tmp_path)
        for file in (tmp_path / "debug_tap").iterdir():
            os.chown(file, 10001, 10002)
        piriscale("certs", tmp_path, "debug_tap", "--force")
        owners = {(file.stat().st_uid, file.stat().st_gid) for file in (tmp_path / "debug_tap").iterdir()}
        assert owners == {(10001, 10002)}

    def test_a_node_is_added_later_and_nothing_else_changes(self, tmp_path: Path) -> None:
        piriscale("certs", tmp_path, "node_agent/hpc-1")
        before = {file: file.read_bytes() for file in tmp_path.rglob("*.*") if file.is_file()}

        added = piriscale("certs", tmp_path, "node_agent/hpc-2", "--days", "30")

        assert added.exit_code == 0, added.stderr
        assert {file: file.read_bytes() for file in before} == before
        left = certificate(tmp_path / "node_agent" / "hpc-2").not_valid_after_utc - datetime.now(UTC)
        assert timedelta(days=29) < left <= timedelta(days=30)

    def test_a_certificate_is_made_anew_only_when_asked_twice(self, tmp_path: Path) -> None:
        piriscale("certs", tmp_path, "node_agent/hpc-1")
        before = (tmp_path / "node_agent" / "hpc-1" / "key.pem").read_bytes()

        refused = piriscale("certs", tmp_path, "node_agent/hpc-1")
        assert refused.exit_code == 1
        assert "has a certificate, valid until" in refused.stderr
        assert "--force" in refused.stderr
        assert (tmp_path / "node_agent" / "hpc-1" / "key.pem").read_bytes() == before

        assert piriscale("certs", tmp_path, "node_agent/hpc-1", "--force").exit_code == 0
        assert (tmp_path / "node_agent" / "hpc-1" / "key.pem").read_bytes() != before

    def test_the_broker_gets_other_names_when_forced_and_its_authority_stays(self, tmp_path: Path) -> None:
        piriscale("certs", tmp_path, "--host", "a.car")
        authority = (tmp_path / "ca" / "ca.pem").read_bytes()
        assert piriscale("certs", tmp_path, "--host", "b.car").exit_code == 2
        assert (
            piriscale("certs", tmp_path, "broker", "--force", "--host", "b.car", "--host", "10.0.0.1").exit_code
            == 0
        )
        assert names(certificate(tmp_path / "broker")) == ["b.car", "10.0.0.1"]
        assert (tmp_path / "ca" / "ca.pem").read_bytes() == authority

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["somebody"], "is no identity; there are"),
            (["node_agent"], "write node_agent/NODE"),
            (["node_agent/.."], "cannot be the name of a folder"),
            ([f"node_agent/{'n' * 60}"], "at most 64"),
            (["--force"], "say of whom"),
            (["--days", "0"], "write 1 to 3650"),
            (["--host", "ü.car"], "neither a host's name nor an address"),
            (["--host", "10.0.0.1 car"], "neither a host's name nor an address"),
            (["--host", ""], "neither a host's name nor an address"),
        ],
    )
    def test_a_mistake_is_told_in_one_line(self, words: list[str], told: str, tmp_path: Path) -> None:
        result = piriscale("certs", tmp_path / "pki", *words)
        assert result.exit_code in (1, 2)
        assert told in result.stderr
        assert len(result.stderr.splitlines()) == 1

    def test_a_client_cannot_pose_as_the_broker_nor_the_broker_as_a_client(self, tmp_path: Path) -> None:
        piriscale("certs", tmp_path, "application/hpc-1")
        assert use(certificate(tmp_path / "broker")) == [ExtendedKeyUsageOID.SERVER_AUTH]
        assert use(certificate(tmp_path / "application" / "hpc-1")) == [ExtendedKeyUsageOID.CLIENT_AUTH]

    def test_an_expired_authority_makes_nothing_more(self, tmp_path: Path) -> None:
        BenchAuthority(tmp_path, datetime.now(UTC) - timedelta(days=4000))
        with pytest.raises(CertificateError, match="has expired on"):
            BenchAuthority(tmp_path)

    def test_no_certificate_outlives_its_authority(self, tmp_path: Path) -> None:
        authority = BenchAuthority(tmp_path, datetime.now(UTC) - timedelta(days=3600))
        late = BenchAuthority(tmp_path).issue(Principal.parse("cli/alice"))
        assert late.until == authority.until

    def test_a_key_that_was_lost_is_told_and_no_other_authority_is_made(self, tmp_path: Path) -> None:
        piriscale("certs", tmp_path)
        (tmp_path / "ca" / "ca.key").unlink()
        result = piriscale("certs", tmp_path, "node_agent/hpc-1")
        assert result.exit_code == 1
        assert "no usable authority" in result.stderr


class TestBrokerConfig:
    @pytest.fixture
    def pki(self, tmp_path: Path) -> Path:
        piriscale("certs", tmp_path / "pki", "node_agent/hpc-1")
        return tmp_path / "pki"

    def test_shows_both_files_and_writes_nothing(self, pki: Path) -> None:
        before = sorted(pki.rglob("*"))
        shown = piriscale("broker-config", pki, "cli/alice", "--show", "--topic-prefix", "car-7")
        assert shown.exit_code == 0, shown.stderr
        assert sorted(pki.rglob("*")) == before
        for line in (
            "listener 8883 127.0.0.1",
            "allow_anonymous false",
            "require_certificate true",
            "use_identity_as_username true",
            "listener 8884 127.0.0.1",
            "use_username_as_clientid true",
            "user node_agent/hpc-1",
            "topic write car-7/node/hpc-1/info",
            "user cli/alice",
        ):
            assert line in shown.stdout.splitlines()

    def test_a_fleets_broker_takes_several_prefixes(self, pki: Path) -> None:
        words = ["--topic-prefix", "car-7", "--topic-prefix", "car-8"]
        shown = piriscale("broker-config", pki, "bridge/car-7", "--show", *words)
        assert shown.exit_code == 0, shown.stderr
        lines = shown.stdout.splitlines()
        assert {"topic write car-7/node/hpc-1/info", "topic write car-8/node/hpc-1/info"} <= set(lines)
        assert lines[lines.index("user bridge/car-7") + 1] == "topic readwrite car-7/#"

    def test_a_prefix_that_no_bridge_can_have_is_refused_only_where_there_are_bridges(self, pki: Path) -> None:
        words = ["--topic-prefix", "fleet/car-7", "--show"]
        assert "topic write fleet/car-7/node/hpc-1/info" in piriscale("broker-config", pki, *words).stdout
        refused = piriscale("broker-config", pki, "bridge/car-7", *words)
        assert (refused.exit_code, refused.stdout) == (1, "")
        line = refused.stderr.splitlines()[-1]  # as root maybe behind a warning of who is to run the broker
        assert "--topic-prefix car-7 for bridge/car-7" in line

    def test_a_vehicle_without_prefix_and_a_prefix_without_vehicle_are_told(self, pki: Path) -> None:
        """Mistyped, people would hear nothing of that vehicle, and no error would say so."""
        bridges = ["bridge/car-7", "bridge/car-8"]
        mistyped = piriscale("broker-config", pki, *bridges, "--topic-prefix", "car-7", "--topic-prefix", "cra-8")
        assert "to look at car-8 here, over its bridge: --topic-prefix car-8" in mistyped.stdout
        assert "no bridge may speak below cra-8/" in mistyped.stdout
        assert "look at car-7" not in mistyped.stdout
        right = piriscale("broker-config", pki, *bridges, "--topic-prefix", "car-7", "--topic-prefix", "car-8")
        without = piriscale("broker-config", pki, "--topic-prefix", "car-7")
        assert "over its bridge" not in right.stdout
        assert "no bridge" not in right.stdout + without.stdout

    def test_shows_what_it_would_write(self, pki: Path, tmp_path: Path) -> None:
        shown = piriscale("broker-config", pki, "--show", "--into", tmp_path / "to").stdout
        piriscale("broker-config", pki, "--into", tmp_path / "to")
        written = [(tmp_path / "to" / name).read_text() for name in ("mosquitto.conf", "acl")]
        assert shown == f"{written[0]}\n# --- {tmp_path / 'to' / 'acl'}\n{written[1]}"
        if os.geteuid() == 0:
            assert "\nuser " in written[0].split("listener 8884")[0], "Mosquitto becomes somebody"

    def test_writes_what_the_brokers_machine_needs_and_not_more(self, pki: Path, tmp_path: Path) -> None:
        done = piriscale("broker-config", pki, "--into", tmp_path / "to", "--bind", "0.0.0.0", "--port", "8885")  # noqa: S104
        assert done.exit_code == 0, done.stderr
        assert {file.name for file in (tmp_path / "to").iterdir()} == {
            *("ca.pem", "cert.pem", "key.pem", "guests.pem"),
            *("acl", "mosquitto.conf", "data"),
        }
        assert stat.S_IMODE((tmp_path / "to" / "key.pem").stat().st_mode) == 0o600
        assert "listener 8885 0.0.0.0" in (tmp_path / "to" / "mosquitto.conf").read_text()
        assert "mosquitto -c" in done.stdout

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--topic-prefix", "car/#"], "is no topic prefix"),
            (["--topic-prefix", "car\ntopic readwrite #"], "is no topic prefix"),
            (["--topic-prefix", "car/"], "is no topic prefix"),
            (["--bind", "10.0.0.1\nallow_anonymous true"], "is no address"),
            (["--bind", "10.0.0.1 car"], "is no address"),
            (["--port", "8884"], "for guests already"),
        ],
    )
    def test_what_would_open_or_break_the_broker_is_refused(self, words: list[str], told: str, pki: Path) -> None:
        result = piriscale("broker-config", pki, *words, "--show")
        assert result.exit_code == 1
        assert told in result.stderr
        assert result.stdout == ""

    def test_is_repeated_when_a_node_is_added(self, pki: Path) -> None:
        piriscale("broker-config", pki)
        piriscale("certs", pki, "node_agent/hpc-2")
        piriscale("broker-config", pki)
        assert "user node_agent/hpc-2" in (pki / "broker" / "acl").read_text()

    def test_written_again_it_is_still_whose_it_was(self, pki: Path, tmp_path: Path) -> None:
        """As a container's user: otherwise its broker reads neither key nor rules after the next SIGHUP."""
        require(os.geteuid() == 0, "root, to give files away")
        piriscale("broker-config", pki, "--into", tmp_path / "to")
        (tmp_path / "to" / "data" / "mosquitto.db").touch()
        for path in all_of(tmp_path / "to"):
            os.chown(path, 10002, 10003)
        piriscale("certs", pki, "node_agent/hpc-2")

        assert piriscale("broker-config", pki, "--into", tmp_path / "to").exit_code == 0

        assert "user node_agent/hpc-2" in (tmp_path / "to" / "acl").read_text()
        found = {path.name: path.stat() for path in all_of(tmp_path / "to")}
        assert {name for name, each in found.items() if (each.st_uid, each.st_gid) != (10002, 10003)} == set()
        assert stat.S_IMODE(found["key.pem"].st_mode) == stat.S_IMODE(found["acl"].st_mode) == 0o600

    def test_who_runs_the_broker_gets_what_is_roots(self, pki: Path) -> None:
        """In the authority's directory the key is there before, and root's."""
        require(os.geteuid() == 0, "root, to give files away")
        uid = pwd.getpwnam("nobody").pw_uid
        for _ in range(2):
            secured_broker(pki, owner="nobody").write(pki)
            owners = {path.name: path.stat().st_uid for path in (pki / "broker").iterdir()}
            assert {name for name, owner in owners.items() if owner == uid} == {"data", "key.pem", "acl"}

    def test_without_certificates_it_says_how_to_make_them_and_makes_nothing(self, tmp_path: Path) -> None:
        result = piriscale("broker-config", tmp_path / "none")
        assert result.exit_code == 1
        assert "piriscale certs" in result.stderr
        assert list(tmp_path.iterdir()) == []

    def test_the_broker_comes_to_its_own_files_whatever_the_umask(self, pki: Path, tmp_path: Path) -> None:
        old = os.umask(0o077)
        try:
            piriscale("broker-config", pki, "--into", tmp_path / "new" / "to")
        finally:
            os.umask(old)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*")}
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o755
        assert modes["to"] == 0o755
        assert (modes["data"], modes["key.pem"], modes["acl"]) == (0o700, 0o600, 0o600)


def test_the_certificates_stand_openssls_strict_examination(tmp_path: Path) -> None:
    require(shutil.which("openssl") is not None, "openssl")
    piriscale("certs", tmp_path, "node_agent/hpc-1")
    for name, purpose in (("broker", "sslserver"), ("node_agent/hpc-1", "sslclient")):
        subprocess.run(
            ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca/ca.pem", f"{name}/cert.pem"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
