"""One message out of the inbox: handled, answered, acknowledged, whatever happens."""

from collections.abc import Callable, Iterable

import pytest

from broker.bus import Connected, Identity
from components.component import Call, Instant, Output
from components.shell.deadletters import BURST
from components.shell.dispatch import RETRY_AFTER_S, Dispatcher
from components.shell.status import HEAL_INTERVAL_S, OwnStatus
from schemas.codec import BadRequest, Cleared, Frame, decode
from schemas.enums import ConnectionState, Reason
from schemas.limits import Amount
from schemas.message import Wire
from schemas.operations import ComponentStatus, DeadLetter, RejectReason
from schemas.resources import NodeCapacity, ResourceState, ValidateReply, ValidateRequest
from schemas.topics import Role
from tests.shell.doubles import Probe, RecordingBus, delivery

VALIDATE: dict[str, object] = {"id": "r1", "node": "hpc-1", "workload_id": "cam", "requested_cpu": 2000}
BOOT_ID = 1_700_000_000_000


class Bench:
    """A dispatcher on a recording bus, with a clock that stands still until it is moved."""

    def __init__(
        self, probe: Probe | None = None, *, wire: Wire = Wire.MSGPACK, wants_status: bool = False
    ) -> None:
        self.probe = probe or Probe()
        self.bus = RecordingBus(Identity("test"), lambda _: True)
        self.calls: list[Call] = []
        self.time = Instant(1000.0, BOOT_ID + 5)
        self.status = OwnStatus(self.probe.role, self.probe.instance, BOOT_ID)
        self.dispatcher = Dispatcher(
            self.probe,
            self.bus,
            self.status,
            self.calls.append,
            wants_status=wants_status,
            wire=wire,
            now=lambda: self.time,
            retry_after_s=(0.0,) * len(RETRY_AFTER_S),
        )

    def pass_time(self, seconds: float) -> None:
        self.time = Instant(self.time.monotonic + seconds, self.time.epoch_ms + int(seconds * 1000))


def answer_to(item: object) -> Iterable[Output]:
    assert isinstance(item, ValidateRequest)
    yield ValidateReply(in_reply_to=item.id, allowed=True, node=item.node, workload_id=item.workload_id)


def fail_times(
    times: int, then: Callable[[object], Iterable[Output]] = answer_to
) -> Callable[[object], Iterable[Output]]:
    """A handler that raises that often before it works."""
    left = [times]

    def react(item: object) -> Iterable[Output]:
        if left[0]:
            left[0] -= 1
            raise OSError("disk is full")
        return then(item)

    return react


def test_the_answer_is_published_before_the_request_is_acknowledged() -> None:
    bench = Bench(Probe(on_handle=answer_to))
    request = delivery("resources/validate", VALIDATE)

    bench.dispatcher.delivered(request)

    assert [type(one) for one in bench.bus.log] == [Frame, type(request)]
    assert bench.bus.acked == [request]


def test_what_the_author_left_out_is_stamped_and_what_he_wrote_is_kept() -> None:
    bench = Bench(Probe(on_handle=lambda _: [_capacity(id="mine", ts=7, source="me"), _capacity()]))

    bench.dispatcher.returned("anything")

    kept, stamped = bench.bus.said
    assert isinstance(kept, NodeCapacity)
    assert isinstance(stamped, NodeCapacity)
    assert (kept.id, kept.ts, kept.source) == ("mine", 7, "me")
    assert stamped.id
    assert (stamped.ts, stamped.source) == (BOOT_ID + 5, "resource_manager/main")


def test_a_json_request_is_answered_in_json_and_the_rest_as_configured() -> None:
    bench = Bench(Probe(on_handle=lambda _: [_capacity(wire=Wire.JSON), _capacity()]))

    bench.dispatcher.returned("anything")

    assert [frame.payload[:1] == b"{" for frame in bench.bus.frames] == [True, False]


def test_with_wire_json_all_output_is_json() -> None:
    bench = Bench(Probe(on_handle=lambda _: [_capacity()]), wire=Wire.JSON)

    bench.dispatcher.returned("anything")

    assert bench.bus.frames[0].payload.startswith(b"{")


def test_a_handler_that_fails_three_times_is_tried_again_and_answers() -> None:
    bench = Bench(Probe(on_handle=fail_times(3)))

    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE))

    assert isinstance(bench.bus.said[0], ValidateReply)
    assert len(bench.probe.handled) == 4
    assert bench.dispatcher.counters.rejected == {}


