"""What every bus promises, held against the real one on a real Mosquitto and against its in-process twin."""

import threading
from typing import Final

import pytest

from broker.bus import Identity, Subscription
from schemas.codec import Frame
from tests.broker.worlds import World

WILL: Final = Frame("component/unit/main", b"lost", retain=True)
BIRTH: Final = Frame("component/unit/main", b"born", retain=True)
LAST: Final = Frame("component/unit/main", b"gone", retain=True)


def who(client_id: str, *filters: str, persistent: bool = False, will: bool = False) -> Identity:
    return Identity(
        client_id,
        tuple(Subscription(each) for each in filters),
        persistent,
        will=WILL if will else None,
        birth=BIRTH if will else None,
    )


def frame(topic: str, payload: bytes | str | int, *, qos: int = 1, retain: bool = False) -> Frame:
    return Frame(topic, payload if isinstance(payload, bytes) else str(payload).encode(), qos, retain)


def numbers(first: int, last: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, last + 1)]


class TestRouting:
    def test_a_plus_takes_one_level_and_a_hash_all_that_follow(self, world: World) -> None:
        listener = world.connect(who("listener", "node/+/update", "metrics/#", "exact"))
        listener.wait_connected()
        for topic in (
            "node/a/update",
            "node/a/b/update",
            "node/a",
            "metrics/a/node",
            "metrics",
            "exact",
            "exact/not",
        ):
            listener.bus.publish(frame(topic, topic))
        listener.bus.publish(frame("exact", "end"))
        listener.wait_messages(b"end")
        topics = [topic for topic, _ in listener.messages[:-1]]
        assert topics == ["node/a/update", "metrics/a/node", "metrics", "exact"]

    def test_messages_of_one_sender_arrive_in_the_order_sent(self, world: World) -> None:
        listener = world.connect(who("listener", "t"))
        listener.wait_connected()
        sender = world.connect(who("sender"))
        for number in range(1, 301):
            sender.bus.publish(frame("t", number))
        listener.wait(lambda: len(listener.messages) >= 300)
        assert [payload for _, payload in listener.messages] == numbers(1, 300)

    def test_threads_may_publish_at_the_same_time(self, world: World) -> None:
        listener = world.connect(who("listener", "t/+"))
        sender = world.connect(who("sender"))
        listener.wait_connected()
        sender.wait_connected()

        def publish_all(topic: str) -> None:
            for number in range(100):
                sender.bus.publish(frame(topic, number))

        threads = [threading.Thread(target=publish_all, args=(f"t/{name}",)) for name in "abcd"]
        for thread in threads:
            thread.start()
        listener.wait(lambda: len(listener.messages) == 400)
        for thread in threads:
            thread.join()
        for name in "abcd":
            got = [payload for topic, payload in listener.messages if topic == f"t/{name}"]
            assert got == numbers(0, 99)

    def test_overlapping_subscriptions_deliver_a_message_once_each(self, world: World) -> None:
        listener = world.connect(who("listener", "t/+", "t/#", "end"))
        listener.wait_connected()
        listener.bus.publish(frame("t/a", "twice"))
        listener.bus.publish(frame("end", "end"))
        listener.wait_messages(b"twice", b"twice", b"end")

    def test_a_qos_0_message_needs_no_acknowledgement_and_says_so(self, world: World) -> None:
        listener = world.connect(who("listener", "t"))
        listener.wait_connected()
        listener.bus.publish(frame("t", "now", qos=0))
        listener.wait_messages(b"now")
        assert listener.deliveries[0].qos == 0
        listener.bus.ack(listener.deliveries[0])

    def test_what_no_broker_takes_is_refused_at_once(self, world: World) -> None:
        sender = world.connect(who("sender"))
        for topic in ("", "a/+", "a/#", "a\0b"):
            with pytest.raises(ValueError, match="no topic to publish on"):
                sender.bus.publish(frame(topic, "x"))
        with pytest.raises(ValueError, match="QoS 2"):
            sender.bus.publish(frame("t", "x", qos=2))


