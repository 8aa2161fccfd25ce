"""Passwords and keys are in files, and nowhere else: no log, no command line, no answer of ours repeats them."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.access import Principal
from broker.certificates import BenchAuthority
from broker.configuration import MosquittoConfiguration, ServerTls
from components.cli.identity import options_of
from components.settings import BrokerSettings, TlsSettings
from tests.cli.system import NODE, Configuration, configuration, get, until
from tests.fixtures.broker import RunningBroker, running_broker
from tests.requirements import require
from tests.security.secured import secured

PASSWORD = "correct-horse-battery-staple"  # noqa: S105 - of a broker that lives for one test
WRONG = "wrong-horse-battery-staple"


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[RunningBroker, Path]]:
    """TLS with passwords, one user for all identities' rights; and its certificates."""
    require(shutil.which("mosquitto_passwd") is not None, "mosquitto_passwd (apt-get install mosquitto)")
    with secured([]) as place:
        folder = place.folder / "broker"
        passwords = folder / "passwords"
        subprocess.run(["mosquitto_passwd", "-b", "-c", passwords, "everybody", PASSWORD], check=True)
        shutil.chown(passwords, (folder / "data").owner())
        tls = ServerTls(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
        with running_broker(MosquittoConfiguration(password_file=passwords, tls=tls)) as running:
            yield running, place.certificates


def system(broker: tuple[RunningBroker, Path], folder: Path, password: str = PASSWORD) -> Configuration:
    running, certificates = broker
    secret = folder / "password"
    secret.write_text(f"{password}\n")
    secret.chmod(0o600)
    lines = f'username = "everybody"\npassword_file = "{secret}"\ntls = {{ ca_file = "{certificates}/ca/ca.pem" }}'
    return configuration(folder, url=f"mqtts://127.0.0.1:{running.port}", broker=lines)


def command_lines() -> str:
    """Everything that `ps` would show, of everybody on this machine."""
    seen = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                seen.append((place / "cmdline").read_bytes().decode(errors="replace"))
            except OSError:  # it has just ended
                continue
    assert any("components.cli.main" in line for line in seen), "our own is among them"
    return "\n".join(seen)


def test_a_running_system_tells_its_password_to_nobody(broker: tuple[RunningBroker, Path], tmp_path: Path) -> None:
    settings = system(broker, tmp_path)
    with settings.child("up", "--log-level", "debug") as child:
        until(lambda: not child.running or get(settings.metrics_port, "/healthz") == (200, "ok\n"), "healthy")
        assert PASSWORD not in command_lines()
        said = [settings.cli(*words) for words in (("status",), ("status", "--json"))]
        scaled = settings.cli("scale", "sim-1", "--node", NODE, "--cpu", "600m")
        assert scaled.exit_code == 0, scaled.stderr
        answers = [get(settings.metrics_port, path) for path in ("/metrics", "/healthz")]
        assert child.end() == 0, child.err
    everything = [child.out, child.err, broker[0].log, str(answers)]
    everything += [text for one in (*said, scaled) for text in (one.stdout, one.stderr)]
    assert "everybody" in "".join(everything), "the user is no secret"
    assert not [text for text in everything if PASSWORD in text]


def test_a_wrong_password_is_refused_without_being_repeated(
    broker: tuple[RunningBroker, Path], tmp_path: Path
) -> None:
    settings = system(broker, tmp_path, WRONG)
    with settings.child("run", "debug_tap", "--log-level", "debug") as child:
        assert child.finish() == 1
    told = settings.cli("status")
    assert "Not authorized" in child.err
    assert "Not authorized" in told.stderr
    assert WRONG not in child.out + child.err + told.stdout + told.stderr


@pytest.mark.slow
@pytest.mark.parametrize("password", [PASSWORD, WRONG])
def test_the_doctor_does_not_tell_it_either(
    password: str, broker: tuple[RunningBroker, Path], tmp_path: Path
) -> None:
    examined = system(broker, tmp_path, password).cli("doctor", "--json")
    assert "everybody" in examined.stdout
    assert password not in examined.stdout + examined.stderr


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (f'url = "mqtt://everybody:{PASSWORD}@127.0.0.1:1883"', "use username, password_file"),
        (f'url = "mqtt://:{PASSWORD}/x@127.0.0.1"', "url"),
        (f'password = "{PASSWORD}"', "no such key"),
        (f'url = "mqtts://127.0.0.1"\npassword = "{PASSWORD}"', "no such key"),
    ],
)
def test_a_password_in_the_configuration_is_refused_and_not_repeated(
    lines: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "piriscale.toml"
    path.write_text(f"[broker]\n{lines}\n")
    result = replace(configuration(tmp_path), path=path)
    path.write_text(f"[broker]\n{lines}\n")
    said = result.cli("status")
    assert said.exit_code == 2
    assert told in said.stderr
    assert PASSWORD not in said.stdout + said.stderr


@pytest.mark.parametrize("name", ["password", "key.pem"])
def test_a_secret_that_others_can_read_is_pointed_out(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = BenchAuthority(tmp_path / "pki").issue(Principal.parse("debug_tap")).folder
    (folder / "password").write_text(PASSWORD)
    tls = TlsSettings(ca_file=folder / "ca.pem", cert_file=folder / "cert.pem", key_file=folder / "key.pem")
    settings = BrokerSettings(url="mqtts://127.0.0.1", tls=tls, username="me", password_file=folder / "password")
    for secret in ("password", "key.pem"):
        (folder / secret).chmod(0o644 if secret == name else 0o600)

    options_of(settings)

    assert [text for text in caplog.messages if "can be read" in text] == [
        f"{folder / name} can be read by everybody on this machine: chmod 600 {folder / name}"
    ]


def test_a_password_that_crosses_the_network_in_clear_is_pointed_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "password").chmod(0o600)
    for host in ("127.0.0.1", "broker.car"):
        options_of(BrokerSettings(url=f"mqtt://{host}", username="me", password_file=tmp_path / "password"))
    assert len(caplog.messages) == 1
    assert "the password goes to broker.car:1883 in clear; use mqtts://" in caplog.text