def test_a_handler_that_keeps_failing_lets_the_component_answer_and_the_message_is_acknowledged() -> None:
    bench = Bench(Probe(on_handle=fail_times(99)))
    refusal = ValidateReply(
        in_reply_to="r1", allowed=False, reason=Reason.STORAGE_ERROR, node="n", workload_id="w"
    )
    bench.probe.on_failed = lambda _item, error: [refusal.model_copy(update={"message": str(error)})]

    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE))

    reply = bench.bus.said[0]
    assert isinstance(reply, ValidateReply)
    assert (reply.reason, reply.message) == (Reason.STORAGE_ERROR, "disk is full")
    assert len(bench.bus.acked) == 1
    assert bench.dispatcher.counters.rejected == {"handler_failed": 1}


@pytest.mark.parametrize("answer_fails", [False, True])
def test_without_an_answer_the_message_goes_to_the_dead_letters_and_is_acknowledged(*, answer_fails: bool) -> None:
    bench = Bench(Probe(on_handle=fail_times(99)))
    if answer_fails:

        def raise_again(_item: object, _error: Exception) -> None:
            raise RuntimeError

        bench.probe.on_failed = raise_again

    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE))

    letter = bench.bus.said[0]
    assert isinstance(letter, DeadLetter)
    assert letter.reason is RejectReason.HANDLER_FAILED
    assert letter.topic == "resources/validate"
    assert "disk is full" in letter.message
    assert bytes.fromhex(letter.head).startswith(b"\x84")
    assert len(bench.bus.acked) == 1


def test_after_a_poisonous_message_the_next_one_is_handled() -> None:
    bench = Bench(Probe(on_handle=fail_times(4)))

    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE))
    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE, packet_id=2))

    assert [type(said) for said in bench.bus.said] == [DeadLetter, ValidateReply]


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


def test_a_readable_request_with_a_bad_value_is_handed_to_the_component_to_be_answered() -> None:
    bench = Bench()

    bench.dispatcher.delivered(delivery("resources/validate", {**VALIDATE, "requested_cpu": -1}))

    (item,) = bench.probe.handled
    assert isinstance(item, BadRequest)
    assert item.reason is Reason.INVALID_TARGET
    assert bench.bus.frames == []


def test_a_cleared_retained_topic_is_handed_to_the_component_and_one_it_clears_is_deleted() -> None:
    cleared = Cleared(ResourceState, {"node": "hpc-1", "workload_id": "cam"})
    bench = Bench(Probe(on_handle=lambda _: [cleared]))

    bench.dispatcher.delivered(delivery("resources/state/hpc-1/cam", b""))

    assert bench.probe.handled == [cleared]
    assert bench.bus.frames == [Frame("resources/state/hpc-1/cam", b"", 1, retain=True)]


def test_a_message_too_large_to_send_is_counted_and_the_others_still_go_out() -> None:
    huge = _capacity(unlimited=tuple(f"container-{n}" for n in range(20_000)))
    bench = Bench(Probe(on_handle=lambda _: [huge, _capacity(node="no/level"), _capacity()]))

    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE))

    assert [type(said) for said in bench.bus.said] == [NodeCapacity]
    assert bench.dispatcher.counters.rejected == {"unsendable": 2}
    assert len(bench.bus.acked) == 1


def test_a_frame_above_the_brokers_limit_is_counted_and_not_fatal() -> None:
    bench = Bench(Probe(on_handle=lambda _: [_capacity()]))

    bench.bus.packet_bytes_max = 10
    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE))

    assert bench.dispatcher.counters.rejected == {"unsendable": 1}
    assert bench.dispatcher.counters.sent == 0


def test_calls_are_submitted_and_not_published() -> None:
    call = Call("inspect", lambda: 1)
    bench = Bench(Probe(on_handle=lambda _: [call]))

    bench.dispatcher.returned("anything")

    assert bench.calls == [call]
    assert bench.bus.frames == []


def test_what_is_said_at_start_waits_for_the_connection_and_ready_comes_last() -> None:
    bench = Bench()
    bench.probe.on_start = lambda: [_capacity(node="start")]
    bench.probe.on_connected = lambda: [_capacity(node="retained")]

    bench.dispatcher.start()
    assert bench.bus.frames == []
    bench.dispatcher.connected(Connected(1, session_present=False))
    bench.dispatcher.connected(Connected(2, session_present=False))

    topics = [frame.topic for frame in bench.bus.frames]
    own = "component/resource_manager/main"
    assert topics == [
        "resources/capacity/start",
        "resources/capacity/retained",
        own,
        "resources/capacity/retained",
        own,
    ]
    ready = bench.bus.said[2]
    assert isinstance(ready, ComponentStatus)
    assert (ready.state, ready.boot_id) == (ConnectionState.READY, BOOT_ID)


