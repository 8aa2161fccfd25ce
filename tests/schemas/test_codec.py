"""Reading what came: a message, a deletion, something to be answered, or something for the dead letters."""

import json
from typing import Any

import msgpack
import pytest

from schemas.codec import (
    HEAD_BYTES,
    MESSAGE_BYTES_MAX,
    NESTING_MAX,
    TEXT_LENGTH_MAX,
    BadRequest,
    Cleared,
    Malformed,
    MessageTooLargeError,
    clear,
    decode,
    encode,
    pack,
    unpack,
)
from schemas.enums import Reason
from schemas.limits import Amount, Limits
from schemas.message import Wire
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse
from schemas.node import NodeInfo, StatusRequest, UpdateRequest
from schemas.operations import RejectReason
from schemas.scaling import ScalingAction

ACTION = {"action_id": "a-1", "node": "hpc-1", "workload_id": "nav", "target": {"cpu_limit": 2000}}
UPDATE = {"id": "r-1", "workload_id": "nav", "cpu_limit": 2000}


def read(topic: str, body: Any, wire: Wire = Wire.JSON) -> Any:
    """What a component gets of this body."""
    return decode(topic, json.dumps(body).encode() if wire is Wire.JSON else msgpack.packb(body))


def bad(topic: str, body: Any) -> BadRequest:
    """The answerable refusal of this body."""
    found = read(topic, body)
    assert isinstance(found, BadRequest), found
    return found


def dead(topic: str, payload: bytes) -> Malformed:
    """The dead letter of these bytes."""
    found = decode(topic, payload)
    assert isinstance(found, Malformed), found
    return found


@pytest.mark.parametrize("wire", list(Wire))
def test_a_person_or_simple_ecu_needs_only_a_messages_own_fields(wire: Wire) -> None:
    action = read("scaling/action", ACTION, wire)
    assert action == ScalingAction(**ACTION, wire=wire)
    assert (action.v, action.id, action.ts, action.source) == (1, "", None, None)


@pytest.mark.parametrize("wire", list(Wire))
@pytest.mark.parametrize(
    ("written", "read_as"),
    [(1.75e12, 1_750_000_000_000), (1_750_000_000_000.6, 1_750_000_000_001), (-0.25, 0), (7, 7), (None, None)],
)
def test_when_it_was_sent_may_be_written_as_languages_write_numbers(
    written: float | None, read_as: int | None, wire: Wire
) -> None:
    """It is informative only, so it must not cost the action."""
    action = read("scaling/action", {**ACTION, "ts": written}, wire)
    assert action == ScalingAction(**ACTION, ts=read_as, wire=wire)
    assert type(action.ts) is type(read_as)


@pytest.mark.parametrize("written", ["1750000000000", True, -1.0, 1e300, [1.0], "2026-01-01T00:00:00Z"])
def test_what_is_no_time_at_all_is_told(written: object) -> None:
    assert "ts" in bad("scaling/action", {**ACTION, "ts": written}).text


@pytest.mark.parametrize("space", [b" ", b"\t", b"\r\n", b"\n  "])
def test_json_may_begin_with_white_space(space: bytes) -> None:
    assert isinstance(decode("scaling/action", space + json.dumps(ACTION).encode()), ScalingAction)


def test_node_and_workload_come_from_the_topic() -> None:
    metrics = read("metrics/hpc-1/app/nav", {"latency_ms": 450})
    assert metrics == AppMetrics(node="hpc-1", workload_id="nav", latency_ms=450, wire=Wire.JSON)


def test_a_body_may_repeat_what_its_topic_says() -> None:
    assert isinstance(read("metrics/hpc-1/app/nav", {"node": "hpc-1", "workload_id": "nav"}), AppMetrics)


@pytest.mark.parametrize("body", [{"node": "hpc-2"}, {"node": None}, {"node": 1}, {"workload_id": "NAV"}])
def test_a_body_that_contradicts_its_topic_is_a_dead_letter(body: dict[str, object]) -> None:
    found = dead("metrics/hpc-1/app/nav", json.dumps(body).encode())
    assert found.reason is RejectReason.CONTRADICTION
    assert "in the topic" in found.text


