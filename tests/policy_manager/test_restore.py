"""Back to the baseline after a recovery that lasts: only if asked for, only if nothing speaks against it."""

from pathlib import Path

import pytest

from components.quantities import LimitSettings
from components.settings import PolicySettings
from schemas.enums import ActionOutcome, CauseType, Phase, Reason, SyncState, TaskState
from schemas.limits import Amount, Limits
from schemas.scaling import Cause, ScalingAction, ScalingStatus
from tests.policy_manager.desk import LIMITS, NAV, Desk, by_hand, degraded, final, recovered, state

RESTORING = PolicySettings(workload="nav", max=LimitSettings(cpu=4000), restore_after_s=60)
RAISED = Limits(cpu_limit=2000, memory_limit=512)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A workload that was scaled from 1000m to 2000m."""
    return scaled(Desk(tmp_path, RESTORING))


def scaled(desk: Desk) -> Desk:
    desk.hear(state())
    desk.hear(final(desk.action(degraded("e-1"))))
    desk.hear(state(generation=8, actual=RAISED))
    return desk


def restored(desk: Desk, seconds: float = 61) -> list[ScalingAction]:
    """Actions said by themselves in this time, each once."""
    said = [message for message in desk.wait(seconds) if isinstance(message, ScalingAction)]
    return list({action.action_id: action for action in said}.values())


def test_a_recovery_that_lasts_brings_the_baseline_back(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    assert restored(desk, 59) == []
    (action,) = restored(desk, 2)
    assert action.target == Limits(cpu_limit=1000)
    assert action.current == RAISED
    assert action.base_generation == 8
    assert (action.cause.type, action.cause.event_id) == (CauseType.RESTORE, "e-2")
    assert desk.hear(final(action)) == [], "the event has its outcome already"
    desk.hear(state(generation=9, actual=LIMITS))
    assert restored(desk, 300) == []


def test_a_baseline_that_the_policy_names_comes_before_what_was_in_force(tmp_path: Path) -> None:
    named = RESTORING.model_copy(update={"baseline": LimitSettings(cpu=1500)})
    desk = scaled(Desk(tmp_path, named))
    desk.hear(recovered("e-2"))
    (action,) = restored(desk)
    assert action.target == Limits(cpu_limit=1500)


def test_by_default_nothing_is_lowered(tmp_path: Path) -> None:
    desk = scaled(Desk(tmp_path, NAV))
    desk.hear(recovered("e-2"))
    assert restored(desk, 3600) == []


def test_a_new_degradation_cancels_the_return(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    desk.wait(30)
    desk.hear(degraded("e-3", usage=None))
    assert restored(desk, 300) == []
    desk.hear(recovered("e-4"))
    assert [action.cause.event_id for action in restored(desk)] == ["e-4"]


def test_the_wait_goes_on_over_a_crash(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    desk.wait(30)
    desk.restart(away_s=20)
    desk.hear(state(generation=8, actual=RAISED))
    assert restored(desk, 9) == []
    assert len(restored(desk, 2)) == 1


def test_an_open_return_is_said_again_after_a_crash_and_is_not_doubled(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    (action,) = restored(desk)
    assert desk.restart() == [action]
    desk.hear(state(generation=8, actual=RAISED))
    assert restored(desk, 100) == [action]
    desk.hear(final(action))
    assert restored(desk, 100) == []


def test_the_baseline_is_what_was_before_the_first_of_several_scalings(desk: Desk) -> None:
    desk.wait(10)
    desk.hear(final(desk.action(degraded("e-2", usage=Amount(cpu=1900, memory=100)))))
    desk.hear(state(generation=9, actual=Limits(cpu_limit=4000, memory_limit=512)))
    desk.hear(recovered("e-3"))
    (action,) = restored(desk)
    assert action.target == Limits(cpu_limit=1000)


def test_after_the_return_the_next_scaling_has_a_new_baseline(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    (action,) = restored(desk)
    desk.hear(final(action))
    desk.hear(state(generation=9, actual=Limits(cpu_limit=1100, memory_limit=512)))
    desk.wait(10)
    desk.hear(final(desk.action(degraded("e-3", usage=Amount(cpu=1050, memory=1)))))
    desk.hear(state(generation=10, actual=Limits(cpu_limit=2200, memory_limit=512)))
    desk.hear(recovered("e-4"))
    (action,) = restored(desk)
    assert action.target == Limits(cpu_limit=1100)


@pytest.mark.parametrize("outcome", [ActionOutcome.REJECTED, ActionOutcome.FAILED])
def test_a_scaling_that_changed_nothing_leaves_nothing_to_return_to(
    tmp_path: Path, outcome: ActionOutcome
) -> None:
    desk = Desk(tmp_path, RESTORING)
    desk.hear(state())
    desk.hear(final(desk.action(degraded("e-1")), outcome, Reason.RUNTIME_ERROR))
    desk.hear(state(generation=8, actual=RAISED))
    desk.hear(recovered("e-2"))
    assert restored(desk, 300) == []


def test_a_return_that_was_refused_is_tried_after_the_next_recovery(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    (action,) = restored(desk)
    desk.hear(final(action, ActionOutcome.REJECTED, Reason.BELOW_USAGE))
    assert restored(desk, 300) == []
    desk.hear(recovered("e-3"))
    assert [action.action_id for action in restored(desk)] == ["act-e-3"]


def test_limits_that_are_at_the_baseline_already_need_nothing(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    desk.hear(state(generation=9, actual=LIMITS))
    assert restored(desk, 100) == []
    desk.hear(state(generation=10, actual=RAISED))
    assert restored(desk, 100) == []


def test_a_pause_puts_the_return_off(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    desk.pause()
    assert restored(desk, 300) == []
    desk.pause(paused=False)
    assert len(restored(desk, 1)) == 1


def test_without_a_known_state_the_return_waits(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    desk.manager.workloads.gone(("hpc-1", "nav"))
    assert restored(desk, 100) == []
    desk.hear(state(generation=8, actual=None, desired=None, sync_state=SyncState.UNKNOWN))
    assert restored(desk, 1) == []
    desk.hear(state(generation=8, actual=RAISED))
    assert len(restored(desk, 1)) == 1


def test_limits_that_a_person_chose_are_not_undone(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    desk.hear(final(by_hand(Limits(cpu_limit=4000))))
    desk.hear(state(generation=9, actual=Limits(cpu_limit=4000, memory_limit=512)))
    assert restored(desk, 300) == []


@pytest.mark.parametrize(
    "status",
    [
        final(by_hand(LIMITS), ActionOutcome.REJECTED),
        final(by_hand(LIMITS, dry_run=True)),
        final(by_hand(LIMITS, cause=Cause(type=CauseType.RECONCILE))),
        final(by_hand(LIMITS, workload_id="radio")),
        ScalingStatus(
            action_id="cli-1",
            node="hpc-1",
            workload_id="nav",
            state=TaskState.RUNNING,
            phase=Phase.UPDATING,
            cause=Cause(type=CauseType.CLI),
        ),
    ],
)
def test_what_others_did_without_effect_changes_nothing(desk: Desk, status: ScalingStatus) -> None:
    desk.hear(recovered("e-2"))
    desk.hear(status)
    assert len(restored(desk)) == 1


def test_the_return_waits_for_an_action_that_has_not_ended(desk: Desk) -> None:
    desk.wait(10)
    action = desk.action(degraded("e-2", usage=Amount(cpu=1900, memory=1)))
    desk.hear(recovered("e-3"))
    assert restored(desk, 100) == [action], "only repeated"
    desk.hear(final(action))
    assert [back.action_id for back in restored(desk, 1)] == ["act-e-3"]


def test_a_degradation_during_the_return_waits_for_its_end(desk: Desk) -> None:
    desk.hear(recovered("e-2"))
    (action,) = restored(desk)
    assert desk.outcome(degraded("e-3", usage=Amount(cpu=1900, memory=1))).reason is Reason.COOLDOWN
    desk.hear(final(action))
    assert desk.outcome(degraded("e-4", usage=Amount(cpu=1900, memory=1))).reason is Reason.COOLDOWN
