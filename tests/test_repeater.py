"""Requests are said again until answered: often at first, then less, and never one too many."""

from hypothesis import given
from hypothesis import strategies as st

from components.repeater import FIRST_REPEAT_S, SLOWEST_REPEAT_S, Repeater, request_id
from schemas.node import StatusRequest


def request(number: int) -> StatusRequest:
    return StatusRequest(id=f"q-{number}", node="hpc-1")


def said_over(repeater: Repeater, start: float, end: float, step: float = 0.5) -> list[tuple[float, str]]:
    """When what was repeated, asking every `step` seconds."""
    said, now = [], start
    while now <= end:
        said += [(now, message.id) for message in repeater.due(now)]
        now += step
    return said


def test_a_request_is_repeated_further_and_further_apart() -> None:
    repeater = Repeater()
    assert repeater.send("a", request(1), 0.0) == request(1)
    times = [at for at, _ in said_over(repeater, 0, 80)]
    assert times == [1, 3, 7, 15, 31, 47, 63, 79]


def test_nothing_is_repeated_before_its_time_or_after_its_answer() -> None:
    repeater = Repeater()
    repeater.send("a", request(1), 0.0)
    assert repeater.due(FIRST_REPEAT_S - 0.001) == []
    assert repeater.answered("a")
    assert not repeater.answered("a")
    assert said_over(repeater, 0, 100) == []
    assert len(repeater) == 0


def test_the_first_repeat_can_be_later_for_what_takes_long() -> None:
    repeater = Repeater()
    repeater.send("a", request(1), 0.0, first_s=5.0)
    assert [at for at, _ in said_over(repeater, 0, 20)] == [5, 15]


def test_a_newer_request_of_the_same_key_takes_the_place_of_the_older() -> None:
    repeater = Repeater()
    repeater.send("a", request(1), 0.0)
    repeater.send("a", request(2), 0.0)
    assert len(repeater) == 1
    assert "a" in repeater
    assert said_over(repeater, 0, 3) == [(1, "q-2"), (3, "q-2")]


def test_a_key_answered_and_used_again_starts_anew() -> None:
    repeater = Repeater()
    repeater.send("a", request(1), 0.0)
    repeater.answered("a")
    repeater.send("a", request(2), 0.5)
    assert said_over(repeater, 0, 4) == [(1.5, "q-2"), (3.5, "q-2")]


def test_after_a_lost_connection_everything_open_is_said_at_once() -> None:
    repeater = Repeater()
    repeater.send("a", request(1), 0.0)
    repeater.send("b", request(2), 0.0)
    said_over(repeater, 0, 40)
    assert [message.id for message in repeater.repeat_all(40.0)] == ["q-1", "q-2"]
    assert repeater.due(40.5) == []
    assert sorted(said_over(repeater, 41, 41)) == [(41, "q-1"), (41, "q-2")]


def test_a_late_caller_gets_each_request_once() -> None:
    repeater = Repeater()
    repeater.send("a", request(1), 0.0)
    assert [message.id for message in repeater.due(1000.0)] == ["q-1"]
    assert repeater.due(1000.0) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["send", "answer", "reconnect", "wait"]), st.integers(0, 3), st.floats(0.01, 30)
        ),
        max_size=30,
    )
)
def test_whatever_happens_exactly_the_unanswered_are_repeated(steps: list[tuple[str, int, float]]) -> None:
    repeater, now, asked = Repeater(), 0.0, set[str]()
    for what, number, pause in steps:
        if what == "send":
            repeater.send(number, request(number), now)
            asked.add(f"q-{number}")
        elif what == "answer":
            assert repeater.answered(number) == (f"q-{number}" in asked)
            asked.discard(f"q-{number}")
        elif what == "reconnect":
            assert {message.id for message in repeater.repeat_all(now)} == asked
        now += pause
        said = [message.id for message in repeater.due(now)]
        assert len(said) == len(set(said))
        assert set(said) <= asked
    assert {message.id for message in repeater.due(now + SLOWEST_REPEAT_S)} == asked
    assert len(repeater) == len(asked)


def test_an_id_tells_what_a_request_is_about_and_is_the_same_for_the_same() -> None:
    assert request_id("a-1", "validate", 2) == "a-1:validate:2"
    assert request_id("a" * 250, "report", 1) == request_id("a" * 250, "report", 1)


def test_an_id_is_never_longer_than_an_id_may_be_and_still_unlike_all_others() -> None:
    longest = ["a" * 256, "a" * 255 + "b", "a" * 249]
    ids = {request_id(action, "validate", attempt) for action in longest for attempt in (1, 2)}

    assert len(ids) == 6
    assert all(len(text) <= 256 for text in ids)
