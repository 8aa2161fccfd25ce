"""What MQTT Explorer shows of a running system: a client of MQTT 3.1.1 that subscribes to `#` and `$SYS/#`."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from broker.plain import PlainClient
from schemas.codec import MESSAGE_BYTES_MAX, Cleared, decode, pack, unpack
from schemas.message import Wire
from schemas.topics import DEBUG_PREFIX, TOPICS, lookup
from tests.cli.system import NODE, Configuration, configuration, get

EXPLORER_CUTS_AT = 20_000
"""Bytes. It shows no JSON above that."""
CONTAINERS = 400
"""Enough for snapshots and metrics of several times that size."""
PATIENCE_S = 40.0


class Explorer:
    """All that came, by topic, in order."""

    def __init__(self) -> None:
        self.heard: dict[str, list[bytes]] = {}
        self.retained: set[str] = set()
        self.client: PlainClient

    def hear(self, topic: str, payload: bytes, retained: bool) -> None:
        self.heard.setdefault(topic, []).append(payload)
        if retained:
            self.retained.add(topic)

    def of(self, topic: str) -> list[bytes]:
        return list(self.heard.get(topic, []))

    @property
    def mirrors(self) -> list[tuple[str, bytes]]:
        """Everything under debug/ but deletions."""
        found = [(topic, payload) for topic, payloads in list(self.heard.items()) for payload in payloads]
        return [(topic, payload) for topic, payload in found if topic.startswith(DEBUG_PREFIX) and payload]

    def says(self, topic: str, **wanted: object) -> bool:
        """Whether a message with these fields came on a topic, as JSON."""
        bodies = [json.loads(payload) for payload in self.of(topic) if payload]
        return any(wanted.items() <= body.items() for body in bodies)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


@contextmanager
def explorer(port: int) -> Iterator[Explorer]:
    seen = Explorer()
    with PlainClient(
        "127.0.0.1", port, f"mqtt-explorer-{uuid.uuid4().hex[:8]}", seen.hear, ("#", "$SYS/#")
    ) as client:
        seen.client = client
        yield seen


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configuration]:
    """`piriscale up`, with many containers."""
    settings = configuration(tmp_path_factory.mktemp("tapped"), containers=CONTAINERS)
    with settings.child("up", "--log-level", "warning") as child:
        until(lambda: not child.running or get(settings.metrics_port, "/healthz") == (200, "ok\n"), "healthy")
        yield settings
        assert child.end() == 0, child.err


@pytest.fixture(scope="module")
def seen(system: Configuration) -> Iterator[Explorer]:
    """An Explorer that saw one scaling by hand, metrics, a dead letter, and more than it can show at a time."""
    with explorer(system.broker_port) as watching:
        say = watching.client.publish
        until(lambda: bool(watching.of(f"debug/resources/state/{NODE}/sim-1")), "states are shown")
        action = {"action_id": "by-hand", "node": NODE, "workload_id": "sim-1", "target": {"cpu_limit": 600}}
        say("scaling/action", json.dumps(action, indent=2).encode())
        say(f"metrics/{NODE}/app/sim-1", b'{"latency_ms": 450}')
        say("perf/outcome", b"\xff" * 2 * MESSAGE_BYTES_MAX, 1)
        large = {"action_id": "large", "node": NODE, "text": "x" * (MESSAGE_BYTES_MAX - 1000)}
        say("perf/outcome", pack(large, Wire.MSGPACK), 1)
        until(lambda: watching.says("debug/scaling/status", action_id="by-hand", outcome="COMPLETED"), "scaled")
        until(lambda: len(watching.of("debug/perf/outcome")) == 2, "what is too large is shown, too")
        until(lambda: watching.says("debug/deadletter/monitoring_server", reason="too_large"), "buried")
        until(lambda: len(watching.of(f"debug/metrics/{NODE}/containers")) > 1, "metrics are shown")
        yield watching


def test_every_payload_is_json_that_the_explorer_can_show(seen: Explorer) -> None:
    sizes = [len(payload) for _, payload in seen.mirrors]

    assert len(sizes) > CONTAINERS
    assert max(sizes) < EXPLORER_CUTS_AT
    for topic, payload in seen.mirrors:
        assert isinstance(json.loads(payload), dict), topic


def test_what_is_shown_is_what_was_said(seen: Explorer) -> None:
    """But for what is cut to fit, which says so; and that is only what is too large."""
    cut = set()
    for topic in (f"node/{NODE}/info", f"node/{NODE}/actual", f"resources/capacity/{NODE}", "scaling/status"):
        said = [unpack(payload)[0] for payload in seen.of(topic)]
        for shown in [json.loads(payload) for payload in seen.of(DEBUG_PREFIX + topic)]:
            if shown.pop("cut", False):
                cut.add(topic)
                assert any(one["id"] == shown["id"] for one in said)
            else:
                assert shown in said, topic

    assert cut == {f"node/{NODE}/actual"}


def test_the_tree_has_a_branch_for_everything_that_was_said(seen: Explorer) -> None:
    said = {topic for topic in list(seen.heard) if not topic.startswith((DEBUG_PREFIX, "$SYS/"))}
    shown = {topic.removeprefix(DEBUG_PREFIX) for topic, _ in seen.mirrors}

    assert said == shown
    assert not [topic for topic in shown if topic.startswith(DEBUG_PREFIX)], "no mirrors of mirrors"
    registered = {found[0].template for topic in shown if (found := lookup(topic)) is not None}
    silent = {topic.template for topic in TOPICS} - registered
    assert silent <= {
        "perf/degraded",
        "perf/recovered",
        "resources/reconcile",
        "control/scaling",
        "node/{node}/status/get",
        "node/{node}/status/reply",
    }


def test_who_comes_later_sees_the_same_retained_values(system: Configuration, seen: Explorer) -> None:
    with explorer(system.broker_port) as later:
        until(lambda: f"debug/resources/capacity/{NODE}" in later.retained, "retained mirrors come")
        until(lambda: f"debug/resources/state/{NODE}/sim-{CONTAINERS}" in later.retained, "of all")
        time.sleep(0.5)  # whatever else is retained
    originals = {topic for topic in later.retained if not topic.startswith((DEBUG_PREFIX, "$SYS/"))}
    mirrors = {topic.removeprefix(DEBUG_PREFIX) for topic in later.retained if topic.startswith(DEBUG_PREFIX)}

    assert mirrors == originals
    assert len(originals) > CONTAINERS


def test_a_mirror_goes_with_its_original(system: Configuration, seen: Explorer) -> None:
    topic = "node/ghost/info"
    seen.client.publish(
        topic, json.dumps({"boot_id": 1, "total": {"cpu": 1000, "memory": 512}}).encode(), 1, retain=True
    )
    until(lambda: bool(seen.of(DEBUG_PREFIX + topic)), "shown")

    seen.client.publish(topic, b"", 1, retain=True)
    until(lambda: seen.of(DEBUG_PREFIX + topic)[-1] == b"", "gone")

    assert isinstance(decode(topic, b""), Cleared)
    with explorer(system.broker_port) as later:
        until(lambda: f"debug/resources/capacity/{NODE}" in later.retained, "retained mirrors come")
        assert DEBUG_PREFIX + topic not in later.heard
