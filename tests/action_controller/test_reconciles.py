"""A reconcile restores what is desired, never records, and gives way to an action."""

from schemas.enums import ActionOutcome, Phase, Reason, UpdateResult, Verdict
from schemas.limits import Limits
from schemas.node import UpdateRequest
from schemas.resources import ActualReport, ValidateRequest
from schemas.scaling import ScalingStatus
from tests.action_controller.bench import BOOT, Bench


def ended(bench: Bench, action_id: str) -> tuple[ActionOutcome | None, Reason | None]:
    status = bench.finals[action_id]
    return status.outcome, status.reason


SUPERSEDED = (ActionOutcome.REJECTED, Reason.SUPERSEDED)


def test_a_reconcile_begins_with_the_update_and_never_records(bench: Bench) -> None:
    bench.reconcile()

    assert bench.phases() == [("r-1", "accepted"), ("r-1", "updating")]
    update = bench.only(UpdateRequest)
    assert update.limits == Limits(cpu_limit=2500)
    assert (update.generation, update.attempt, update.boot_id, update.runtime_id) == (7, 3, BOOT, "cam-id-1")
    bench.updated("r-1")
    report = bench.only(ActualReport)
    assert (report.action_id, report.generation, report.attempt) == ("r-1", 7, 3)
    bench.judged(Verdict.SYNCHRONIZED, "r-1")
    status = bench.only(ScalingStatus)
    assert (status.outcome, status.cause.type.value) == (ActionOutcome.COMPLETED, "RECONCILE")
    assert len(bench.said) == 1


def test_a_repeated_reconcile_changes_nothing(bench: Bench) -> None:
    bench.reconcile()
    assert bench.reconcile() == []
    assert bench.reconcile(attempt=4) == []


def test_a_retry_of_a_reconcile_updates_again_for_the_same_boot(bench: Bench) -> None:
    bench.reconcile()
    bench.not_updated("r-1")
    bench.judged(Verdict.RETRY, "r-1", reason=Reason.RUNTIME_ERROR)
    bench.after(5)

    update = bench.only(UpdateRequest)
    assert (update.attempt, update.boot_id, update.generation) == (4, BOOT, 7)


def test_a_reconcile_whose_agent_has_restarted_is_reported_expired_not_renewed(bench: Bench) -> None:
    bench.reconcile()
    bench.not_updated("r-1", reason=Reason.EXPIRED, boot_id=101)

    report = bench.only(ActualReport)
    assert (report.reason, report.boot_id) == (Reason.EXPIRED, 101)
    bench.judged(Verdict.FAILED, "r-1", reason=Reason.EXPIRED)
    assert bench.finals["r-1"].outcome is ActionOutcome.FAILED
    bench.after(30)
    assert bench.said == []


def test_a_fence_above_a_reconcile_does_not_raise_its_attempt(bench: Bench) -> None:
    from schemas.resources import Fence

    bench.reconcile()
    bench.not_updated("r-1", reason=Reason.SUPERSEDED, fence=Fence(generation=7, attempt=9))

    assert bench.only(ActualReport).reason is Reason.SUPERSEDED
    assert bench.heard(UpdateRequest) == []


def test_an_action_under_way_sends_a_reconcile_back(bench: Bench) -> None:
    bench.up_to(Phase.RECORDING)
    bench.reconcile()

    report = bench.only(ActualReport)
    assert bench.said == [report]
    assert (report.action_id, report.attempt, report.generation) == ("r-1", 3, 7)
    assert (report.result, report.reason) == (UpdateResult.FAILED, Reason.SUPERSEDED)


def test_a_reconcile_goes_on_beside_an_action_that_only_waits_for_room(bench: Bench) -> None:
    """Else limits that were lost would stay lost for as long as somebody waits, which may be a day."""
    bench.waits()
    bench.reconcile()
    assert bench.only(UpdateRequest).action_id == "r-1"
    bench.updated("r-1")
    bench.judged(Verdict.SYNCHRONIZED, "r-1")
    assert bench.finals["r-1"].outcome is ActionOutcome.COMPLETED

    bench.capacity(7000)
    assert bench.only(ValidateRequest).action_id == "a-1"


def test_an_action_that_is_granted_meanwhile_is_not_held_up_by_it(bench: Bench) -> None:
    """ResourceManager ends the reconcile with the grant, and the agent knows the newer generation."""
    bench.waits()
    bench.reconcile()
    bench.capacity(7000)
    bench.granted()
    bench.recorded()
    bench.updated("r-1")
    bench.judged(Verdict.FAILED, "r-1", reason=Reason.SUPERSEDED)
    assert bench.phases() == [("r-1", "done")]
    bench.updated()
    bench.judged(Verdict.SYNCHRONIZED)
    assert bench.finals["a-1"].outcome is ActionOutcome.COMPLETED