class TestRetained:
    def test_a_late_listener_gets_the_last_value_and_knows_that_it_is_old(self, world: World) -> None:
        early = world.connect(who("early", "state"))
        early.wait_connected()
        early.bus.publish(frame("state", "old", retain=True))
        early.bus.publish(frame("state", "new", retain=True))
        early.wait_messages(b"old", b"new")
        late = world.connect(who("late", "state"))
        late.wait_messages(b"new")
        assert [each.retained for each in late.deliveries] == [True]
        assert [each.retained for each in early.deliveries] == [False, False]

    def test_an_empty_payload_deletes_it(self, world: World) -> None:
        early = world.connect(who("early", "state"))
        early.wait_connected()
        early.bus.publish(frame("state", "old", retain=True))
        early.bus.publish(frame("state", "", retain=True))
        early.wait_messages(b"old", b"")
        late = world.connect(who("late", "state", "end"))
        late.wait_connected()
        late.bus.publish(frame("end", "end"))
        late.wait_messages(b"end")
        assert len(late.messages) == 1


class TestBirthAndWill:
    def test_the_birth_precedes_all_else_on_every_connection(self, world: World) -> None:
        listener = world.connect(who("listener", "#"))
        listener.wait_connected()
        unit = world.connect(who("unit", will=True))
        unit.wait_connected()
        world.isolate("unit")
        listener.wait_messages(b"lost")
        unit.bus.publish(frame("t", "waited"))
        world.rejoin("unit")
        listener.wait_messages(b"born", b"lost", b"born", b"waited")

    def test_a_broken_connection_publishes_the_will_and_a_stop_does_not(self, world: World) -> None:
        listener = world.connect(who("listener", "#"))
        listener.wait_connected()
        unit = world.connect(who("unit", will=True))
        unit.wait_connected()
        unit.bus.stop(LAST)
        listener.wait_messages(b"born", b"gone")
        listener.bus.publish(frame("t", "end"))
        listener.wait_messages(b"born", b"gone", b"end")
        assert len(listener.messages) == 3

    def test_a_stop_that_could_not_deliver_all_says_lost_not_gone(self, world: World) -> None:
        listener = world.connect(who("listener", "component/#"))
        unit = world.connect(who("unit", will=True))
        listener.wait_messages(b"born")
        unit.wait_connected()
        unit.bus.publish(frame("t", "through"))
        world.hold_acks("unit")
        unit.bus.publish(frame("t", "unacknowledged"))
        unit.bus.stop(drain_s=0.1)
        listener.wait_messages(b"born", b"lost")


