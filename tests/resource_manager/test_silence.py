"""An agent that is connected and says nothing: what it last told is not taken for the present for ever."""

from collections.abc import Iterable

from schemas.codec import Cleared
from schemas.enums import ConnectionState, Reason, SnapshotTrigger, SyncState
from schemas.node import NodeInfo, StatusRequest
from schemas.resources import NodeCapacity
from tests.resource_manager.bench import NODE, Bench, container

CAM, NAV = container("cam", 2500, 1024), container("nav", 3000, 2048)
MISSED_S = 90.0
"""Three intervals."""
ANSWER_S = 10.0


def managed(bench: Bench) -> None:
    """A connected agent, and a workload with desired limits."""
    bench.agent_is(ConnectionState.READY)
    bench.scaled(cpu_limit=2500)
    bench.snapshot(CAM, NAV)


def questions(said: Iterable[object]) -> list[StatusRequest]:
    return [one for one in said if isinstance(one, StatusRequest) and one.id.startswith("silent:")]


def test_an_agent_that_tells_nothing_and_answers_nothing_is_as_good_as_away(bench: Bench) -> None:
    managed(bench)

    assert questions(bench.after(MISSED_S - 1)) == [], "it may just be late"
    assert len(questions(bench.after(2))) == 1
    assert bench.state().sync_state is SyncState.SYNCHRONIZED
    bench.after(ANSWER_S)

    assert (bench.state().sync_state, bench.state().reason) == (SyncState.FAILED, Reason.NODE_UNAVAILABLE)
    assert "did not tell what is in force for 10" in (bench.state().message or "")
    assert bench.state().actual is None
    assert bench.state("nav").actual is None, "not even of what nobody manages"
    refusal = bench.validate("a-2", cpu=2600)
    assert refusal.reason is Reason.NODE_UNAVAILABLE
    assert "connected, but does not tell" in refusal.message
    assert bench.capacity().allocated.cpu == 5500, "what it holds, it still holds"


def test_it_is_current_again_with_its_next_word(bench: Bench) -> None:
    managed(bench)
    bench.after(MISSED_S + ANSWER_S + 1)

    bench.snapshot(CAM, NAV)

    assert bench.state().sync_state is SyncState.SYNCHRONIZED
    assert bench.validate("a-2", cpu=2600).allowed


def test_one_with_a_long_interval_of_its_own_answers_and_stays_current(bench: Bench) -> None:
    """How often an agent tells is for its own configuration to say."""
    managed(bench)
    for _ in range(5):
        said = questions(bench.after(MISSED_S + 1))
        assert len(said) == 1
        bench.agent_says(said[0].id, CAM, NAV)
        bench.after(ANSWER_S)
        assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_what_is_retained_of_it_is_no_word_of_now(bench: Bench) -> None:
    """The broker says it again on each of our connections."""
    managed(bench)
    bench.after(MISSED_S + ANSWER_S + 1)

    bench.snapshot(CAM, NAV, seq=bench.seq)

    assert bench.state().sync_state is SyncState.FAILED
    assert bench.validate("a-2", cpu=2600).reason is Reason.NODE_UNAVAILABLE


def test_an_answer_that_nothing_can_be_seen_is_no_word_of_what_is_in_force(bench: Bench) -> None:
    managed(bench)
    (question,) = questions(bench.after(MISSED_S + 1))
    bench.agent_says(question.id, success=False, reason=Reason.QUERY_FAILED)
    bench.after(ANSWER_S)

    assert bench.state().sync_state is SyncState.FAILED


def test_one_that_went_away_and_came_back_has_its_time_again(bench: Bench) -> None:
    managed(bench)
    bench.after(MISSED_S + ANSWER_S + 1)
    bench.agent_is(ConnectionState.LOST)
    bench.after(1)

    bench.agent_is(ConnectionState.READY)

    assert questions(bench.after(MISSED_S - 2)) == []
    bench.snapshot(CAM, NAV, trigger=SnapshotTrigger.START)
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_a_silent_one_is_asked_again_and_again_but_not_without_end_at_once(bench: Bench) -> None:
    managed(bench)
    bench.after(MISSED_S)

    assert len(questions(bench.after(300))) == 10


def test_a_forgotten_node_is_asked_nothing(bench: Bench) -> None:
    managed(bench)
    bench.after(MISSED_S + ANSWER_S + 1)
    bench.agent_is(ConnectionState.LOST)
    bench.hear(Cleared(NodeInfo, {"node": NODE}))

    assert questions(bench.after(300)) == []
    assert bench.manager.live.silent == set()


def test_prometheus_sees_that_the_node_is_not_current(bench: Bench) -> None:
    managed(bench)

    def up() -> float:
        families = {family.name: family for family in bench.manager.samples()}
        return float(families["piriscale_node_up"].samples[0].value)

    assert up() == 1
    bench.after(MISSED_S + ANSWER_S + 1)
    assert up() == 0


def test_a_capacity_that_somebody_deleted_is_back_within_half_a_minute(bench: Bench) -> None:
    """Dashboards and `status` would miss the node until something changes there."""
    managed(bench)

    said = [one for one in bench.after(30.5) if isinstance(one, NodeCapacity)]

    assert said == [bench.capacity()]
