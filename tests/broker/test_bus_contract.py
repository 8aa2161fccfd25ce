"""What every bus promises, held against the real one on a real Mosquitto and against its in-process twin."""

import threading

import pytest

from tests.broker.words import LAST, frame, numbers, who
from tests.broker.worlds import World


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
        unit = world.connect(who("unit", "in", will=True))
        unit.wait_connected()
        world.isolate("unit")
        listener.wait_messages(b"lost")
        unit.bus.publish(frame("t", "waited"))
        world.rejoin("unit")
        listener.wait_messages(b"born", b"lost", b"born", b"waited")

    def test_a_broken_connection_publishes_the_will_and_a_stop_does_not(self, world: World) -> None:
        listener = world.connect(who("listener", "#"))
        listener.wait_connected()
        unit = world.connect(who("unit", "in", will=True))
        unit.wait_connected()
        unit.bus.stop(LAST)
        listener.wait_messages(b"born", b"gone")
        listener.bus.publish(frame("t", "end"))
        listener.wait_messages(b"born", b"gone", b"end")
        assert len(listener.messages) == 3

    def test_a_stop_that_could_not_deliver_all_says_lost_not_gone(self, world: World) -> None:
        listener = world.connect(who("listener", "component/#"))
        unit = world.connect(who("unit", "in", will=True))
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
