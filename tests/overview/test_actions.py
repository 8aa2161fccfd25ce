"""Actions under way: which work, which wait, since when, and what became of the last."""

from components.overview.actions import DOUBT_MS, ENDED_MAX, OPEN_MAX, Actions
from schemas.enums import ActionOutcome, Phase, TaskState
from schemas.limits import Limits
from schemas.scaling import ScalingAction, ScalingStatus

TARGET = Limits(cpu_limit=2000)


def status(phase: Phase, action_id: str = "a", spent_ms: float = 0.0, workload: str = "cam") -> ScalingStatus:
    done = phase is Phase.DONE
    return ScalingStatus(
        action_id=action_id,
        node="n",
        workload_id=workload,
        state=TaskState.SUCCEEDED if done else TaskState.RUNNING,
        phase=phase,
        outcome=ActionOutcome.COMPLETED if done else None,
        timings_ms={Phase.VALIDATING: spent_ms} if spent_ms else {},
    )


def asked(action_id: str = "a") -> ScalingAction:
    return ScalingAction(action_id=action_id, node="n", workload_id="cam", target=TARGET)


def test_an_action_is_shown_with_its_target_its_phase_and_since_when() -> None:
    actions = Actions()
    actions.asked(asked(), 100)
    actions.hear(status(Phase.VALIDATING), 100)
    actions.hear(status(Phase.UPDATING), 130)
    actions.hear(status(Phase.UPDATING), 150)

    (seen,) = actions.running()
    assert (seen.target, seen.began_ms, seen.phase_since_ms) == (TARGET, 100, 130)


def test_what_waits_is_not_what_works() -> None:
    actions = Actions()
    actions.hear(status(Phase.ACCEPTED, "turn"), 1)
    actions.hear(status(Phase.WAITING, "room"), 2)
    actions.hear(status(Phase.CONFIRMING, "works"), 3)

    assert [seen.status.action_id for seen in actions.waiting()] == ["turn", "room"]
    assert [seen.status.action_id for seen in actions.running()] == ["works"]


def test_who_comes_late_reckons_the_start_from_the_time_spent() -> None:
    actions = Actions()
    actions.hear(status(Phase.UPDATING, spent_ms=400.0), 1_000)

    assert actions.running()[0].began_ms == 600


def test_what_ended_is_not_under_way_whatever_comes_late() -> None:
    actions = Actions()
    for phase in (Phase.UPDATING, Phase.DONE, Phase.DONE, Phase.CONFIRMING):
        actions.hear(status(phase), 5)

    assert len(actions) == 0
    (ended,) = actions.ended()
    assert (ended.status.outcome, ended.phase_since_ms) == (ActionOutcome.COMPLETED, 5)


def test_after_a_lost_connection_what_is_not_heard_of_again_is_not_shown_for_ever() -> None:
    actions = Actions()
    actions.hear(status(Phase.UPDATING, "silent"), 1)
    actions.hear(status(Phase.UPDATING, "speaks"), 1)
    actions.doubt(10)
    actions.hear(status(Phase.CONFIRMING, "speaks"), 11)

    assert len(actions.running(10 + DOUBT_MS)) == 2
    assert [seen.status.action_id for seen in actions.running(11 + DOUBT_MS)] == ["speaks"]


def test_on_a_flapping_line_an_action_has_its_minute_from_the_newest_connection_on() -> None:
    actions = Actions()
    actions.hear(status(Phase.UPDATING, "silent"), 1)
    actions.doubt(10)
    actions.doubt(9 + DOUBT_MS)

    assert len(actions.running(11 + DOUBT_MS)) == 1
    assert len(actions.running(10 + 2 * DOUBT_MS)) == 0


def test_what_a_journal_knows_is_shown_until_its_end_is_heard() -> None:
    actions = Actions()
    actions.accepted(asked(), 50, status(Phase.ACCEPTED))

    (waits,) = actions.waiting()
    assert (waits.target, waits.began_ms) == (TARGET, 50)
    actions.hear(status(Phase.DONE), 60)
    assert len(actions) == 0


def test_it_is_bounded() -> None:
    actions = Actions()
    for number in range(OPEN_MAX + 10):
        actions.asked(asked(str(number)), 0)
        actions.hear(status(Phase.UPDATING, str(number)), 0)
    assert len(actions) == OPEN_MAX
    assert len(actions._targets) <= ENDED_MAX
    for number in range(OPEN_MAX):
        actions.hear(status(Phase.DONE, str(number)), 1)
    assert len(actions.ended()) == ENDED_MAX
