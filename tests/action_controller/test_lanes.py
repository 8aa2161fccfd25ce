"""Who runs, who waits, and who gives way: one action per workload at a time, the newest waiting one next."""

from typing import Any

import pytest

from schemas.enums import ActionOutcome, OnShortage, Phase, Reason, UpdateResult, Verdict
from schemas.limits import Limits
from schemas.node import UpdateRequest
from schemas.resources import ActualReport, ValidateRequest
from schemas.scaling import ScalingStatus
from tests.action_controller.bench import BOOT, Bench


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


# Waiting for room


def test_an_action_that_may_wait_does_so_when_there_is_no_room_now(bench: Bench) -> None:
    bench.act(on_shortage=OnShortage.WAIT)
    bench.refused(message="needs 3000m more")

    status = bench.only(ScalingStatus)
    assert (status.phase, status.state.value, status.outcome) == (Phase.WAITING, "PENDING", None)
    assert (status.reason, status.message) == (Reason.INSUFFICIENT_CPU, "needs 3000m more")
    assert bench.said == [status]


@pytest.mark.parametrize("reason", [Reason.INFEASIBLE, Reason.UNKNOWN_NODE, Reason.NOT_RUNNING])
def test_it_does_not_wait_for_what_does_not_pass(bench: Bench, reason: Reason) -> None:
    bench.act(on_shortage=OnShortage.WAIT)
    bench.refused(reason=reason)

    assert ended(bench, "a-1") == (ActionOutcome.REJECTED, reason)


def test_memory_is_waited_for_as_well(bench: Bench) -> None:
    bench.act(on_shortage=OnShortage.WAIT)
    bench.refused(reason=Reason.INSUFFICIENT_MEMORY)

    assert bench.phases() == [("a-1", "waiting")]


def test_freed_capacity_wakes_whoever_waits_at_once_the_oldest_first(bench: Bench) -> None:
    bench.capacity(1000)
    bench.waits("a-1", "cam")
    bench.waits("a-2", "nav")

    bench.capacity(3000)

    asked = bench.heard(ValidateRequest)
    assert [(one.action_id, one.attempt, one.reserve) for one in asked] == [("a-1", 2, True), ("a-2", 2, True)]


def test_a_big_one_does_not_block_a_small_one(bench: Bench) -> None:
    bench.waits("big", "cam", cpu=7000)
    bench.waits("small", "nav", cpu=1000)
    bench.capacity(1000)

    bench.refused("big")
    assert bench.phases() == [("big", "waiting")]
    bench.granted("small")
    assert bench.phases() == [("small", "recording")]


@pytest.mark.parametrize(
    ("case", "news"),
    [
        ("less room", {"cpu": 900, "memory": 4096}),
        ("the same room", {"cpu": 1000, "memory": 4096}),
        ("room elsewhere", {"cpu": 7900, "memory": 8000, "node": "hpc-2"}),
    ],
)
def test_no_more_room_wakes_nobody(bench: Bench, case: str, news: dict[str, Any]) -> None:
    bench.capacity(1000)
    bench.waits()

    assert bench.capacity(**news) == [], case


@pytest.mark.parametrize(("cpu", "memory"), [(1001, 4096), (1000, 4097), (1001, 1)])
def test_more_of_either_resource_wakes(bench: Bench, cpu: int, memory: int) -> None:
    bench.capacity(1000)
    bench.waits()
    bench.capacity(cpu, memory)

    assert bench.only(ValidateRequest).attempt == 2


def test_who_does_not_wait_is_not_woken(bench: Bench) -> None:
    bench.up_to(Phase.RECORDING)
    assert bench.capacity(7900) == []


def test_it_looks_for_itself_too_should_the_news_be_lost(bench: Bench) -> None:
    bench.waits()
    bench.after(4.75)
    assert bench.said == []
    bench.after(0.25)
    assert bench.only(ValidateRequest).attempt > 1


def test_at_its_deadline_it_has_expired(bench: Bench) -> None:
    bench.waits(wait_s=12.0)
    for _ in range(2):
        bench.after(5)
        bench.refused(message="needs 3000m more")
    bench.after(1.75)
    assert bench.said == []
    bench.after(0.25)

    status = bench.only(ScalingStatus)
    assert (status.outcome, status.reason) == (ActionOutcome.REJECTED, Reason.EXPIRED)
    assert status.message == "no room came within 12 s: needs 3000m more"
    bench.after(60)
    assert bench.said == []


def test_a_refusal_after_the_deadline_is_the_end(bench: Bench) -> None:
    bench.act(on_shortage=OnShortage.WAIT, wait_s=2.0)
    bench.seconds += 3.0
    bench.refused()

    assert ended(bench, "a-1") == (ActionOutcome.REJECTED, Reason.EXPIRED)


def test_room_that_comes_is_taken(bench: Bench) -> None:
    bench.waits()
    bench.capacity(4000)
    bench.granted()
    bench.recorded()
    bench.updated()
    bench.judged(Verdict.SYNCHRONIZED)

    assert bench.only(ScalingStatus).outcome is ActionOutcome.COMPLETED


def test_a_newer_action_takes_the_place_of_one_that_waits_for_room_at_once(bench: Bench) -> None:
    bench.waits("a-1")
    bench.act("a-2", cpu=2500)

    assert bench.phases() == [("a-2", "accepted"), ("a-1", "done"), ("a-2", "validating")]
    assert ended(bench, "a-1") == SUPERSEDED
    assert bench.capacity(7900) == [], "it waits no more"
    bench.granted("a-2")
    assert bench.phases() == [("a-2", "recording")]


def test_who_came_while_it_was_asked_about_does_not_wait_behind_one_that_waits_for_room(bench: Bench) -> None:
    bench.act("a-1", on_shortage=OnShortage.WAIT, wait_s=3600.0)
    bench.act("a-2", cpu=2500)
    bench.refused("a-1")

    assert ended(bench, "a-1") == SUPERSEDED
    assert bench.only(ValidateRequest).action_id == "a-2"


def test_the_order_of_arrival_is_kept_when_one_waits_for_room(bench: Bench) -> None:
    bench.act("a-1", on_shortage=OnShortage.WAIT)
    bench.act("a-2", cpu=2500)
    bench.refused("a-1")
    bench.act("a-3", cpu=2600)

    bench.granted("a-2")
    bench.recorded("a-2")
    bench.updated("a-2")
    bench.judged(Verdict.SYNCHRONIZED, "a-2")
    assert bench.phases() == [("a-2", "done"), ("a-3", "validating")]


# Reconciles


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
