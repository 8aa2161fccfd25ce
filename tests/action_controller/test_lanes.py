"""Who runs and who waits: one action per workload at a time, the newest waiting one next."""

from typing import Any

import pytest

from schemas.enums import ActionOutcome, OnShortage, Phase, Reason, Verdict
from schemas.resources import ActualReport, DesiredRequest, ValidateRequest
from schemas.scaling import ScalingStatus
from tests.action_controller.bench import Bench


def ended(bench: Bench, action_id: str) -> tuple[ActionOutcome | None, Reason | None]:
    status = bench.finals[action_id]
    return status.outcome, status.reason


SUPERSEDED = (ActionOutcome.REJECTED, Reason.SUPERSEDED)


@pytest.mark.parametrize("phase", [Phase.VALIDATING, Phase.RECORDING, Phase.UPDATING, Phase.CONFIRMING])
def test_a_second_action_waits_until_the_first_has_ended(bench: Bench, phase: Phase) -> None:
    bench.up_to(phase, "a-1")
    bench.act("a-2")
    assert bench.phases() == [("a-2", "accepted")]
    assert bench.heard(ValidateRequest) == []

    bench.after(0.25)
    while "a-1" not in bench.finals:
        step: Any = {
            Phase.VALIDATING: bench.granted,
            Phase.RECORDING: bench.recorded,
            Phase.UPDATING: bench.updated,
            Phase.CONFIRMING: lambda: bench.judged(Verdict.SYNCHRONIZED),
        }[phase]
        step()
        if "a-1" not in bench.finals:
            phase = bench.only(ScalingStatus).phase
    assert bench.phases() == [("a-1", "done"), ("a-2", "validating")]
    assert bench.only(ValidateRequest).action_id == "a-2"


def test_a_newer_one_takes_the_place_of_the_one_that_waits(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING, "a-1")
    bench.act("a-2")
    bench.act("a-3")

    assert bench.phases() == [("a-3", "accepted"), ("a-2", "done")]
    assert ended(bench, "a-2") == SUPERSEDED
    bench.updated("a-1")
    bench.judged(Verdict.SYNCHRONIZED, "a-1")
    assert bench.phases() == [("a-1", "done"), ("a-3", "validating")]


def test_other_workloads_and_the_same_name_on_another_node_run_beside_it(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING, "a-1")
    bench.act("a-2", workload="nav")
    assert bench.only(ValidateRequest).workload_id == "nav"
    bench.act("a-3", node="hpc-2")
    assert bench.only(ValidateRequest).node == "hpc-2"


def test_a_workload_whose_action_failed_is_free_for_the_next(bench: Bench) -> None:
    bench.act("a-1")
    bench.refused("a-1")
    bench.act("a-2")
    assert bench.phases() == [("a-2", "accepted"), ("a-2", "validating")]


# A container's full id instead of its name: the same container, as the answer to the validation tells.

ID = "c0ffee" * 10


def by_id(bench: Bench, action_id: str, *, granted: bool) -> None:
    """An action that names the container of `cam` by id, and the answer that it is `cam`."""
    bench.act(action_id, workload=ID)
    if granted:
        bench.granted(action_id, workload_id="cam")
    else:
        bench.refused(action_id, Reason.OVERLOADED, workload_id="cam")


def test_by_id_or_by_name_a_container_has_one_action_at_a_time(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING, "a-1")
    by_id(bench, "a-2", granted=False)

    assert bench.after(60.0), "it does not use up its tries while it waits for its turn"
    assert "a-2" not in bench.finals
    bench.updated("a-1")
    bench.judged(Verdict.SYNCHRONIZED, "a-1")
    assert bench.phases() == [("a-1", "done"), ("a-2", "validating")]
    again = bench.only(ValidateRequest)
    assert (again.action_id, again.workload_id) == ("a-2", ID)
    assert again.attempt > 1, "and the answer it had is not given again"


def test_granted_by_id_while_another_is_not_judged_yet_it_waits_with_its_reservation(bench: Bench) -> None:
    bench.up_to(Phase.CONFIRMING, "a-1")
    by_id(bench, "a-2", granted=True)
    assert bench.heard(DesiredRequest) == []

    bench.judged(Verdict.FAILED, "a-1", reason=Reason.QUERY_FAILED)
    bench.granted("a-2", workload_id="cam")
    assert bench.only(DesiredRequest).workload_id == "cam"


def test_by_name_waits_for_an_older_one_by_id(bench: Bench) -> None:
    by_id(bench, "a-1", granted=True)
    bench.act("a-2")

    assert bench.phases() == [("a-2", "accepted")]
    assert bench.heard(ValidateRequest) == []


def test_of_two_that_ask_the_one_that_is_granted_goes_first(bench: Bench) -> None:
    bench.act("a-1", workload=ID)
    bench.act("a-2")
    bench.granted("a-1", workload_id="cam")
    assert bench.only(DesiredRequest).action_id == "a-1"

    assert not bench.refused("a-2", Reason.OVERLOADED), "the newer one waits for its turn, whatever it is answered"
    bench.recorded("a-1")
    bench.updated("a-1")
    bench.judged(Verdict.SYNCHRONIZED, "a-1")
    assert bench.only(ValidateRequest).action_id == "a-2"


