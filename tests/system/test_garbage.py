"""Whatever anybody publishes, every component goes on working; what cannot be used is counted and told."""

import json
import os
import random
from collections.abc import Iterator

import msgpack
import pytest

from schemas.topics import TOPICS, Role, Topic
from tests.fixtures.podman import MakeBox
from tests.system.bench import COMPONENTS, NODE, Bench

MIB = 1024 * 1024
SUBSCRIBED = [topic for topic in TOPICS if topic.readers & {Role(name) for name in COMPONENTS}]
LEVELS = {"node": NODE, "workload_id": "garbage-1", "component": "node_agent", "instance": "garbage-1"}
HUGE = 10**30


def garbage(rng: random.Random) -> Iterator[bytes]:
    """Payloads that nobody should send."""
    yield os.urandom(64)
    yield bytes(rng.randrange(256) for _ in range(700))
    yield b"\xc1"
    yield msgpack.packb({"id": "x", "node": NODE, "list": list(range(50))})[:-20]
    yield b"\x81\xa1a" * 5000 + b"\xc0"
    yield b'{"a":' * 20_000
    yield b"[" * 60_000
    yield b'{"id": "x", "node": NaN}'
    yield b'{"id": "x"'
    yield json.dumps({"id": "x", "node": "another-node", "workload_id": "w"}).encode()
    yield json.dumps({"id": 5, "node": {}, "workload_id": [], "action_id": None}).encode()
    yield json.dumps(dict.fromkeys(("seq", "boot_id", "generation", "attempt", "cpu_limit"), HUGE)).encode()
    yield json.dumps({"id": "x", "v": 99, "node": NODE}).encode()
    yield msgpack.packb({"id": "x", "node": NODE, "bytes": os.urandom(16)})
    yield msgpack.packb([1, 2, 3])
    yield b"\x00"
    yield os.urandom(MIB)


def dead_letters(bench: Bench, since: int) -> dict[str, int]:
    return {name: len(bench.client.heard(f"deadletter/{name}", since)) for name in COMPONENTS}


@pytest.mark.parametrize("topic", SUBSCRIBED, ids=[topic.template for topic in SUBSCRIBED])
def test_garbage_on_a_topic_stops_nobody(bench: Bench, box: MakeBox, topic: Topic) -> None:
    since = bench.client.mark()
    address = topic.address({field: LEVELS[field] for field in topic.fields})
    rng = random.Random(topic.template)
    for payload in garbage(rng):
        bench.client.say(address, payload)
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b, since=since)
    final = bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": 300}))
    assert final["outcome"] == "COMPLETED", final
    assert container.quota_and_period[0] == 30_000
    readers = {str(role) for role in topic.readers} & set(COMPONENTS)
    letters = dead_letters(bench, since)
    if "node" not in topic.fields or topic.template.startswith(("metrics", "resources", "node")):
        assert any(letters[reader] for reader in readers), letters
    assert not bench.system.ended


def test_a_dead_letter_tells_topic_reason_and_head(bench: Bench) -> None:
    since = bench.client.mark()
    bench.client.say("scaling/action", b"\xc1 no message at all")
    letter = bench.client.await_message("deadletter/action_controller", since=since)
    assert letter["topic"] == "scaling/action"
    assert letter["reason"] == "undecodable"
    assert bytes.fromhex(letter["head"]) == b"\xc1 no message at all"


def test_what_is_rejected_is_counted_for_prometheus(bench: Bench) -> None:
    rejected = "piriscale_messages_rejected_total"
    before = bench.metric(rejected, component="resource_manager", reason="undecodable")
    since = bench.client.mark()
    bench.client.say("resources/validate", b"\xc1")
    bench.client.await_message("deadletter/resource_manager", since=since)
    assert bench.metric(rejected, component="resource_manager", reason="undecodable") == before + 1


def test_metrics_of_a_foreign_node_do_not_harm(bench: Bench) -> None:
    since = bench.client.mark()
    bench.client.say("metrics/elsewhere/app/x", {"latency_ms": 1.5, "values": {"a": 1}}, qos=0)
    bench.client.say("metrics/elsewhere/app/x", {"latency_ms": "slow"}, qos=0)
    letter = bench.client.await_message("deadletter/monitoring_server", since=since)
    assert (letter["topic"], letter["reason"]) == ("metrics/elsewhere/app/x", "invalid")
