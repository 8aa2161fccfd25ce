"""The pure parts of the client: frames, the window, back-off, the watch for a second instance, the handover."""

import random

import pytest

from broker.backoff import FIRST_S, SLOWEST_S, STEADY_S, Backoff
from broker.bus import BusCounts, BusEvent, Connected, Delivery, Identity
from broker.frames import TopicPrefix, check_frame, matches, packet_size
from broker.handover import Handover
from broker.takeover import TakeoverWatch
from broker.window import WINDOW, Outbox
from schemas.codec import Frame


class TestFrames:
    @pytest.mark.parametrize(
        ("pattern", "topic", "expected"),
        [
            ("a/b", "a/b", True),
            ("a/b", "a", False),
            ("a", "a/b", False),
            ("a/+", "a/b", True),
            ("a/+", "a", False),
            ("a/+", "a/b/c", False),
            ("+/b", "a/b", True),
            ("a/#", "a", True),
            ("a/#", "a/b/c", True),
            ("#", "a/b", True),
            ("#", "$SYS/broker", False),
            ("+/broker", "$SYS/broker", False),
            ("$SYS/#", "$SYS/broker", True),
            ("a/+/c", "a//c", True),
        ],
    )
    def test_a_filter_takes_what_the_standard_says(self, pattern: str, topic: str, expected: bool) -> None:
        assert matches(pattern, topic) is expected

    @pytest.mark.parametrize("length", [0, 121, 122, 16_375, 16_376, 2_097_143, 2_097_144])
    def test_the_size_of_a_packet_is_exact(self, length: int) -> None:
        frame = Frame("t", bytes(length))
        remaining = 2 + 1 + 2 + 1 + length
        header = 1 + (1 if remaining < 128 else 2 if remaining < 16_384 else 3 if remaining < 2_097_152 else 4)
        assert packet_size(frame) == header + remaining
        check_frame(frame, packet_size(frame))
        with pytest.raises(ValueError, match="above the broker's limit"):
            check_frame(frame, packet_size(frame) - 1)

    def test_a_topic_longer_than_the_wire_allows_is_refused(self) -> None:
        check_frame(Frame("ü" * 32_767, b""), None)
        with pytest.raises(ValueError, match="longer than 65535"):
            check_frame(Frame("ü" * 32_768, b""), None)

    def test_a_prefix_is_taken_off_whole_levels_only(self) -> None:
        prefix = TopicPrefix("car-1")
        assert prefix.strip("car-1/t") == "t"
        assert prefix.strip("car-10/t") is None
        assert prefix.strip("car-1/") is None
        nothing = TopicPrefix()
        assert nothing.strip("t") == "t"


class TestOutbox:
    def frames(self, outbox: Outbox) -> list[bytes]:
        sent: list[bytes] = []
        while frame := outbox.head():
            outbox.sent(len(sent) + 100)
            sent.append(frame.payload)
        return sent

    def test_what_was_in_flight_goes_first_again_in_order(self) -> None:
        outbox = Outbox()
        outbox.connected(WINDOW)
        for number in range(15):
            outbox.put(Frame("t", b"%d" % number))
        self.frames(outbox)
        assert outbox.in_flight == 10
        assert outbox.acknowledged(102)
        assert not outbox.acknowledged(102)
        outbox.connection_lost()
        outbox.connected(WINDOW)
        assert self.frames(outbox) == [b"%d" % number for number in (0, 1, 3, 4, 5, 6, 7, 8, 9, 10)]

    def test_a_birth_takes_a_place_and_is_not_repeated(self) -> None:
        outbox = Outbox()
        outbox.connected(WINDOW)
        outbox.sent_besides(1)
        for _ in range(20):
            outbox.put(Frame("t", b""))
        assert len(self.frames(outbox)) == 9
        outbox.connection_lost()
        assert len(outbox) == 20

    def test_metrics_do_not_outlive_a_connection(self) -> None:
        outbox = Outbox()
        assert outbox.put(Frame("t", b"", qos=0)) == 1
        outbox.connected(WINDOW)
        assert outbox.put(Frame("t", b"", qos=0)) == 0
        assert outbox.put(Frame("t", b"kept")) == 0
        assert outbox.connection_lost() == 1
        outbox.connected(WINDOW)
        assert self.frames(outbox) == [b"kept"]

    def test_memory_is_bounded_as_well_as_number(self) -> None:
        outbox = Outbox(frames_max=1000, bytes_max=100)
        assert outbox.put(Frame("t", bytes(60))) == 0
        assert outbox.put(Frame("t", bytes(30))) == 0
        assert outbox.put(Frame("t", bytes(60))) == 1
        assert len(outbox) == 2
        assert outbox.put(Frame("t", bytes(101))) == 3
        assert outbox.idle


