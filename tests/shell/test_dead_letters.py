"""What nobody can use is told, counted, and stops nobody."""

import pytest

from components.shell.deadletters import BURST
from schemas.operations import DeadLetter
from schemas.topics import TOPICS, Topic
from tests.shell.bench import Bench
from tests.shell.doubles import delivery


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        ("resources/validate", b"\xc1garbage", "undecodable"),
        ("resources/validate", b'{"node": "a"}', "invalid"),
        ("node/hpc-1/update", b'{"id": "1", "node": "other", "workload_id": "w"}', "contradiction"),
        ("no/such/topic", b"{}", "unknown_topic"),
        ("resources/validate", b" " * 200_000, "too_large"),
    ],
)
def test_what_nobody_can_use_becomes_a_dead_letter_counted_by_reason(
    topic: str, payload: bytes, reason: str
) -> None:
    bench = Bench()

    bench.dispatcher.delivered(delivery(topic, payload))

    letter = bench.bus.said[0]
    assert isinstance(letter, DeadLetter)
    assert (letter.topic, letter.reason) == (topic, reason)
    assert bench.bus.frames[0].topic == "deadletter/resource_manager"
    assert bench.dispatcher.counters.rejected == {reason: 1}
    assert len(bench.bus.acked) == 1
    assert bench.probe.handled == []


REQUESTS = [topic for topic in TOPICS if not topic.retained]
NAMES = {"node": "hpc-1", "workload_id": "nav", "component": "node_agent"}


@pytest.mark.parametrize("topic", REQUESTS, ids=[topic.template for topic in REQUESTS])
def test_who_deletes_a_retained_request_as_the_dead_letter_says_gets_no_other_letter(topic: Topic) -> None:
    bench = Bench()
    address = topic.address(NAMES)

    bench.dispatcher.delivered(delivery(address, b"{}", retained=True))
    (letter,) = bench.bus.said
    assert isinstance(letter, DeadLetter)
    assert "delete it by publishing nothing to this topic" in letter.message

    bench.dispatcher.delivered(delivery(address, b"", packet_id=2))
    assert bench.bus.said == [letter]
    assert bench.probe.handled == []
    assert bench.dispatcher.counters.received == 2
    assert bench.dispatcher.counters.rejected == {"invalid": 1}
    assert len(bench.bus.acked) == 2


def test_nothing_on_a_topic_that_nobody_uses_is_still_told() -> None:
    bench = Bench()

    bench.dispatcher.delivered(delivery("no/such/topic", b""))

    assert bench.dispatcher.counters.rejected == {"unknown_topic": 1}


def test_a_flood_of_rubbish_does_not_become_a_flood_of_dead_letters() -> None:
    bench = Bench()

    for _ in range(1000):
        bench.dispatcher.delivered(delivery("resources/validate", b"\xc1"))

    assert len(bench.bus.frames) == BURST
    assert len(bench.bus.acked) == 1000
    assert bench.dispatcher.counters.rejected == {"undecodable": 1000}
    assert bench.dispatcher.counters.dead_letters_withheld == 1000 - BURST

    bench.pass_time(1.0)
    bench.dispatcher.delivered(delivery("resources/validate", b"\xc1"))
    assert len(bench.bus.frames) == BURST + 1


def test_a_dead_letter_about_a_long_topic_is_itself_sendable() -> None:
    bench = Bench()

    bench.dispatcher.delivered(delivery("x/" * 30_000, b"\xc1"))

    assert isinstance(bench.bus.said[0], DeadLetter)


def test_own_dead_letters_are_not_consumed() -> None:
    bench = Bench()

    bench.dispatcher.delivered(delivery("deadletter/resource_manager", b"\xc1", qos=0))

    assert bench.bus.frames == []
    assert bench.probe.handled == []
