"""What MQTT Explorer, a client of MQTT 3.1.1 that subscribes to everything, gets from a real broker."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from broker.client import MqttBus
from broker.options import BrokerOptions
from broker.plain import PlainClient
from components.debug_tap import build
from components.settings import Settings
from components.shell.run import Process
from schemas.codec import pack
from schemas.message import Wire
from tests.fixtures.broker import RunningBroker, running_broker

PATIENCE_S = 10.0
STATE = "resources/state/hpc-1/cam"


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def tapped() -> Iterator[RunningBroker]:
    """A broker with a tap on it."""
    with running_broker() as broker:
        process = Process(partial(MqttBus, BrokerOptions(port=broker.port)))
        process.add(partial(build, Settings()))
        process.start()
        until(lambda: process.shells[0].up, "connected")
        yield broker
        assert process.stop()


class Explorer:
    """Everything that came, newest last."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes, bool]] = []

    def hear(self, topic: str, payload: bytes, retained: bool) -> None:
        self.heard.append((topic, payload, retained))

    def of(self, topic: str) -> list[bytes]:
        return [payload for heard, payload, _ in self.heard if heard == topic]


@contextmanager
def explorer(broker: RunningBroker, client_id: str) -> Iterator[tuple[Explorer, PlainClient]]:
    seen = Explorer()
    with PlainClient(broker.host, broker.port, client_id, seen.hear, ("#",)) as client:
        until(lambda: bool(seen.of("debug/component/debug_tap/main")), "subscribed")
        yield seen, client


def test_a_message_is_shown_once_as_json_and_not_again_and_again(tapped: RunningBroker) -> None:
    with explorer(tapped, "explorer") as (seen, client):
        client.publish("scaling/action", pack({"action_id": "a"}, Wire.MSGPACK), 1)
        until(lambda: bool(seen.of("debug/scaling/action")), "shown")
        client.publish("perf/outcome", b"\xc1", 1)
        until(lambda: bool(seen.of("debug/perf/outcome")), "shown as unreadable")

    assert [json.loads(payload) for payload in seen.of("debug/scaling/action")] == [{"action_id": "a"}]
    assert json.loads(seen.of("debug/perf/outcome")[0])["unreadable"]
    assert not [topic for topic, _, _ in seen.heard if topic.startswith("debug/debug")]


def test_what_is_retained_is_shown_to_who_comes_later_until_it_is_deleted(tapped: RunningBroker) -> None:
    with explorer(tapped, "first") as (seen, client):
        client.publish(STATE, pack({"generation": 7}, Wire.MSGPACK), 1, retain=True)
        until(lambda: bool(seen.of(f"debug/{STATE}")), "shown")
        with explorer(tapped, "second") as (later, _):
            until(lambda: bool(later.of(f"debug/{STATE}")), "shown to who comes later")
            assert (f"debug/{STATE}", b'{"generation":7}', True) in later.heard
        client.publish(STATE, b"", 1, retain=True)
        until(lambda: seen.of(f"debug/{STATE}")[-1] == b"", "deleted")

    with explorer(tapped, "third") as (last, _):
        assert last.of(f"debug/{STATE}") == []