class TestBackoff:
    def test_pauses_grow_spread_and_stay_within_bounds(self) -> None:
        backoff = Backoff(random.Random(1))
        pauses = [backoff.pause(0) for _ in range(200)]
        assert all(FIRST_S <= pause <= SLOWEST_S for pause in pauses)
        assert pauses[0] <= 2 * FIRST_S
        assert max(pauses[20:]) > 0.9 * SLOWEST_S
        assert min(pauses[20:]) < 0.1 * SLOWEST_S

    def test_a_connection_that_held_makes_the_next_pause_short_again(self) -> None:
        backoff = Backoff(random.Random(1))
        for _ in range(20):
            backoff.pause(0)
        assert backoff.pause(STEADY_S) <= 2 * FIRST_S


class TestTakeoverWatch:
    BIRTH = Frame("me", b"born", retain=True)

    def test_the_first_instance_looks_at_once_and_a_newcomer_insists_before(self) -> None:
        watch = TakeoverWatch(Identity("unit", birth=self.BIRTH))
        assert not watch.ended_silently(0)
        watch.explained()
        watch.granted(100)
        assert [watch.ended_silently(now) for now in (101, 102, 103)] == [False, False, True]
        watch.explained()
        watch.granted(104)
        assert [watch.ended_silently(now) for now in (105, 111)] == [False, True]

    def test_it_knows_its_own_words_from_those_of_another(self) -> None:
        watch = TakeoverWatch(Identity("unit", birth=self.BIRTH, will=Frame("me", b"lost", retain=True)))
        watch.said(Frame("me", b"ready", retain=True))
        watch.said(Frame("other", b"else", retain=True))
        said = (b"born", b"lost", b"ready", b"else", b"")
        assert [word for word in said if watch.is_foreign(Delivery("me", word))] == [b"else"]

    def test_without_a_retained_birth_there_is_nowhere_to_look(self) -> None:
        assert TakeoverWatch(Identity("unit")).subscription is None
        assert TakeoverWatch(Identity("unit", birth=Frame("me", b"born"))).subscription is None


class TestHandover:
    def test_what_finds_no_room_waits_in_order_and_metrics_do_not(self) -> None:
        taken: list[BusEvent] = []
        room = 0

        def deliver(event: BusEvent) -> bool:
            if len(taken) < room:
                taken.append(event)
                return True
            return False

        counts = BusCounts()
        handover = Handover(deliver, counts)
        events: list[BusEvent] = [Connected(1, False), Delivery("t", b"1"), Delivery("t", b"2")]
        for event in events:
            handover.offer(event)
        handover.offer(Delivery("t", b"metric", qos=0))
        assert handover.waiting
        room = 2
        handover.retry()
        assert taken == events[:2]
        room = 3
        handover.retry()
        assert taken == events
        assert not handover.waiting
        assert (counts.received, counts.dropped_in) == (2, 1)

    def test_deliveries_of_a_lost_connection_are_left_to_the_broker(self) -> None:
        handover = Handover(lambda _event: False, BusCounts())
        handover.offer(Delivery("t", b"1"))
        handover.connection_lost()
        assert not handover.waiting
