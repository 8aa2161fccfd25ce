"""What Prometheus sees of actions: endings counted from zero, phases of those under way."""

from collections import Counter

from components.action_controller.exposition import WHOLE_WAY, Exposition
from schemas.enums import ActionOutcome, CauseType, Phase, Reason, TaskState
from schemas.scaling import Cause, ScalingStatus
from tests.action_controller.bench import NODE, Bench

ENDED = "piriscale_scaling_actions_total"


def shown(exposition: Exposition, **open_actions: int) -> dict[tuple[str, ...], float]:
    """Values by name and labels."""
    families = exposition.families(Counter(open_actions))
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def final(outcome: ActionOutcome, reason: Reason | None = None, **fields: object) -> ScalingStatus:
    """The final status of an action that was 10 ms under way before it was carried out in 40 ms."""
    told = {"cause": Cause(type=CauseType.CLI), "timings_ms": {"accepted": 10, "updating": 40}, **fields}
    state = TaskState.SUCCEEDED if outcome is ActionOutcome.COMPLETED else TaskState.FAILED
    action = {"action_id": "a-1", "node": "hpc-1", "workload_id": "nav"}
    known = {**action, "state": state, "phase": Phase.DONE, "outcome": outcome, "reason": reason, "message": ""}
    return ScalingStatus.model_validate({**known, **told})


def test_refusals_for_room_are_shown_before_there_is_one() -> None:
    exposition = Exposition()
    assert shown(exposition)[ENDED, "REJECTED", "INSUFFICIENT_CPU"] == 0
    exposition.ended(final(ActionOutcome.REJECTED, Reason.INSUFFICIENT_CPU))
    assert shown(exposition)[ENDED, "REJECTED", "INSUFFICIENT_CPU"] == 1
    assert shown(exposition)[ENDED, "REJECTED", "INSUFFICIENT_MEMORY"] == 0


def test_every_phase_of_actions_under_way_is_shown_and_no_ended_one() -> None:
    exposition = Exposition()
    under_way = {name[1]: value for name, value in shown(exposition, updating=2).items() if "open" in name[0]}
    assert under_way == {phase: 2 if phase is Phase.UPDATING else 0 for phase in Phase if phase is not Phase.DONE}


def test_the_whole_way_of_a_completed_action_is_the_sum_of_its_phases_in_seconds() -> None:
    exposition = Exposition()
    exposition.ended(final(ActionOutcome.COMPLETED))
    assert shown(exposition)["piriscale_scaling_duration_seconds_sum", WHOLE_WAY] == 0.05
    assert shown(exposition)["piriscale_scaling_duration_seconds_sum", "updating"] == 0.04


def test_dry_runs_and_reconciles_are_no_scalings() -> None:
    exposition = Exposition()
    exposition.ended(final(ActionOutcome.COMPLETED, dry_run=True))
    exposition.ended(final(ActionOutcome.COMPLETED, cause=Cause(type=CauseType.RECONCILE)))
    assert shown(exposition)[ENDED, "COMPLETED", ""] == 0


def test_an_action_that_cannot_be_read_is_counted_as_refused() -> None:
    bench = Bench()
    bench.hear_json("scaling/action", action_id="a-1", node=NODE, workload_id="cam", target={"cpu_limit": "much"})

    counted = {(s.name, *s.labels.values()): s.value for f in bench.controller.samples() for s in f.samples}
    assert counted[ENDED, "REJECTED", "INVALID_TARGET"] == 1