def test_unknown_fields_are_ignored_so_that_the_format_can_grow() -> None:
    assert isinstance(read("scaling/action", {**ACTION, "colour": "red", "nested": {"a": [1]}}), ScalingAction)


@pytest.mark.parametrize("key", ["hugepages", "numa_node", "kernel_memory", "cpu", "memory_mib", "CPU_LIMIT"])
def test_an_unknown_limit_is_refused_and_told_what_is_supported(key: str) -> None:
    found = bad("scaling/action", {**ACTION, "target": {"cpu_limit": 2000, key: 1}})
    assert found.reason is Reason.UNSUPPORTED
    assert key in found.text
    assert ", ".join(Limits.model_fields) in found.text


@pytest.mark.parametrize("key", ["PidsLimit", "memory_swap", "swap", "io", "CPU_LIMIT"])
def test_an_unknown_limit_beside_other_fields_is_refused_too(key: str) -> None:
    found = bad("node/hpc-1/update", {**UPDATE, key: 1})
    assert found.reason is Reason.UNSUPPORTED
    assert f"{key} is no limit" in found.text
    assert found.text.endswith(f"supported: {', '.join(Limits.model_fields)}")


@pytest.mark.parametrize("key", ["comment", "requested_by", "trace_id", "limits_note"])
def test_an_unknown_field_that_is_no_limit_is_ignored_beside_limits_too(key: str) -> None:
    assert isinstance(read("node/hpc-1/update", {**UPDATE, key: "x"}), UpdateRequest)


@pytest.mark.parametrize("key", ["requested_gpu", "requested_storage", "cpu_shares", "cpu_limit"])
def test_asking_for_what_is_not_managed_is_refused_and_told_what_may_be_asked_there(key: str) -> None:
    found = bad("resources/validate", {"id": "1", "node": "n", "workload_id": "w", key: 1})
    assert found.reason is Reason.UNSUPPORTED
    assert (
        found.text == f"{key} is no limit that can be asked for here; supported: requested_cpu, requested_memory"
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"target": {"cpu_limit": 0}}, "target.cpu_limit"),
        ({"target": {"cpu_limit": -5}}, "not -5"),
        ({"target": {"cpu_limit": "2"}}, "not '2'"),
        ({"target": {"cpu_limit": 1.5}}, "not 1.5"),
        ({"target": {"cpuset_cpus": "3-1"}}, "ranges rise"),
        ({"target": None}, "target"),
        ({"wait_s": -1}, "wait_s"),
        ({"on_shortage": "pray"}, "'reject' or 'wait'"),
        ({"cause": {"type": "WHIM"}}, "cause.type"),
        ({"base_generation": -1}, "base_generation"),
    ],
)
def test_a_bad_value_is_answered_and_the_answer_names_it(change: dict[str, object], told: str) -> None:
    found = bad("scaling/action", {**ACTION, **change})
    assert found.reason is Reason.INVALID_TARGET
    assert told in found.text
    assert found.request is ScalingAction
    assert found.identity == {"action_id": "a-1", "node": "hpc-1", "workload_id": "nav"}


def test_all_mistakes_are_told_at_once() -> None:
    found = bad("scaling/action", {**ACTION, "target": {"cpu_limit": 0, "memory_limit": 0}, "dry_run": "perhaps"})
    assert all(key in found.text for key in ("target.cpu_limit", "target.memory_limit", "dry_run"))


def test_an_action_without_id_cannot_be_answered() -> None:
    body = {key: value for key, value in ACTION.items() if key != "action_id"}
    found = dead("scaling/action", json.dumps(body).encode())
    assert (found.reason, found.text) == (RejectReason.INVALID, "action_id is missing")


