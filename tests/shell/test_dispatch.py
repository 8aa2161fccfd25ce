"""One message out of the inbox: handled, answered, acknowledged, whatever happens."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from components.component import Call, Output
from schemas.codec import BadRequest, Cleared, Frame
from schemas.enums import Phase, Reason, TaskState
from schemas.message import Wire
from schemas.operations import DeadLetter, RejectReason
from schemas.resources import DesiredReply, NodeCapacity, ResourceState, ValidateReply, ValidateRequest
from schemas.scaling import ScalingStatus
from tests.shell.bench import BOOT_ID, VALIDATE, Bench, capacity_of
from tests.shell.doubles import Probe, delivery


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


def test_what_is_said_of_an_action_is_logged_once_all_of_it_has_gone(caplog: pytest.LogCaptureFixture) -> None:
    def decide(item: object) -> Iterable[Output]:
        return [DesiredReply(in_reply_to="r", success=True), status_of("a-1"), capacity_of(), status_of("a-1")]

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append((getattr(record, "topic", ""), len(bench.bus.frames)))

    bench, lines = Bench(Probe(on_handle=decide)), list[tuple[str, int]]()
    noting = Noting()
    logging.getLogger().addHandler(noting)
    try:
        with caplog.at_level(logging.INFO):
            bench.dispatcher.returned("anything")
    finally:
        logging.getLogger().removeHandler(noting)

    assert lines == [("scaling/status", 4), ("scaling/status", 4)]


def status_of(action_id: str) -> ScalingStatus:
    return ScalingStatus(
        action_id=action_id, node="n", workload_id="w", state=TaskState.RUNNING, phase=Phase.VALIDATING
    )


def test_what_the_author_left_out_is_stamped_and_what_he_wrote_is_kept() -> None:
    bench = Bench(Probe(on_handle=lambda _: [capacity_of(id="mine", ts=7, source="me"), capacity_of()]))

    bench.dispatcher.returned("anything")

    kept, stamped = bench.bus.said
    assert isinstance(kept, NodeCapacity)
    assert isinstance(stamped, NodeCapacity)
    assert (kept.id, kept.ts, kept.source) == ("mine", 7, "me")
    assert stamped.id
    assert (stamped.ts, stamped.source) == (BOOT_ID + 5, "resource_manager/main")


def test_a_json_request_is_answered_in_json_and_the_rest_as_configured() -> None:
    bench = Bench(Probe(on_handle=lambda _: [capacity_of(wire=Wire.JSON), capacity_of()]))

    bench.dispatcher.returned("anything")

    assert [frame.payload[:1] == b"{" for frame in bench.bus.frames] == [True, False]


def test_with_wire_json_all_output_is_json() -> None:
    bench = Bench(Probe(on_handle=lambda _: [capacity_of()]), wire=Wire.JSON)

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
    huge = capacity_of(unlimited=tuple(f"container-{n}" for n in range(20_000)))
    bench = Bench(Probe(on_handle=lambda _: [huge, capacity_of(node="no/level"), capacity_of()]))

    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE))

    assert [type(said) for said in bench.bus.said] == [NodeCapacity]
    assert bench.dispatcher.counters.rejected == {"unsendable": 2}
    assert len(bench.bus.acked) == 1


def test_a_frame_above_the_brokers_limit_is_counted_and_not_fatal() -> None:
    bench = Bench(Probe(on_handle=lambda _: [capacity_of()]))

    bench.bus.packet_bytes_max = 10
    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE))

    assert bench.dispatcher.counters.rejected == {"unsendable": 1}
    assert bench.dispatcher.counters.sent == 0


def test_what_is_no_message_at_all_is_counted_and_the_others_still_go_out() -> None:
    nonsense: Any = "not a message"
    bench = Bench(Probe(on_handle=lambda _: [nonsense, capacity_of()]))

    bench.dispatcher.delivered(delivery("resources/validate", VALIDATE))

    assert [type(said) for said in bench.bus.said] == [NodeCapacity]
    assert len(bench.bus.acked) == 1


def test_calls_are_submitted_and_not_published() -> None:
    call = Call("inspect", lambda: 1)
    bench = Bench(Probe(on_handle=lambda _: [call]))

    bench.dispatcher.returned("anything")

    assert bench.calls == [call]
    assert bench.bus.frames == []


def test_a_request_that_the_broker_kept_is_not_carried_out_again_at_each_connection() -> None:
    bench = Bench(Probe(on_handle=answer_to))
    request = delivery("resources/validate", VALIDATE, retained=True)

    bench.dispatcher.delivered(request)

    [letter] = bench.bus.said
    assert isinstance(letter, DeadLetter)
    assert letter.topic == "resources/validate"
    assert "retain flag" in letter.message
    assert bench.bus.acked == [request]


class Choosy(Probe):
    """One of several instances, which takes requests about others only from the bus."""

    def concerns(self, topic: str) -> bool:
        return topic != "resources/validate"


def test_what_is_another_instances_is_acknowledged_and_nothing_more() -> None:
    bench = Bench(Choosy(on_handle=answer_to))
    unreadable = delivery("resources/validate", b"\xc1 neither this nor that")

    bench.dispatcher.delivered(unreadable)

    assert bench.bus.log == [unreadable]
    assert bench.bus.acked == [unreadable]
