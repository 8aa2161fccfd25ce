"""People hold automatic scaling back, for all or some; what they said lasts."""

from pathlib import Path

import pytest

from components import pauses as module
from components.pauses import Pause, TooManyPausesError, after, pause_of
from schemas.codec import Cleared
from schemas.enums import Reason
from schemas.scaling import ScalingControl
from tests.policy_manager.desk import Desk, degraded, final, state

ALL = ScalingControl(paused=True)
NODE = ScalingControl(paused=True, node="hpc-1")
WORKLOAD = ScalingControl(paused=True, workload="nav")
ONE = ScalingControl(paused=True, node="hpc-1", workload="nav")


def resume(of: ScalingControl) -> ScalingControl:
    return of.model_copy(update={"paused": False})


def paused(*said: ScalingControl) -> list[str]:
    """Which workloads of two nodes are paused after these words."""
    pauses: tuple[Pause, ...] = ()
    for control in said:
        pauses = after(pauses, control)
        assert after(pauses, control) == pauses, "hearing it again changes nothing"
    places = [(node, workload) for node in ("hpc-1", "hpc-2") for workload in ("nav", "radio")]
    return [f"{node}/{workload}" for node, workload in places if pause_of(pauses, node, workload)]


@pytest.mark.parametrize(
    ("expectation", "said", "found"),
    [
        ("nothing said", [], []),
        ("everything", [ALL], ["hpc-1/nav", "hpc-1/radio", "hpc-2/nav", "hpc-2/radio"]),
        ("a node", [NODE], ["hpc-1/nav", "hpc-1/radio"]),
        ("a workload on all nodes", [WORKLOAD], ["hpc-1/nav", "hpc-2/nav"]),
        ("one workload of one node", [ONE], ["hpc-1/nav"]),
        ("two pauses add up", [NODE, WORKLOAD], ["hpc-1/nav", "hpc-1/radio", "hpc-2/nav"]),
        ("resumed as it was paused", [NODE, resume(NODE)], []),
        ("resume everything ends all pauses", [NODE, WORKLOAD, resume(ALL)], []),
        ("all but a node", [ALL, resume(NODE)], ["hpc-2/nav", "hpc-2/radio"]),
        (
            "all but a node, but its nav after all",
            [ALL, resume(NODE), ONE],
            ["hpc-1/nav", "hpc-2/nav", "hpc-2/radio"],
        ),
        ("resuming what is not paused", [resume(NODE)], []),
        ("resuming beside a pause leaves the pause", [NODE, resume(WORKLOAD)], ["hpc-1/radio"]),
    ],
)
def test_after_these_words_paused_are(expectation: str, said: list[ScalingControl], found: list[str]) -> None:
    assert paused(*said) == found, expectation


def test_words_without_effect_are_not_kept() -> None:
    assert after(after((), NODE), resume(ALL)) == ()
    assert after((), resume(ONE)) == ()
    assert after(after((), ONE), ALL) == (Pause(paused=True),)


def test_pauses_are_bounded_and_a_resume_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES_MAX", 2)
    both = after(after((), NODE), WORKLOAD)
    with pytest.raises(TooManyPausesError, match="resume some"):
        after(both, ScalingControl(paused=True, node="hpc-3"))
    assert after(both, resume(ALL)) == ()


@pytest.mark.parametrize(
    ("pause", "words"),
    [
        (Pause(paused=True), "everywhere"),
        (Pause(paused=True, node="hpc-1"), "on hpc-1"),
        (Pause(paused=True, workload="nav"), "for nav everywhere"),
        (Pause(paused=True, node="hpc-1", workload="nav"), "for nav on hpc-1"),
    ],
)
def test_a_pause_says_what_it_is_about(pause: Pause, words: str) -> None:
    assert str(pause) == words


def test_a_paused_workload_is_not_scaled_and_others_are(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.hear(state())
    desk.hear(state(workload="radio"))
    desk.pause(workload="nav")
    outcome = desk.outcome(degraded("e-1"))
    assert outcome.reason is Reason.PAUSED
    assert outcome.message == "automatic scaling is paused for nav everywhere"
    desk.action(degraded("e-2", workload="radio"))
    desk.pause(paused=False)
    desk.action(degraded("e-3"))


def test_a_pause_holds_over_a_crash(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.pause(node="hpc-1")
    desk.pause(node="hpc-2")
    desk.restart()
    desk.hear(state())
    assert desk.outcome(degraded("e-1")).reason is Reason.PAUSED


def test_a_deleted_switch_pauses_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.hear(state())
    desk.pause(node="hpc-1")
    assert desk.hear(Cleared(ScalingControl, {})) == []
    desk.restart()
    desk.hear(state())
    desk.action(degraded("e-1"))


def test_an_action_that_runs_when_people_pause_runs_to_its_end(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.hear(state())
    action = desk.action(degraded("e-1"))
    desk.pause()
    assert desk.wait(1) == [action]
    assert desk.outcome(final(action)).action_id == action.action_id


def test_too_many_pauses_are_a_dead_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES_MAX", 0)
    desk = Desk(tmp_path)
    control = ScalingControl(paused=True)
    with pytest.raises(TooManyPausesError) as caught:
        desk.hear(control)
    assert desk.manager.failed(control, caught.value, desk.instant) is None