@pytest.mark.parametrize("field", ["node", "workload_id"])
@pytest.mark.parametrize("value", [None, 7, "", "a b", "x" * 129])
def test_an_action_for_what_is_no_name_is_answered_without_repeating_it(field: str, value: object) -> None:
    found = bad("scaling/action", {**ACTION, field: value})
    assert found.reason is Reason.INVALID_TARGET
    assert field in found.text
    kept = {"action_id": "a-1", "node": "hpc-1", "workload_id": "nav"}
    assert found.identity == {key: name for key, name in kept.items() if key != field}


@pytest.mark.parametrize("topic", ["node/hpc-1/update", "node/hpc-1/status/get"])
def test_a_request_without_id_is_a_dead_letter_since_no_answer_could_name_it(topic: str) -> None:
    assert "id is missing" in dead(topic, b'{"workload_id": "nav"}').text


@pytest.mark.parametrize("identity", [{"action_id": ""}, {"action_id": "x" * 257}, {"action_id": 7}])
def test_an_identity_that_is_unsound_is_not_answered(identity: dict[str, object]) -> None:
    dead("scaling/action", json.dumps({**ACTION, **identity, "target": {"cpu_limit": 0}}).encode())


def test_a_bad_request_keeps_its_wire_so_that_the_answer_can_be_read_by_who_asked() -> None:
    assert bad("node/hpc-1/update", {**UPDATE, "cpu_limit": 0}).wire is Wire.JSON
    packed = read("node/hpc-1/update", {**UPDATE, "cpu_limit": 0}, Wire.MSGPACK)
    assert isinstance(packed, BadRequest)
    assert packed.wire is Wire.MSGPACK


def test_a_status_of_all_containers_needs_no_workload() -> None:
    assert read("node/hpc-1/status/get", {"id": "q"}) == StatusRequest(id="q", node="hpc-1", wire=Wire.JSON)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_of_the_format_is_not_guessed_at(version: object) -> None:
    assert dead("scaling/action", json.dumps({**ACTION, "v": version}).encode()).reason is RejectReason.INVALID


@pytest.mark.parametrize(
    ("expectation", "payload"),
    [
        ("empty", b""),
        ("no map", msgpack.packb([1, 2])),
        ("bare number", msgpack.packb(7)),
        ("JSON list", b" [1]"),
        ("cut MessagePack", msgpack.packb(ACTION)[:-3]),
        ("bytes after the message", msgpack.packb(ACTION) + b"\x00"),
        ("cut JSON", json.dumps(ACTION).encode()[:-3]),
        ("no UTF-8", b'{"action_id": "\xff"}'),
        ("half a character", b'{"action_id": "\\ud800"}'),
        ("half a character in a key", b'{"\\udfff": 1}'),
        ("NaN in JSON", b'{"latency_ms": NaN}'),
        ("infinity in JSON", b'{"latency_ms": -Infinity}'),
        ("a number too large for a double", b'{"latency_ms": 1e999}'),
        ("an integer of 5000 digits", b'{"latency_ms": ' + b"9" * 5000 + b"}"),
        ("NaN in MessagePack", msgpack.packb({"latency_ms": float("nan")})),
        ("infinity deep inside", msgpack.packb({"values": {"a": [float("inf")]}})),
        ("binary value", msgpack.packb({"a": b"\x00"})),
        ("binary key", msgpack.packb({b"a": 1})),
        ("key that is a number", msgpack.packb({1: 1})),
        ("extension type", msgpack.packb({"a": msgpack.ExtType(5, b"x")})),
        ("time stamp of MessagePack", msgpack.packb({"a": msgpack.Timestamp(1)})),
        ("time stamp of MessagePack deep inside", msgpack.packb({"a": [{"b": msgpack.Timestamp(1)}]})),
        ("time stamp of MessagePack as the whole", msgpack.packb(msgpack.Timestamp(1))),
        ("time stamp of MessagePack beside a sound action", msgpack.packb({**ACTION, "at": msgpack.Timestamp(1)})),
        ("text that is no UTF-8", b"\x81\xa1a\xa1\xff"),
        ("a byte order mark", b"\xef\xbb\xbf{}"),
    ],
)
def test_what_is_no_clean_map_is_undecodable(expectation: str, payload: bytes) -> None:
    found = dead("metrics/hpc-1/app/nav", payload)
    assert found.reason is RejectReason.UNDECODABLE, expectation
    assert found.text