def test_the_older_one_ends_when_the_newer_one_is_granted_first(bench: Bench) -> None:
    bench.act("a-1")
    by_id(bench, "a-2", granted=True)
    assert ended(bench, "a-1") == SUPERSEDED
    assert bench.only(DesiredRequest).action_id == "a-2"


def test_an_older_one_by_id_does_not_undo_a_newer_one_that_is_further(bench: Bench) -> None:
    bench.act("a-1", workload=ID)
    bench.up_to(Phase.UPDATING, "a-2")
    bench.refused("a-1", Reason.OVERLOADED, workload_id="cam")
    assert ended(bench, "a-1") == SUPERSEDED


def test_what_may_have_been_recorded_before_a_crash_ends_with_its_verdict_whoever_came_after(kept: Bench) -> None:
    """Else it is told REJECTED though its limits are in force."""
    kept.up_to(Phase.CONFIRMING, "a-1")
    kept.restart()
    by_id(kept, "a-2", granted=True)
    assert kept.only(DesiredRequest).action_id == "a-2"
    assert "a-1" not in kept.finals

    kept.recorded("a-2")
    kept.updated("a-2")
    kept.judged(Verdict.SYNCHRONIZED, "a-2")
    assert kept.only(ValidateRequest).action_id == "a-1"
    kept.refused("a-1", None, verdict=Verdict.SYNCHRONIZED)
    assert ended(kept, "a-1") == (ActionOutcome.COMPLETED, None)


def test_an_older_one_that_is_granted_waits_with_its_reservation_for_a_newer_one_at_work(bench: Bench) -> None:
    bench.act("a-1", workload=ID)
    bench.up_to(Phase.UPDATING, "a-2")
    bench.granted("a-1", workload_id="cam")
    bench.act("a-3")
    assert set(bench.finals) == set()

    bench.updated("a-2")
    bench.judged(Verdict.FAILED, "a-2", reason=Reason.VERIFY_FAILED)
    assert bench.only(ValidateRequest).action_id == "a-1"
    bench.refused("a-1", Reason.EXPIRED, workload_id="cam")
    bench.refused("a-1", workload_id="cam")
    assert bench.only(ValidateRequest).action_id == "a-3"


def test_one_that_finds_no_room_lets_an_older_one_go_on_and_waits_behind_it(bench: Bench) -> None:
    bench.act("a-1", workload=ID)
    bench.up_to(Phase.RECORDING, "a-2", on_shortage=OnShortage.WAIT)
    bench.granted("a-1", workload_id="cam")
    bench.not_recorded("a-2")
    bench.refused("a-2")
    assert bench.only(ValidateRequest).action_id == "a-1"

    bench.refused("a-1", workload_id="cam")
    assert bench.finals["a-1"].reason is Reason.INSUFFICIENT_CPU
    assert bench.only(ValidateRequest).action_id == "a-2"


def test_one_that_waited_for_room_waits_for_its_turn_when_an_older_one_is_granted(bench: Bench) -> None:
    bench.act("a-1", workload=ID)
    bench.waits("a-2")
    bench.granted("a-1", workload_id="cam")
    bench.recorded("a-1")

    bench.capacity(8000)
    assert bench.heard(ValidateRequest) == []
    bench.updated("a-1")
    bench.judged(Verdict.SYNCHRONIZED, "a-1")
    assert bench.only(ValidateRequest).action_id == "a-2"


def test_those_that_give_the_id_come_one_after_the_other_too(bench: Bench) -> None:
    bench.act("a-1", workload=ID)
    bench.act("a-2", workload=ID)
    bench.act("a-3", workload=ID)
    assert ended(bench, "a-2") == SUPERSEDED

    bench.granted("a-1", workload_id="cam")
    assert [asked.action_id for asked in bench.heard(ValidateRequest)] == ["a-3"]
    bench.refused("a-3", Reason.OVERLOADED, workload_id="cam")
    bench.recorded("a-1")
    bench.updated("a-1")
    bench.judged(Verdict.SYNCHRONIZED, "a-1")
    assert bench.only(ValidateRequest).action_id == "a-3"


def test_a_reconcile_gives_way_to_an_action_by_id(bench: Bench) -> None:
    bench.reconcile()
    by_id(bench, "a-1", granted=True)
    report = bench.only(ActualReport)
    assert (report.action_id, report.reason) == ("r-1", Reason.SUPERSEDED)
    bench.judged(Verdict.FAILED, "r-1", reason=Reason.SUPERSEDED)
    assert bench.only(ValidateRequest).action_id == "a-1"


def test_an_ending_tells_the_name_of_a_container_given_by_id(bench: Bench) -> None:
    bench.act(workload=ID)
    bench.refused(workload_id="cam", verdict=Verdict.FAILED)
    assert bench.finals["a-1"].workload_id == "cam"
    bench.act("a-2", workload=ID, dry_run=True)
    bench.granted("a-2", workload_id="cam")
    assert bench.finals["a-2"].workload_id == "cam"
