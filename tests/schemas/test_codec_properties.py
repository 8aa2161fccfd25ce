"""What holds for every message and for every byte string, not only for the ones we thought of."""

import json
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import BadRequest, Cleared, Malformed, clear, decode, encode, unpack
from schemas.enums import ActionOutcome, Phase, TaskState
from schemas.limits import CPU_TOLERANCE_MILLICORES, MEMORY_TOLERANCE_MIB, Limits, mismatches
from schemas.message import Message, Wire, is_name
from schemas.operations import DeadLetter
from schemas.scaling import ScalingStatus
from schemas.topics import TOPICS, lookup, topic_of
from schemas.units import format_cpu, format_memory, parse_cpu, parse_memory
from tests.schemas.strategies import MESSAGE_TYPES, NAMES, any_message, messages

ADDRESSES = st.sampled_from([topic.filter().replace("+", "x") for topic in TOPICS]) | st.text(max_size=60)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FIELD_NAMES = st.sampled_from(sorted({name for model in MESSAGE_TYPES for name in model.model_fields}))


def assert_answerable(found: object) -> None:
    """Whatever came, the component can say what was wrong with it."""
    if isinstance(found, Malformed):
        encode(
            DeadLetter(component="c", topic=found.topic, reason=found.reason, message=found.text, head=found.head),
        )
    if isinstance(found, BadRequest):
        assert all(is_name(found.identity.get(field, "-")) for field in ("node", "workload_id"))
        for wire in Wire:
            answer = ScalingStatus(
                action_id=found.identity.get("action_id", found.identity.get("id", "")),
                node=found.identity.get("node", "-"),
                workload_id=found.identity.get("workload_id", "-"),
                state=TaskState.FAILED,
                phase=Phase.DONE,
                outcome=ActionOutcome.REJECTED,
                reason=found.reason,
                message=found.text,
            )
            encode(answer, wire)


@pytest.mark.parametrize("wire", list(Wire))
@pytest.mark.parametrize("model", MESSAGE_TYPES, ids=lambda model: model.__name__)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_every_message_arrives_as_it_was_sent(model: type[Message], wire: Wire, data: st.DataObject) -> None:
    message = data.draw(messages(model))
    frame = encode(message, wire)
    arrived = decode(frame.topic, frame.payload)
    assert isinstance(arrived, Message), arrived
    assert arrived.wire is wire
    assert arrived.model_copy(update={"wire": None}) == message


@given(any_message(), st.sampled_from(list(Wire)))
@settings(deadline=None)
def test_absent_values_are_left_out_and_never_null(message: Message, wire: Wire) -> None:
    body, seen = unpack(encode(message, wire).payload)
    assert seen is wire
    assert not _holds_none(body)
    assert "wire" not in body


@given(any_message())
@settings(deadline=None)
def test_the_other_wire_says_the_same(message: Message) -> None:
    assert unpack(encode(message, Wire.JSON).payload)[0] == unpack(encode(message, Wire.MSGPACK).payload)[0]


@given(ADDRESSES, st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_no_bytes_on_any_topic_make_decoding_raise(address: str, payload: bytes) -> None:
    assert_answerable(decode(address, payload))


@given(ADDRESSES, st.text(max_size=200).map(lambda text: b"{" + text.encode(errors="replace")))
@settings(max_examples=300, deadline=None)
def test_no_text_that_begins_like_json_makes_decoding_raise(address: str, payload: bytes) -> None:
    assert_answerable(decode(address, payload))


@given(ADDRESSES, JSON_VALUES)
@settings(max_examples=300, deadline=None)
def test_no_foreign_value_makes_decoding_raise(address: str, value: Any) -> None:
    assert_answerable(decode(address, json.dumps(value).encode()))
    assert_answerable(decode(address, msgpack.packb(value, unicode_errors="surrogatepass", default=str)))


@given(any_message(), FIELD_NAMES, JSON_VALUES | st.binary(max_size=9) | st.just(msgpack.Timestamp(1)))
@settings(max_examples=200, deadline=None)
def test_a_message_with_one_field_gone_wrong_can_be_answered(message: Message, field: str, value: Any) -> None:
    frame = encode(message)
    body = {**unpack(frame.payload)[0], field: value}
    packed = msgpack.packb(body, unicode_errors="surrogatepass", default=str)
    assert_answerable(decode(frame.topic, packed))


@given(any_message())
@settings(deadline=None)
def test_a_message_finds_its_topic_and_the_topic_its_message(message: Message) -> None:
    found = lookup(encode(message).topic)
    assert found is not None
    topic, values = found
    assert topic is topic_of(type(message))
    assert all(getattr(message, field) == value for field, value in values.items())


@given(st.data())
@settings(deadline=None)
def test_a_deleted_topic_is_recognised(data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from([topic for topic in TOPICS if topic.retained]))
    cleared = Cleared(topic.message, {field: data.draw(NAMES) for field in topic.fields})
    frame = clear(cleared)
    assert frame.retain
    assert decode(frame.topic, frame.payload) == cleared


@given(st.integers(0, 2**40))
def test_a_cpu_quantity_reads_as_it_was_written(millicores: int) -> None:
    assert parse_cpu(format_cpu(millicores)) == millicores


@given(st.integers(1, 2**40))
def test_a_memory_quantity_reads_as_it_was_written(mib: int) -> None:
    assert parse_memory(format_memory(mib)) == mib


@given(st.text(max_size=30))
def test_what_is_no_quantity_is_refused_in_words(text: str) -> None:
    for parse in (parse_cpu, parse_memory):
        assert repr(text) in _refusal(parse, text)


@given(st.integers(1, 2**40 - 30), st.integers(-30, 30))
def test_limits_are_equal_within_the_kernels_rounding_only(wanted: int, off: int) -> None:
    if wanted + off < 1:
        return
    desired = Limits(cpu_limit=wanted, memory_limit=wanted)
    wrong = mismatches(desired, Limits(cpu_limit=wanted + off, memory_limit=wanted + off))
    assert ("cpu_limit" in wrong) == (abs(off) > CPU_TOLERANCE_MILLICORES)
    assert ("memory_limit" in wrong) == (abs(off) > MEMORY_TOLERANCE_MIB)


def _refusal(parse: Callable[[str], int], text: str) -> str:
    """What the parser says against the text; the text itself if nothing."""
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return repr(text)


def _holds_none(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_none(member) for member in value.values())
    if isinstance(value, list):
        return any(_holds_none(member) for member in value)
    return value is None
