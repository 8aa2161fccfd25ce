"""Who is let in by a broker that wants certificates, and what the others are told."""

import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from broker.access import Principal
from broker.bus import Disconnected, Identity
from broker.certificates import BenchAuthority
from broker.client import MqttBus
from broker.options import BrokerOptions, TlsFiles
from components.cli.connection import Session
from components.cli.errors import CliError, UsageError
from components.settings import BrokerSettings
from schemas.topics import Role
from tests.broker.worlds import Client
from tests.requirements import require
from tests.security.running import running, settings_for
from tests.security.secured import Secured, secured, until


@pytest.fixture(scope="module")
def broker() -> Iterator[Secured]:
    with secured(
        ["node_agent/a", "node_agent/b", "debug_tap", "cli/alice"], hosts=("127.0.0.1",)
    ) as running_broker:
        yield running_broker


def files(folder: Path, ca_file: Path | None = None) -> TlsFiles:
    return TlsFiles(ca_file or folder / "ca.pem", folder / "cert.pem", folder / "key.pem")


def told(options: BrokerOptions) -> Disconnected:
    """The first thing that a client is told, other than that it is connected."""
    client = Client(lambda deliver: MqttBus(options, Identity("stranger"), deliver))
    try:
        client.wait(lambda: bool(client.disconnections))
        assert not client.connections
        return client.disconnections[0]
    finally:
        client.bus.stop(drain_s=0)