class TestAcknowledgement:
    def test_what_was_not_acknowledged_comes_again_and_what_was_does_not(self, world: World) -> None:
        worker = world.connect(who("worker", "t", persistent=True), acks=False)
        worker.wait_connected()
        for number in (1, 2, 3):
            worker.bus.publish(frame("t", number))
        worker.wait_messages(b"1", b"2", b"3")
        worker.bus.ack(worker.deliveries[0])
        worker.round_trip()  # else our own frames are in flight, and sent again as well
        world.cut("worker")
        worker.wait_messages(b"1", b"2", b"3", b"2", b"3")
        assert worker.wait_connected(2).session_present

    def test_an_acknowledgement_for_an_earlier_connection_has_no_effect(self, world: World) -> None:
        worker = world.connect(who("worker", "t", persistent=True), acks=False)
        worker.wait_connected()
        worker.bus.publish(frame("t", 1))
        worker.wait_messages(b"1")
        worker.round_trip()
        world.cut("worker")
        worker.wait_connected(2)
        worker.wait_messages(b"1", b"1")
        worker.bus.ack(worker.deliveries[0])
        worker.round_trip()
        world.cut("worker")
        worker.wait_messages(b"1", b"1", b"1")
        assert [each.connection for each in worker.deliveries] == sorted({e.connection for e in worker.deliveries})

    def test_acknowledging_twice_does_not_acknowledge_another_message(self, world: World) -> None:
        worker = world.connect(who("worker", "t", persistent=True), acks=False)
        worker.wait_connected()
        for number in (1, 2):
            worker.bus.publish(frame("t", number))
        worker.wait_messages(b"1", b"2")
        worker.bus.ack(worker.deliveries[0])
        worker.round_trip()
        worker.bus.publish(frame("t", 3))
        worker.wait_messages(b"1", b"2", b"3")
        worker.bus.ack(worker.deliveries[0])
        worker.round_trip()
        world.cut("worker")
        worker.wait_messages(b"1", b"2", b"3", b"2", b"3")

    def test_unacknowledged_messages_are_bounded(self, world: World) -> None:
        worker = world.connect(who("worker", "t"), acks=False)
        sender = world.connect(who("sender"))
        worker.wait_connected()
        for number in range(1, 151):
            sender.bus.publish(frame("t", number))
        sender.wait(lambda: sender.bus.counts.published == 150)
        worker.wait(lambda: len(worker.messages) == 100)
        for each in list(worker.deliveries):
            worker.bus.ack(each)
        worker.wait(lambda: len(worker.messages) == 150)

    def test_a_full_inbox_loses_qos_0_only_and_counts_it(self, world: World) -> None:
        worker = world.connect(who("worker", "t"))
        worker.wait_connected()
        worker.refuse_next = 1
        worker.bus.publish(frame("t", "lost", qos=0))
        worker.wait(lambda: worker.bus.counts.dropped_in == 1)
        worker.refuse_next = 2
        worker.bus.publish(frame("t", "kept 1"))
        worker.bus.publish(frame("t", "kept 2"))
        worker.wait(lambda: worker.bus.counts.published == 3 and not worker.refuse_next)
        worker.bus.publish(frame("t", "kept 3"))
        worker.wait_messages(b"kept 1", b"kept 2", b"kept 3")
        assert worker.bus.counts.dropped_in == 1
        assert worker.bus.counts.received == 3

    def test_an_inbox_that_fails_ends_nothing(self, world: World) -> None:
        worker = world.connect(who("worker", "t"))
        worker.wait_connected()
        worker.fail_next = 1
        worker.bus.publish(frame("t", 1))
        worker.wait(lambda: not worker.fail_next)
        worker.bus.publish(frame("t", 2))
        worker.wait_messages(b"1", b"2")
        assert len(worker.connections) == 1


class TestSessions:
    @pytest.mark.parametrize("persistent", [True, False])
    def test_requests_wait_for_a_persistent_client_only(self, world: World, persistent: bool) -> None:
        sender = world.connect(who("sender"))
        first = world.connect(who("worker", "t", persistent=persistent))
        first.wait_connected()
        first.bus.stop()
        for number in (1, 2, 3):
            sender.bus.publish(frame("t", number))
        sender.bus.publish(frame("t", "qos 0", qos=0))
        sender.wait(lambda: sender.bus.counts.published >= 3)
        second = world.connect(who("worker", "t", persistent=persistent))
        assert second.wait_connected().session_present == persistent
        sender.bus.publish(frame("t", "end"))
        second.wait_messages(b"end")
        assert [payload for _, payload in second.messages] == [*(numbers(1, 3) if persistent else ()), b"end"]

    def test_a_broker_that_forgot_everything_is_told_the_subscriptions_again(self, world: World) -> None:
        worker = world.connect(who("worker", "t", persistent=True))
        worker.wait_connected()
        world.replace_broker()
        assert not worker.wait_connected(2).session_present
        worker.bus.publish(frame("t", "here"))
        worker.wait_messages(b"here")
        assert worker.bus.counts.reconnects == 1
        assert worker.disconnections
        assert not any(event.fatal for event in worker.disconnections)

    def test_a_broker_that_restarts_in_order_still_knows_all(self, world: World) -> None:
        worker = world.connect(who("worker", "t", persistent=True), acks=False)
        worker.wait_connected()
        worker.bus.publish(frame("t", "unacknowledged"))
        worker.bus.publish(frame("state", "kept", retain=True))
        worker.wait_messages(b"unacknowledged")
        worker.wait(lambda: worker.bus.counts.published == 2)
        world.stop_broker()
        world.start_broker()
        assert worker.wait_connected(2).session_present
        worker.wait_messages(b"unacknowledged", b"unacknowledged")
        late = world.connect(who("late", "state"))
        late.wait_messages(b"kept")

    def test_a_second_instance_makes_the_first_stop_and_say_so(self, world: World) -> None:
        first = world.connect(who("unit", "t", persistent=True))
        first.wait_connected()
        second = world.connect(who("unit", "t", persistent=True))
        assert "a second instance with the client id unit" in first.wait_fatal()
        assert not first.bus.publish(frame("t", "from the first"))
        connections = len(second.connections)
        second.wait(
            lambda: len(second.connections) > len(second.disconnections) or len(second.connections) > connections
        )
        second.bus.publish(frame("t", "from the second"))
        second.wait_messages(b"from the second")