def test_a_component_that_cannot_say_its_retained_state_is_ready_all_the_same() -> None:
    bench = Bench()

    def broken() -> list[Output]:
        raise OSError("disk is full")

    bench.probe.on_connected = broken
    bench.dispatcher.connected(Connected(1, session_present=False))

    assert isinstance(bench.bus.said[-1], ComponentStatus)


def test_a_tick_that_fails_makes_it_unhealthy_until_one_works() -> None:
    bench = Bench()

    def broken() -> list[Output]:
        raise OSError("disk is full")

    bench.probe.on_tick = broken
    bench.dispatcher.tick()
    assert bench.dispatcher.problem == "tick failed: OSError: disk is full"

    bench.probe.on_tick = lambda: [_capacity()]
    bench.dispatcher.tick()
    assert bench.dispatcher.problem is None
    assert isinstance(bench.bus.said[-1], NodeCapacity)


def _own(state: str, boot_id: int = BOOT_ID) -> dict[str, object]:
    return {"component": "resource_manager", "instance": "main", "state": state, "boot_id": boot_id}


@pytest.mark.parametrize(
    ("body", "untrue"),
    [
        (_own("ready"), False),
        (_own("lost"), True),
        (_own("lost", 1), True),
        (_own("disconnected", 1), True),
        (b"", True),
        (b"\xc1", False),
    ],
    ids=["own-echo", "own-will", "late-will-of-an-earlier-life", "foreign-goodbye", "cleared", "unreadable"],
)
def test_an_untrue_status_topic_is_overwritten(body: dict[str, object] | bytes, *, untrue: bool) -> None:
    bench = Bench()
    bench.dispatcher.connected(Connected(1, session_present=False))
    bench.bus.log.clear()

    bench.dispatcher.delivered(delivery("component/resource_manager/main", body))
    bench.dispatcher.tick()

    states = [said.state for said in bench.bus.said if isinstance(said, ComponentStatus)]
    assert states == ([ConnectionState.READY] if untrue else [])
    assert bench.probe.handled == []
    assert len(bench.bus.acked) == 1


def test_two_that_contradict_each_other_do_not_flood_the_status_topic() -> None:
    bench = Bench()
    for _ in range(20):
        bench.dispatcher.delivered(delivery("component/resource_manager/main", _own("lost")))
        bench.dispatcher.tick()
    assert len(bench.bus.frames) == 1

    bench.pass_time(HEAL_INTERVAL_S)
    bench.dispatcher.tick()
    assert len(bench.bus.frames) == 2


def test_a_component_that_listens_to_all_statuses_sees_its_own_too() -> None:
    bench = Bench(wants_status=True)

    bench.dispatcher.delivered(delivery("component/resource_manager/main", _own("ready")))

    assert isinstance(bench.probe.handled[0], ComponentStatus)


class RawProbe(Probe):
    raw = True


def test_a_raw_component_gets_deliveries_as_they_came_and_may_send_frames() -> None:
    copy = Frame("debug/resources/validate", b"{}", 0)
    bench = Bench(RawProbe(Role.DEBUG_TAP, on_handle=lambda _: [copy]))
    rubbish = delivery("resources/validate", b"\xc1")

    bench.dispatcher.delivered(rubbish)

    assert bench.probe.handled == [rubbish]
    assert bench.bus.log == [copy, rubbish]


def test_a_raw_component_gets_its_own_status_raw_as_well() -> None:
    bench = Bench(RawProbe(Role.DEBUG_TAP), wants_status=True)
    own = delivery("component/debug_tap/main", {**_own("lost"), "component": "debug_tap"})

    bench.dispatcher.delivered(own)
    bench.dispatcher.tick()

    assert bench.probe.handled == [own]
    assert isinstance(decode(bench.bus.frames[0].topic, bench.bus.frames[0].payload), ComponentStatus)


def _capacity(**fields: object) -> NodeCapacity:
    zero = Amount()
    sound = NodeCapacity(node="hpc-1", total=zero, allocated=zero, reserved=zero, available=zero)
    return sound.model_copy(update=fields)