def test_a_newer_action_that_takes_the_place_of_the_waiting_one_begins_at_once(bench: Bench) -> None:
    bench.waits("a-1")
    bench.reconcile()
    bench.act("a-2")

    assert ended(bench, "a-1") == SUPERSEDED
    assert bench.only(ValidateRequest).action_id == "a-2"
    bench.updated("r-1")
    bench.judged(Verdict.FAILED, "r-1", reason=Reason.SUPERSEDED)
    bench.granted("a-2")
    assert bench.phases() == [("a-2", "recording")]


def test_only_one_reconcile_runs_beside_an_action_that_waits(bench: Bench) -> None:
    bench.waits()
    bench.reconcile("r-1")
    assert bench.reconcile("r-2") == []
    bench.updated("r-1")
    bench.judged(Verdict.SYNCHRONIZED, "r-1")
    bench.reconcile("r-2")
    assert bench.only(UpdateRequest).action_id == "r-2"


def test_an_action_that_arrives_ends_the_reconcile_beside_the_one_whose_place_it_takes(bench: Bench) -> None:
    bench.waits("a-1")
    bench.reconcile()
    bench.act("a-2")

    report = bench.only(ActualReport)
    assert (report.action_id, report.reason) == ("r-1", Reason.SUPERSEDED)


def test_a_second_reconcile_waits_for_the_end_of_the_first(bench: Bench) -> None:
    bench.reconcile("r-1")
    assert bench.reconcile("r-2") == []
    bench.updated("r-1")
    bench.judged(Verdict.SYNCHRONIZED, "r-1")
    bench.reconcile("r-2")
    assert bench.only(UpdateRequest).action_id == "r-2"


def test_a_reconcile_that_has_ended_here_is_sent_back(bench: Bench) -> None:
    bench.reconcile()
    bench.updated("r-1")
    bench.judged(Verdict.SYNCHRONIZED, "r-1")
    bench.reconcile()

    assert bench.only(ActualReport).reason is Reason.SUPERSEDED
    assert len(bench.said) == 1


def test_an_action_that_arrives_ends_the_reconcile_and_then_begins(bench: Bench) -> None:
    bench.reconcile()
    bench.act("a-1")
    report = bench.only(ActualReport)
    assert (report.action_id, report.result, report.reason) == ("r-1", UpdateResult.FAILED, Reason.SUPERSEDED)
    assert bench.heard(ValidateRequest) == []
    assert bench.updated("r-1") == [], "what the agent says of it now counts no more"

    bench.judged(Verdict.FAILED, "r-1", reason=Reason.SUPERSEDED)
    assert bench.phases() == [("r-1", "done"), ("a-1", "validating")]


def test_it_ends_one_that_waits_to_be_tried_again(bench: Bench) -> None:
    bench.reconcile()
    bench.not_updated("r-1")
    bench.judged(Verdict.RETRY, "r-1", reason=Reason.RUNTIME_ERROR)
    bench.act("a-1")

    report = bench.only(ActualReport)
    assert (report.action_id, report.attempt, report.reason) == ("r-1", 4, Reason.SUPERSEDED)
    bench.judged(Verdict.FAILED, "r-1", reason=Reason.SUPERSEDED)
    assert bench.only(ValidateRequest).action_id == "a-1"


def test_it_ends_one_whose_report_is_out_and_then_to_be_tried_again(bench: Bench) -> None:
    bench.reconcile()
    bench.not_updated("r-1")
    bench.act("a-1")
    assert bench.heard(ActualReport) == [], "its report is out already"

    bench.judged(Verdict.RETRY, "r-1", reason=Reason.RUNTIME_ERROR)
    report = bench.only(ActualReport)
    assert (report.action_id, report.attempt, report.reason) == ("r-1", 4, Reason.SUPERSEDED)
    bench.judged(Verdict.FAILED, "r-1", reason=Reason.SUPERSEDED)
    assert bench.only(ValidateRequest).action_id == "a-1"


def test_a_reconcile_that_succeeds_though_an_action_came_just_ends(bench: Bench) -> None:
    bench.reconcile()
    bench.updated("r-1")
    bench.act("a-1")
    bench.judged(Verdict.SYNCHRONIZED, "r-1")

    assert bench.phases() == [("r-1", "done"), ("a-1", "validating")]


def test_a_dry_run_does_not_end_a_reconcile(bench: Bench) -> None:
    bench.reconcile()
    bench.act("dry", dry_run=True)

    assert bench.heard(ActualReport) == []


def test_a_second_reconcile_waits_for_the_first_though_the_action_beside_it_has_ended(bench: Bench) -> None:
    bench.waits(wait_s=1.0)
    bench.reconcile("r-1")
    bench.after(1.0)
    assert "a-1" in bench.finals

    assert bench.reconcile("r-2", boot_id=BOOT + 1) == []
    bench.updated("r-1")
    bench.judged(Verdict.SYNCHRONIZED, "r-1")
    bench.reconcile("r-2", boot_id=BOOT + 1)
    assert bench.only(UpdateRequest).action_id == "r-2"
