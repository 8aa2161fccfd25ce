"""`release` and `forget-node` when the broker does not hear them, or nobody answers: no success is told."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.plain import PlainClient
from schemas.codec import encode
from schemas.enums import SyncState
from schemas.limits import Amount, Limits
from schemas.node import NodeInfo
from schemas.resources import ResourceState
from tests.broker.proxy import PUBLISH, Proxy
from tests.cli.system import Configuration, configuration, retained
from tests.fixtures.broker import RunningBroker

INFO = NodeInfo(node="gone", boot_id=1, total=Amount(cpu=1, memory=1))
STATE = ResourceState(
    node="gone", workload_id="cam", sync_state=SyncState.SYNCHRONIZED, desired=Limits(cpu_limit=500)
)


class Hole(Proxy):
    """A line on which what the client says is lost."""

    def _passes(self, packet: bytes, target: socket.socket, inwards: bool) -> bool:
        said = not inwards and packet[0] >> 4 == PUBLISH
        return not said and super()._passes(packet, target, inwards)


class Break(Hole):
    """A line that breaks for good when the client says something."""

    def _passes(self, packet: bytes, target: socket.socket, inwards: bool) -> bool:
        passes = super()._passes(packet, target, inwards)
        if not passes:
            self.refuse()
        return passes


@contextmanager
def behind(line: type[Proxy], broker: RunningBroker, folder: Path) -> Iterator[Configuration]:
    """The broker with what is retained of the node, behind a line."""
    proxy = line(broker.host, broker.port)
    try:
        with retained(broker.port, INFO, STATE):
            yield configuration(folder, url=f"mqtt://127.0.0.1:{proxy.port}")
    finally:
        proxy.close()


@contextmanager
def saying_anew(broker: RunningBroker) -> Iterator[None]:
    """Somebody who says INFO anew when it is deleted."""
    frame = encode(INFO)

    def take(topic: str, payload: bytes, _retained: bool) -> None:
        if not payload:
            client.publish(topic, frame.payload, 1, retain=True)

    client = PlainClient(broker.host, broker.port, "agent", take, (frame.topic,))
    with client:
        yield


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.cli.forget.ANSWER_WITHIN_S", 1.5)


@pytest.mark.parametrize("line", [Hole, Break])
def test_a_node_is_not_called_forgotten_when_the_broker_did_not_hear_of_it(
    broker: RunningBroker, tmp_path: Path, line: type[Proxy]
) -> None:
    with behind(line, broker, tmp_path) as settings:
        result = settings.cli("forget-node", "gone")

    assert (result.exit_code, result.stdout) == (1, "")
    for topic in ("node/gone/info", "node/gone/actual", "resources/state/gone/cam", "component/node_agent/gone"):
        assert topic in result.stderr
    assert ("no connection to the broker: " in result.stderr) == (line is Break)


def test_a_release_that_the_broker_did_not_hear_is_not_blamed_on_resource_manager(
    broker: RunningBroker, tmp_path: Path
) -> None:
    with behind(Break, broker, tmp_path) as settings:
        result = settings.cli("release", "cam", "--node", "gone")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "not known to be deleted after 1.5 s: resources/state/gone/cam; no connection" in result.stderr
    assert "resource_manager" not in result.stderr


def test_a_release_that_nobody_answers_names_who_is_missing(alone: Configuration, broker: RunningBroker) -> None:
    with retained(broker.port, INFO, STATE):
        result = alone.cli("release", "cam", "--node", "gone")

    assert result.exit_code == 1
    assert "resource_manager did not answer" in result.stderr
    assert "connection" not in result.stderr


def test_what_is_said_anew_of_a_forgotten_node_is_named(alone: Configuration, broker: RunningBroker) -> None:
    """As by an agent that runs, where --force was said."""
    with retained(broker.port, INFO, STATE), saying_anew(broker):
        result = alone.cli("forget-node", "gone")

    assert result.exit_code == 1
    assert "said anew meanwhile: node/gone/info" in result.stderr
