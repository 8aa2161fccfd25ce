"""Passwords, rights and TLS: who is let in, and who is told at once that he is not."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from broker.client import MqttBus
from broker.configuration import MosquittoConfiguration, ServerTls
from broker.options import BrokerOptions, TlsFiles
from broker.probe import Probe
from schemas.codec import Frame
from tests.broker.started import UNIT, Started, bus_of, socket_of
from tests.fixtures.broker import RunningBroker, running_broker
from tests.requirements import require

RIGHT: Final = BrokerOptions(username="unit", password="right")  # noqa: S106 - of a broker that lives for one test


class TestAccess:
    @pytest.fixture
    def guarded(self, tmp_path: Path) -> Iterator[RunningBroker]:
        """A broker with one user, who may write on `t` only."""
        require(shutil.which("mosquitto_passwd") is not None, "mosquitto_passwd")
        # Not in tmp_path, into which Mosquitto's user cannot look.
        with running_broker() as place:
            passwords, rights = place.directory / "passwords", place.directory / "rights"
            subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "unit", "right"], check=True)
            rights.write_text("user unit\ntopic read #\ntopic write t\ntopic write component/#\n")
            for file in (passwords, rights):
                shutil.chown(
                    file, place.directory.joinpath("data").owner(), place.directory.joinpath("data").group()
                )
                file.chmod(0o600)
            with running_broker(MosquittoConfiguration(password_file=passwords, acl_file=rights)) as running:
                yield running

    def test_the_right_password_opens(self, guarded: RunningBroker, started: Started) -> None:
        client = started.client(guarded, UNIT, RIGHT)
        client.wait_connected()

    @pytest.mark.parametrize("password", ["wrong", None])
    def test_a_wrong_password_ends_the_client_instead_of_being_tried_for_ever(
        self, guarded: RunningBroker, started: Started, password: str | None
    ) -> None:
        client = started.client(guarded, UNIT, BrokerOptions(username="unit", password=password))
        assert "refuses client unit" in client.wait_fatal()
        client.wait(lambda: not bus_of(client)._thread.is_alive())
        assert guarded.log.count("New connection") == 2  # the first looked whether the broker is there

    def test_a_publish_against_the_rules_is_counted(self, guarded: RunningBroker, started: Started) -> None:
        client = started.client(guarded, UNIT, RIGHT)
        client.wait_connected()
        client.bus.publish(Frame("not/allowed", b""))
        client.bus.publish(Frame("t", b"allowed"))
        client.wait_messages(b"allowed")
        client.wait(lambda: client.bus.counts.negative_acks == 1)

    def test_a_subscription_against_the_rules_ends_the_client(self, started: Started) -> None:
        plugin = next(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"), None)
        require(plugin is not None, "mosquitto's dynamic security plugin")
        with running_broker() as place:
            rules = place.directory / "rules.json"
            rights = {"publishClientSend": True, "publishClientReceive": True, "subscribe": False}
            everybody = {"anonymousGroup": "all", "groups": [{"groupname": "all"}], "roles": [], "clients": []}
            rules.write_text(json.dumps({"defaultACLAccess": rights, **everybody}))
            rules.chmod(0o644)
            lines = (f"plugin {plugin}", f"plugin_opt_config_file {rules}")
            with running_broker(MosquittoConfiguration(extra=lines)) as guarded:
                client = started.client(guarded, UNIT)
                assert "refuses the subscription t (QoS 1) of unit" in client.wait_fatal()
                assert not client.connections


class TestTls:
    @pytest.fixture
    def certificates(self) -> Iterator[Path]:
        require(shutil.which("openssl") is not None, "openssl")
        with running_broker() as place:
            new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
            place.directory.joinpath("server.ext").write_text(
                "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
            )
            for command in (
                f"req -x509 {new} -subj /CN=ca -addext keyUsage=critical,keyCertSign -keyout ca.key -out ca.pem",
                f"req {new} -subj /CN=broker -keyout server.key -out server.csr",
                "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -extfile server.ext -out server.pem",
                f"req -x509 {new} -subj /CN=other -keyout other.key -out other.pem",
            ):
                subprocess.run(["openssl", *command.split()], cwd=place.directory, check=True, capture_output=True)
            for file in place.directory.glob("*.key"):
                file.chmod(0o644)
            yield place.directory

    @pytest.fixture
    def secure(self, certificates: Path) -> Iterator[RunningBroker]:
        files = ServerTls(certificates / "ca.pem", certificates / "server.pem", certificates / "server.key")
        with running_broker(MosquittoConfiguration(tls=files)) as running:
            yield running

    def test_messages_go_through_tls_both_ways(
        self, secure: RunningBroker, certificates: Path, started: Started
    ) -> None:
        client = started.client(secure, UNIT, BrokerOptions(tls=TlsFiles(certificates / "ca.pem")))
        client.wait_connected()
        large = os.urandom(300_000)  # several TLS records
        for number in range(20):
            client.bus.publish(Frame("t", b"%d" % number))
        client.bus.publish(Frame("t", large))
        client.wait_messages(b"19", large)
        assert socket_of(client).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.bus.stop()

    def test_a_look_at_the_broker_goes_through_tls(self, secure: RunningBroker, certificates: Path) -> None:
        options = BrokerOptions(port=secure.port, tls=TlsFiles(certificates / "ca.pem"))
        with Probe(options, "probe", 5.0) as probe:
            assert probe.may_subscribe(["t"]) == {"t": 1}

    def test_a_broker_nobody_vouches_for_is_refused_and_tried_again(
        self, secure: RunningBroker, certificates: Path, started: Started
    ) -> None:
        # Not for good: a vehicle's clock may be wrong at first, and certificates are renewed.
        client = started.client(secure, UNIT, BrokerOptions(tls=TlsFiles(certificates / "other.pem")))
        client.wait(lambda: len(client.disconnections) > 0)
        assert "CERTIFICATE_VERIFY_FAILED" in client.disconnections[0].reason
        assert not client.disconnections[0].fatal

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        options = BrokerOptions(tls=TlsFiles(tmp_path / "absent.pem"))
        with pytest.raises(ValueError, match=r"absent\.pem"):
            MqttBus(options, UNIT, lambda _event: True)