class TestSendingLater:
    def test_what_is_published_while_away_is_sent_once_later_in_order(self, world: World) -> None:
        listener = world.connect(who("listener", "t"))
        listener.wait_connected()
        sender = world.connect(who("sender"))
        sender.wait_connected()
        world.isolate("sender")
        sender.wait(lambda: len(sender.disconnections) > 0)
        for number in range(1, 51):
            assert sender.bus.publish(frame("t", number))
        world.rejoin("sender")
        listener.wait(lambda: len(listener.messages) >= 50)
        sender.wait(lambda: sender.bus.counts.published == 50)
        assert [payload for _, payload in listener.messages] == numbers(1, 50)

    def test_what_is_published_before_the_start_is_sent_as_well(self, world: World) -> None:
        listener = world.connect(who("listener", "t"))
        listener.wait_connected()
        world.connect(who("sender")).bus.publish(frame("t", "early"))
        listener.wait_messages(b"early")

    def test_a_qos_0_frame_is_for_now_or_never(self, world: World) -> None:
        listener = world.connect(who("listener", "t"))
        listener.wait_connected()
        sender = world.connect(who("sender"))
        sender.wait_connected()
        world.isolate("sender")
        sender.wait(lambda: len(sender.disconnections) > 0)
        assert not sender.bus.publish(frame("t", "stale metrics", qos=0))
        assert sender.bus.counts.dropped_out == 1
        world.rejoin("sender")
        sender.bus.publish(frame("t", "end"))
        listener.wait_messages(b"end")
        assert len(listener.messages) == 1

    def test_an_overflow_drops_the_oldest_and_counts_it(self, world: World) -> None:
        listener = world.connect(who("listener", "t"))
        listener.wait_connected()
        sender = world.connect(who("sender"), queue_frames=10)
        sender.wait_connected()
        world.isolate("sender")
        sender.wait(lambda: len(sender.disconnections) > 0)
        results = [sender.bus.publish(frame("t", number)) for number in range(1, 16)]
        assert results == [True] * 10 + [False] * 5
        assert sender.bus.counts.dropped_out == 5
        world.rejoin("sender")
        listener.wait_messages(*numbers(6, 15))
        assert len(listener.messages) == 10

    def test_an_overflow_drops_metrics_before_requests(self, world: World) -> None:
        listener = world.connect(who("listener", "t"))
        listener.wait_connected()
        sender = world.connect(who("sender"), queue_frames=10)
        sender.wait_connected()
        world.hold_acks("sender")
        for number in range(1, 11):
            sender.bus.publish(frame("t", number))
        for number in range(11, 21):
            sender.bus.publish(frame("t", number, qos=number % 2))
        for number in range(21, 26):
            assert not sender.bus.publish(frame("t", number))
        world.release_acks("sender")
        listener.wait(lambda: len(listener.messages) == 20)
        expected = [*range(1, 12), 13, 15, 17, 19, *range(21, 26)]
        assert [int(payload) for _, payload in listener.messages] == expected

    def test_never_more_than_ten_frames_are_unacknowledged(self, world: World) -> None:
        listener = world.connect(who("listener", "t"))
        listener.wait_connected()
        sender = world.connect(who("sender"))
        sender.wait_connected()
        world.hold_acks("sender")
        for number in range(1, 51):
            sender.bus.publish(frame("t", number))
        listener.wait_messages(b"10")
        listener.bus.publish(frame("t", "end"))
        listener.wait_messages(b"end")
        assert [payload for _, payload in listener.messages] == [*numbers(1, 10), b"end"]
        world.release_acks("sender")
        listener.wait_messages(*numbers(11, 50))

    def test_a_stop_loses_nothing_that_was_published_and_says_the_last_word_last(self, world: World) -> None:
        listener = world.connect(who("listener", "#"))
        listener.wait_connected()
        sender = world.connect(who("sender", will=True))
        sender.wait_connected()
        for number in range(1, 301):
            sender.bus.publish(frame("t", number))
        sender.bus.stop(LAST, drain_s=15.0)
        listener.wait_messages(b"born", *numbers(1, 300), b"gone")
        assert not sender.bus.publish(frame("t", "after the end"))
        assert sender.bus.counts.dropped_out == 1

    def test_a_frame_above_the_brokers_limit_is_refused(self, world: World) -> None:
        listener = world.connect(who("listener", "t"))
        listener.wait_connected()
        limit = 2 * 1024 * 1024
        with pytest.raises(ValueError, match=f"limit of {limit}"):
            listener.bus.publish(frame("t", bytes(limit)))
        fits = bytes(limit - len(b"\x32" + b"\x80\x80\x01" + b"\0\1t" + b"\0\1" + b"\0"))
        listener.bus.publish(frame("t", fits))
        listener.wait(lambda: len(listener.messages) == 1)
        with pytest.raises(ValueError, match="above the broker's limit"):
            listener.bus.publish(frame("t", fits + b"!"))

    def test_a_frame_queued_before_the_limit_was_known_does_not_block_the_others(self, world: World) -> None:
        world.stop_broker()
        sender = world.connect(who("sender", "t"))
        sender.wait(lambda: len(sender.disconnections) > 0)
        assert sender.bus.publish(frame("t", bytes(3 * 1024 * 1024)))
        assert sender.bus.publish(frame("t", "small"))
        world.start_broker()
        sender.wait_messages(b"small")
        assert sender.bus.counts.dropped_out == 1
        assert [event.session_present for event in sender.connections] == [False]


