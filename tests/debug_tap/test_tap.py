"""What an engineer with MQTT Explorer sees under debug/."""

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.bus import Delivery
from components.component import Instant, Output
from components.debug_tap.rendering import JSON_BYTES_MAX, fit, render
from components.debug_tap.tap import PER_TOPIC_PER_S, TOPICS_MAX, DebugTap
from schemas.codec import Frame, pack
from schemas.message import Wire
from schemas.topics import TOPICS

STATE = "resources/state/hpc-1/cam"
ACTION = "scaling/action"


def at(seconds: float) -> Instant:
    return Instant(seconds, int(seconds * 1000))


def say(tap: DebugTap, topic: str, body: dict[str, Any] | bytes, now: float = 0.0) -> list[Output]:
    payload = body if isinstance(body, bytes) else pack(body, Wire.MSGPACK)
    return tap.handle(Delivery(topic, payload), at(now))


def shown(outputs: list[Output]) -> list[Any]:
    return [json.loads(frame.payload) for frame in outputs if isinstance(frame, Frame)]


def test_a_message_is_shown_as_json_under_debug_with_all_its_fields() -> None:
    body = {"action_id": "a-1", "target": {"cpu_limit": 2000}, "from_the_future": [1, 2.5, None, True]}

    (frame,) = say(DebugTap(), ACTION, body)

    assert isinstance(frame, Frame)
    assert (frame.topic, frame.qos, frame.retain) == ("debug/scaling/action", 0, False)
    assert json.loads(frame.payload) == body


def test_a_copy_is_retained_where_the_source_is_and_deleted_when_the_source_is() -> None:
    tap = DebugTap()

    (said,) = say(tap, STATE, {"generation": 1})
    (deleted,) = say(tap, STATE, b"")

    assert isinstance(said, Frame)
    assert said.retain
    assert deleted == Frame(f"debug/{STATE}", b"", 0, retain=True)
    assert say(tap, ACTION, b"") == []


def test_no_change_of_a_retained_topic_is_lost_on_the_way_to_it() -> None:
    qos = {one.filter: one.qos for one in DebugTap().subscriptions()}

    assert qos["resources/state/+/+"] == 1
    assert qos["metrics/+/node"] == 0


def test_it_hears_the_whole_registry_but_not_itself() -> None:
    filters = [one.filter for one in DebugTap().subscriptions()]

    assert len(filters) == len(TOPICS)
    assert not any(text.startswith(("debug", "#", "+")) for text in filters)
    assert say(DebugTap(), "debug/scaling/action", {"a": 1}) == []


@pytest.mark.parametrize("payload", [b"\xc1", b"{broken", b"\x01", b'{"a": NaN}', b"x" * 200_000])
def test_what_cannot_be_read_says_so_and_how_it_begins(payload: bytes) -> None:
    (body,) = shown(say(DebugTap(), ACTION, payload))

    assert body["unreadable"] is True
    assert body["head"] == payload[:64].hex()
    assert body["bytes"] == len(payload)
    assert body["why"]


def test_a_large_snapshot_is_cut_to_what_the_explorer_can_show() -> None:
    containers = [{"workload_id": f"w{n}", "actual": {"cpu_limit": n + 1}} for n in range(2000)]

    text = render(pack({"node": "hpc-1", "boot_id": 5, "containers": containers, "short": [1, 2]}, Wire.MSGPACK))

    assert JSON_BYTES_MAX - 200 < len(text) <= JSON_BYTES_MAX
    body = json.loads(text)
    assert body["cut"] is True
    assert body["containers"] == containers[: len(body["containers"])]
    assert (body["node"], body["boot_id"], body["short"]) == ("hpc-1", 5, [1, 2])


def test_a_message_without_lists_is_cut_as_well() -> None:
    body = {"node": "hpc-1", "values": {f"v{n}": n for n in range(5000)}, "text": "x" * 30_000}

    text = fit(body, JSON_BYTES_MAX)

    assert len(text) <= JSON_BYTES_MAX
    assert json.loads(text)["cut"] is True
    assert json.loads(text)["node"] == "hpc-1"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=8), st.integers(16, 300))
def test_whatever_is_cut_is_valid_json_and_small_enough(body: dict[str, Any], most: int) -> None:
    text = fit(body, most)

    assert len(text) <= most
    assert isinstance(json.loads(text), dict)


def test_a_message_with_a_field_named_cut_is_cut_all_the_same() -> None:
    assert len(fit({"cut": [1] * 99, "inner": {"cut": "x" * 99}}, 50)) <= 50


@given(st.binary(max_size=300))
def test_no_payload_breaks_it(payload: bytes) -> None:
    assert isinstance(json.loads(render(payload)), dict)


@pytest.mark.parametrize("value", [b"\x00", msgpack.Timestamp(1), msgpack.ExtType(5, b"x"), float("nan")])
def test_what_has_no_json_is_shown_as_unreadable(value: object) -> None:
    shown = json.loads(render(msgpack.packb({"action_id": "a", "at": value})))

    assert shown["unreadable"]
    assert "not allowed" in shown["why"]


def test_a_fast_topic_is_limited_and_the_rest_is_counted() -> None:
    tap = DebugTap()

    outputs = [say(tap, ACTION, {"n": n}) for n in range(100)]

    assert sum(map(len, outputs)) == PER_TOPIC_PER_S
    assert tap.limited == 100 - PER_TOPIC_PER_S
    assert len(say(tap, "scaling/status", {"n": 1})) == 1, "other topics are shown all the same"
    assert len(say(tap, ACTION, {"n": 101}, now=1.0)) == 1
    (family,) = tap.samples()
    assert family.samples[0].value == tap.limited


def test_a_fast_retained_topic_ends_with_its_newest_value() -> None:
    tap = DebugTap()
    for n in range(100):
        say(tap, STATE, {"revision": n})

    assert tap.tick(at(0.9)) == []
    assert shown(tap.tick(at(1.0))) == [{"revision": 99}]
    assert tap.tick(at(3.0)) == []


def test_a_value_withheld_does_not_overwrite_a_newer_one() -> None:
    tap = DebugTap()
    for n in range(100):
        say(tap, STATE, {"revision": n})

    say(tap, STATE, {"revision": 100}, now=1.5)

    assert tap.tick(at(1.6)) == []
    assert tap.tick(at(3.0)) == []


def test_topics_that_fell_silent_are_forgotten() -> None:
    tap = DebugTap()
    for n in range(TOPICS_MAX):
        say(tap, f"component/node_agent/n{n}", {"n": n})

    say(tap, ACTION, {"n": 1}, now=5.0)

    assert len(tap._seconds) == 1