class TestRefused:
    @pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
    def version(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
        """Both, since with 1.3 a client hears only after the handshake that it was refused."""
        most = ssl.TLSVersion.TLSv1_2 if request.param == "TLSv1.2" else ssl.TLSVersion.TLSv1_3
        made = TlsFiles.context

        def limited(self: TlsFiles) -> ssl.SSLContext:
            context = made(self)
            context.maximum_version = most
            return context

        monkeypatch.setattr(TlsFiles, "context", limited)
        return str(request.param)

    def test_a_certificate_of_another_authority(self, broker: Secured, tmp_path: Path, version: str) -> None:
        stranger = BenchAuthority(tmp_path).issue(Principal.parse("node_agent/a"))
        options = BrokerOptions(
            port=broker.port, tls=files(stranger.folder, broker.certificates / "ca" / "ca.pem")
        )
        reason = told(options).reason
        assert f"127.0.0.1:{broker.port} refuses us" in reason, version
        assert "does not trust the authority of our certificate" in reason

    def test_an_expired_certificate(self, broker: Secured, tmp_path: Path, version: str) -> None:
        shutil.copytree(broker.certificates / "ca", tmp_path / "ca")
        past = BenchAuthority(tmp_path, datetime.now(UTC) - timedelta(days=100))
        expired = past.issue(Principal.parse("node_agent/a"), days=50)
        event = told(BrokerOptions(port=broker.port, tls=files(expired.folder)))
        assert "our certificate has expired, or its clock is wrong" in event.reason, version
        assert not event.fatal, "clocks and certificates are set right while we wait"

    def test_no_certificate_at_all(self, broker: Secured, version: str) -> None:
        options = BrokerOptions(port=broker.port, tls=TlsFiles(broker.certificates / "ca" / "ca.pem"))
        reason = told(options).reason
        assert "it wants a certificate" in reason, version

    def test_the_brokers_own_certificate_used_by_a_client(self, broker: Secured, version: str) -> None:
        copied = broker.certificates / "broker"
        options = BrokerOptions(port=broker.port, tls=files(copied))
        assert "refuses us: our certificate is not for clients" in told(options).reason, version


class TestDistrusted:
    def test_a_broker_of_another_authority(self, broker: Secured, tmp_path: Path) -> None:
        other = BenchAuthority(tmp_path).issue(Principal.parse("node_agent/a"))
        reason = told(BrokerOptions(port=broker.port, tls=files(other.folder))).reason
        assert "CERTIFICATE_VERIFY_FAILED" in reason

    def test_a_broker_under_a_name_that_its_certificate_has_not(self, broker: Secured) -> None:
        options = BrokerOptions("localhost", broker.port, files(broker.certificates / "debug_tap"))
        assert "localhost" in told(options).reason

    def test_a_client_certificate_used_by_a_broker(self, broker: Secured) -> None:
        # An ECU that answers in the broker's place, with all that it has.
        folder = broker.certificates / "node_agent" / "b"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        with socket.create_server(("127.0.0.1", 0)) as server:
            posing = context.wrap_socket(server, server_side=True, do_handshake_on_connect=False)
            with posing:
                options = BrokerOptions(port=server_port(posing), tls=files(broker.certificates / "debug_tap"))
                client = MqttBus(options, Identity("unit"), lambda _: True)
                client.start()
                accepted, _ = posing.accept()
                with accepted, pytest.raises(ssl.SSLError, match="ALERT"):
                    _shake_hands(accepted)
                client.stop(drain_s=0)


def _shake_hands(accepted: ssl.SSLSocket) -> None:
    accepted.do_handshake()
    accepted.recv(1)


def server_port(server: socket.socket) -> int:
    return int(server.getsockname()[1])


class TestFiles:
    def test_each_component_uses_the_certificate_of_its_own_identity(
        self, broker: Secured, tmp_path: Path
    ) -> None:
        settings = settings_for(broker, tmp_path)
        with running(Role.NODE_AGENT, settings) as agent, running(Role.DEBUG_TAP, settings) as tap:
            until(lambda: not agent.problems() and not tap.problems(), "both are well")
        assert "as piriscale-node_agent-a (p5, c1, k15, u'node_agent/a')" in broker.log
        assert "as piriscale-debug_tap-main (p5, c1, k15, u'debug_tap')" in broker.log

    @pytest.mark.parametrize(("days", "told"), [(20, True), (60, False)])
    def test_a_component_whose_certificate_ends_soon_says_so_when_it_starts(
        self, days: int, told: bool, broker: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        shutil.copytree(broker.certificates / "ca", tmp_path / "ca")
        own = BenchAuthority(tmp_path).issue(Principal.parse("debug_tap"), days).folder
        tls = {"cert_file": own / "cert.pem", "key_file": own / "key.pem"}
        with running(Role.DEBUG_TAP, settings_for(broker, tmp_path, tls=tls)) as tap:
            until(lambda: not tap.problems(), "it is well")
        assert (f"{own}/cert.pem is valid for {days - 1} more days" in caplog.text) is told

    def test_a_person_who_has_no_certificate_is_told_how_to_get_one(
        self, broker: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PIRISCALE_IDENTITY", "cli/bob")
        with pytest.raises(
            UsageError, match=r"cannot read .*/cli/bob/ca\.pem: .*piriscale certs.*PIRISCALE_IDENTITY"
        ):
            Session(settings_for(broker, tmp_path).broker, ())

    def test_a_person_uses_the_identity_that_the_environment_names(
        self, broker: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PIRISCALE_IDENTITY", "cli/alice")
        with Session(settings_for(broker, tmp_path).broker, ()) as session:
            assert session.connected

    def test_a_wrong_certificate_ends_a_command_at_once(
        self, broker: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PIRISCALE_IDENTITY", "cli/alice")
        stranger = BenchAuthority(tmp_path).issue(Principal.parse("cli/alice")).folder
        tls = {"cert_file": stranger / "cert.pem", "key_file": stranger / "key.pem"}
        session = Session(settings_for(broker, tmp_path, tls=tls).broker, ())
        with pytest.raises(CliError, match="does not trust the authority of our certificate"), session:
            pass

    def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(
        self, broker: Secured, tmp_path: Path
    ) -> None:
        require(shutil.which("openssl") is not None, "openssl")
        folder, locked = broker.certificates / "debug_tap", tmp_path / "locked.pem"
        places = ("-in", str(folder / "key.pem"), "-out", str(locked))
        command = ["openssl", "ec", "-aes256", "-passout", "pass:secret", *places]
        subprocess.run(command, check=True, capture_output=True)
        with pytest.raises(ValueError, match="the key_file is encrypted"):
            TlsFiles(folder / "ca.pem", folder / "cert.pem", locked).context()

    def test_a_key_of_another_certificate_is_told(self, broker: Secured) -> None:
        one, other = broker.certificates / "debug_tap", broker.certificates / "cli" / "alice"
        with pytest.raises(ValueError, match="are not a certificate and its key"):
            TlsFiles(one / "ca.pem", one / "cert.pem", other / "key.pem").context()

    def test_what_is_no_authority_is_told(self, broker: Secured) -> None:
        folder = broker.certificates / "debug_tap"
        with pytest.raises(ValueError, match=r"key\.pem holds no certificate of an authority"):
            TlsFiles(folder / "key.pem").context()

    def test_only_the_name_of_the_identity_is_filled_in(self) -> None:
        settings = BrokerSettings(username="{identity}", password_file=Path("/p/{identity}/{other}"))
        filled = settings.of("node_agent/a")
        assert (filled.username, filled.password_file) == ("node_agent/a", Path("/p/node_agent/a/{other}"))
        assert settings.of("x").tls is None
        assert os.fspath(settings.password_file or "") == "/p/{identity}/{other}", "the settings stay as they were"