class TestPrefix:
    def test_a_prefix_goes_before_every_topic_and_is_not_seen_inside(self, world: World) -> None:
        outside = world.connect(who("outside", "#"))
        outside.wait_connected()
        inside = world.connect(who("inside", "#", will=True), prefix="fleet/car-1")
        inside.wait_connected()
        outside.bus.publish(frame("t", "not for the car"))
        outside.bus.publish(frame("fleet/car-1/t", "for the car"))
        inside.wait_messages(b"for the car")
        assert inside.messages == [("component/unit/main", b"born"), ("t", b"for the car")]
        inside.bus.publish(frame("answer", "from the car"))
        outside.wait_messages(b"from the car")
        assert outside.messages[-1][0] == "fleet/car-1/answer"
        world.isolate("inside")
        outside.wait_messages(b"lost")
        assert outside.messages[-1][0] == "fleet/car-1/component/unit/main"

    def test_a_session_with_an_older_prefix_brings_nothing_and_blocks_nothing(self, world: World) -> None:
        before = world.connect(who("unit", "t", persistent=True), prefix="old")
        before.wait_connected()
        before.bus.stop()
        sender = world.connect(who("sender"))
        for _ in range(150):
            sender.bus.publish(frame("old/t", "for the old name"))
        sender.wait(lambda: sender.bus.counts.published == 150)
        after = world.connect(who("unit", "t", persistent=True), prefix="new")
        after.wait_connected()
        sender.bus.publish(frame("new/t", "for the new name"))
        after.wait_messages(b"for the new name")
        assert len(after.messages) == 1
