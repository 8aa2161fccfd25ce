"""The contract of every bus, continued: sessions, take-over, and sending when the broker is not there or slow."""

from dataclasses import replace

import pytest

from schemas.codec import Frame
from tests.broker.words import BIRTH, LAST, frame, numbers, who
from tests.broker.worlds import World


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
        first = world.connect(who("unit", "t", persistent=True, will=True))
        first.wait_connected()
        world.settle(first)
        other_birth = Frame(BIRTH.topic, b"born elsewhere", retain=True)
        second = world.connect(replace(who("unit", "t", persistent=True, will=True), birth=other_birth))
        assert "a second instance with the client id unit" in first.wait_fatal()
        assert not first.bus.publish(frame("t", "from the first"))
        second.bus.publish(frame("t", "from the second"))
        second.wait_messages(b"from the second")
        assert not any(event.fatal for event in second.disconnections)

    def test_a_line_that_breaks_again_and_again_is_not_taken_for_a_second_instance(self, world: World) -> None:
        unit = world.connect(who("unit", "t", persistent=True, will=True))
        for times in range(1, 5):
            unit.wait_connected(times)
            unit.bus.publish(Frame(BIRTH.topic, b"still here", retain=True))
            world.cut("unit")
        unit.wait_connected(5)
        assert not any(event.fatal for event in unit.disconnections)


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