@pytest.mark.parametrize(("depth", "readable"), [(NESTING_MAX, True), (NESTING_MAX + 1, False), (60_000, False)])
def test_nesting_is_bounded(depth: int, readable: bool) -> None:
    inner = "[" * (depth - 1) + "]" * (depth - 1)
    found = decode("metrics/hpc-1/app/nav", f'{{"deep": {inner}}}'.encode())
    assert isinstance(found, AppMetrics) == readable
    deep: Any = {"deep": [] if depth > 1000 else json.loads(inner)}
    assert isinstance(read("metrics/hpc-1/app/nav", deep, Wire.MSGPACK), AppMetrics) == (readable or depth > 1000)


def test_a_message_above_128_kib_is_refused_before_it_is_parsed() -> None:
    found = dead("metrics/hpc-1/app/nav", b"{" + b" " * MESSAGE_BYTES_MAX)
    assert found.reason is RejectReason.TOO_LARGE
    assert str(MESSAGE_BYTES_MAX) in found.text


def test_a_message_of_exactly_128_kib_is_read() -> None:
    assert isinstance(decode("metrics/hpc-1/app/nav", b"{}".ljust(MESSAGE_BYTES_MAX)), AppMetrics)


def test_a_message_above_128_kib_is_not_sent() -> None:
    use = ContainerUse(workload_id="w" * 128, runtime_id="f" * 64, usage=Amount(), limits=Limits())
    with pytest.raises(MessageTooLargeError, match=r"metrics/\{node\}/containers"):
        encode(ContainerMetrics(node="hpc-1", containers=(use,) * 1000))


def test_a_dead_letter_shows_how_the_message_began() -> None:
    found = dead("perf/outcome", bytes(range(128, 256)))
    assert found.head == bytes(range(128, 128 + HEAD_BYTES)).hex()
    assert found.topic == "perf/outcome"


def test_an_unknown_topic_is_a_dead_letter() -> None:
    assert dead("perf/improved", b"{}").reason is RejectReason.UNKNOWN_TOPIC


def test_what_an_answer_quotes_is_bounded() -> None:
    found = bad("scaling/action", {**ACTION, "target": {"x" * 100_000: 1}})
    assert len(found.text) <= TEXT_LENGTH_MAX
    assert len(dead("t" * 60_000, b"").topic) <= TEXT_LENGTH_MAX


def test_an_empty_payload_deletes_a_retained_topic_only() -> None:
    cleared = Cleared(NodeInfo, {"node": "hpc-1"})
    assert decode("node/hpc-1/info", b"") == cleared
    assert (clear(cleared).topic, clear(cleared).payload, clear(cleared).retain) == ("node/hpc-1/info", b"", True)
    assert dead("node/hpc-1/update", b"").reason is RejectReason.UNDECODABLE


def test_a_message_is_written_in_its_own_wire_if_it_has_one() -> None:
    answer = AppMetrics(node="n", workload_id="w", wire=Wire.JSON)
    assert encode(answer, Wire.MSGPACK).payload[:1] == b"{"
    assert encode(answer.model_copy(update={"wire": None}), Wire.MSGPACK).payload[:1] != b"{"


def test_nan_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack({"a": float("nan")}, Wire.JSON)


def test_text_of_all_languages_survives_both_wires() -> None:
    for wire in Wire:
        assert unpack(pack({"한국어": "저하 😀"}, wire)) == ({"한국어": "저하 😀"}, wire)


def test_an_update_by_hand_needs_limits_only() -> None:
    update = read("node/hpc-1/update", UPDATE)
    assert isinstance(update, UpdateRequest)
    assert update.limits == Limits(cpu_limit=2000)
    assert (update.generation, update.boot_id, update.runtime_id) == (None, None, None)
