"""A broker as `certs` and `broker-config` make it, run by Mosquitto, and foreign clients on it."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.subscribeoptions import SubscribeOptions

from broker.access import GUESTS, Principal
from broker.certificates import BenchAuthority
from broker.mosquitto import find_mosquitto
from broker.secured import owner_of, secured_broker
from tests.fixtures.broker import free_port, has_mosquitto
from tests.requirements import require

WAIT_S = 20.0
OBSERVER = "admin/observer"
"""An identity of the tests alone: the test gives it all rights."""


def until(what: Callable[[], bool], why: str = "") -> None:
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end, f"waited in vain{': ' + why if why else ''}"
        time.sleep(0.01)


@dataclass
class Secured:
    """A running broker that wants certificates."""

    folder: Path
    port: int
    guests_port: int
    authority: BenchAuthority
    _process: "subprocess.Popen[bytes]"

    @property
    def certificates(self) -> Path:
        return self.authority.directory

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def client(self, identity: str, **options: Any) -> "Foreign":
        return Foreign(self, identity, **options)

    def reload(self, signal_number: int) -> None:
        self._process.send_signal(signal_number)


@contextmanager
def secured(
    known: Iterable[str],
    unknown: Iterable[str] = (),
    *,
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost"),
    bind: str = "127.0.0.1",
    topic_prefixes: tuple[str, ...] = ("",),
) -> Iterator[Secured]:
    """A broker that knows these identities; `unknown` get certificates, but no rights."""
    require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
    folder = Path(tempfile.mkdtemp(prefix="piriscale-secured-"))
    folder.chmod(0o755)  # so that Mosquitto's user reaches what is its own
    try:
        authority = BenchAuthority(folder / "certs")
        authority.issue_broker(hosts)
        for name in known:
            authority.issue(Principal.parse(name))
        port, guests_port = free_port(), free_port()
        into = folder / "broker"
        broker = secured_broker(
            authority.directory,
            into=into,
            port=port,
            guests_port=guests_port,
            bind=bind,
            topic_prefixes=topic_prefixes,
            owner=owner_of(into),
        )
        written = broker.write(authority.directory)
        for name in (*unknown, OBSERVER):
            authority.issue(Principal.parse(name))
        with (into / "acl").open("a") as acl:
            acl.write(f"\nuser {OBSERVER}\ntopic readwrite #\n")
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [find_mosquitto(), "-c", str(written)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            running = Secured(folder, port, guests_port, authority, process)
            until(lambda: _listens(guests_port) or process.poll() is not None, "the broker listens")
            assert process.poll() is None, running.log
            with running.client(OBSERVER):  # from now on it heeds signals, too
                yield running
        finally:
            process.terminate()
            process.wait(WAIT_S)
    finally:
        shutil.rmtree(folder)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@dataclass
class Heard:
    """One message that came."""

    topic: str
    payload: bytes
    retained: bool


@dataclass
class Foreign:
    """A client without our code, under an identity; connected while used as a context manager."""

    broker: Secured
    identity: str
    client_id: str = ""
    mqtt5: bool = True
    will: str | None = None
    heard: list[Heard] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    """Packet ids of publications that the broker said no to."""
    _acknowledged: set[int] = field(default_factory=set)
    _granted: threading.Event = field(default_factory=threading.Event)
    _connected: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        protocol = MQTTProtocolVersion.MQTTv5 if self.mqtt5 else MQTTProtocolVersion.MQTTv311
        name = self.client_id or f"{self.identity.replace('/', '-')}-{os.urandom(3).hex()}"
        self._client = Client(CallbackAPIVersion.VERSION2, name, protocol=protocol, reconnect_on_failure=False)
        folder = self.broker.certificates / self.identity
        ca_file, cert_file, key_file = (str(folder / name) for name in ("ca.pem", "cert.pem", "key.pem"))
        self._client.tls_set(ca_file, cert_file, key_file)
        self._client.max_inflight_messages_set(1000)
        self._client.on_connect = lambda *_: self._connected.set()
        self._client.on_message = self._on_message
        self._client.on_publish = self._on_publish
        self._client.on_subscribe = lambda *_: self._granted.set()
        if self.will is not None:
            self._client.will_set(self.will, b"will", 1, retain=True)

    def __enter__(self) -> Self:
        guest = Principal.parse(self.identity).kind in GUESTS
        self._client.connect("127.0.0.1", self.broker.guests_port if guest else self.broker.port)
        self._client.loop_start()
        assert self._connected.wait(WAIT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    @property
    def connected(self) -> bool:
        return self._client.is_connected()

    def subscribe(self, *filters: str) -> None:
        """Ask for these, and wait for the answer, whatever it is."""
        self._granted.clear()
        wanted: list[Any] = [(one, SubscribeOptions(1) if self.mqtt5 else 1) for one in filters]
        self._client.subscribe(wanted)
        assert self._granted.wait(WAIT_S)

    def publish(self, topic: str, payload: bytes, qos: int = 1, *, retain: bool = False) -> int:
        return self._client.publish(topic, payload, qos, retain).mid

    def publish_all(self, topics: Iterable[str], payload: bytes, *, retain: bool = False) -> set[str]:
        """Publish on each of the topics; returns those that the broker said no to (MQTT 5 only)."""
        sent = {self.publish(topic, payload, retain=retain): topic for topic in topics}
        until(lambda: sent.keys() <= self._acknowledged, "all publications are acknowledged")
        return {topic for packet_id, topic in sent.items() if packet_id in self.refused}

    def break_off(self) -> None:
        """End without a word, so that the will is due."""
        opened = self._client.socket()
        assert isinstance(opened, socket.socket)
        opened.shutdown(socket.SHUT_RDWR)

    def topics(self, payload: bytes) -> set[str]:
        return {one.topic for one in list(self.heard) if one.payload == payload}

    def _on_message(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        self.heard.append(Heard(message.topic, bytes(message.payload), message.retain))

    def _on_publish(self, _client: Client, _data: Any, packet_id: int, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self.refused.add(packet_id)
        self._acknowledged.add(packet_id)
