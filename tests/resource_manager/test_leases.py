"""No reservation outlives its lease, and what is in force decides how a recorded action ends."""

import pytest

from components.resource_manager.records import Stage
from schemas.enums import ConnectionState, Reason, SyncState, Verdict
from schemas.limits import Limits
from schemas.node import StatusRequest
from schemas.resources import Reconcile, ResourceState
from tests.resource_manager.bench import Bench, container

LEASE_S = 60.0


def lease_ends(bench: Bench) -> StatusRequest:
    """Let the lease of the recorded action end, and return what the agent is asked."""
    bench.after(LEASE_S)
    return bench.only(StatusRequest)


def test_a_reservation_that_was_not_recorded_is_free_when_its_lease_ends(bench: Bench) -> None:
    bench.validate(cpu=4000)
    bench.after(LEASE_S - 0.25)
    assert bench.capacity().available.cpu == 0

    bench.after(0.25)
    assert bench.capacity().available.cpu == 2000
    assert bench.heard(StatusRequest) == []
    assert bench.state().desired is None


def test_a_late_copy_of_an_attempt_that_met_a_reservation_opens_nothing_once_that_has_ended(bench: Bench) -> None:
    """Simulation, seed 109624: its action was told EXPIRED, and late copies had it recorded all the same."""
    bench.validate("a-1", "cam", cpu=4000)
    bench.validate("a-1", "cam", cpu=4000, attempt=45)
    bench.after(LEASE_S)
    assert bench.record("a-1", "cam", cpu_limit=4000, attempt=45).reason is Reason.EXPIRED

    late = bench.validate("a-1", "cam", cpu=4000, attempt=45)

    assert (late.allowed, late.reason) == (False, Reason.EXPIRED)
    assert not bench.record("a-1", "cam", cpu_limit=4000, attempt=45).success
    assert bench.capacity().available.cpu == 2000


def test_the_agent_is_asked_about_a_recorded_action_only_when_its_lease_ends(bench: Bench) -> None:
    bench.recorded(cpu_limit=4000)

    bench.after(LEASE_S - 0.25)
    assert bench.heard(StatusRequest) == []
    bench.after(0.25)
    asked = bench.only(StatusRequest)
    assert (asked.node, asked.workload_id) == ("hpc-1", "cam")


def test_a_target_that_is_in_force_closes_the_action_as_done(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    asked = lease_ends(bench)

    bench.agent_says(asked.id, container("cam", 4000, 1024))

    assert bench.validate(cpu=4000, attempt=2).verdict is Verdict.SYNCHRONIZED
    assert bench.state().sync_state is SyncState.SYNCHRONIZED
    assert bench.state().generation == recorded.generation
    bench.after(30)
    assert bench.heard(StatusRequest) == []


def test_a_target_that_is_not_in_force_is_rolled_back(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    asked = lease_ends(bench)

    bench.agent_says(asked.id, container("cam", 2000, 1024))

    verdict = bench.validate(cpu=4000, attempt=2)
    assert (verdict.verdict, verdict.reason) == (Verdict.FAILED, Reason.VERIFY_FAILED)
    assert bench.state().desired == Limits(cpu_limit=2000)
    assert bench.state().generation == recorded.generation + 1
    assert bench.capacity().allocated.cpu == 7000, "target and rollback stay allocated"
    bench.after()
    assert bench.only(Reconcile).desired == Limits(cpu_limit=2000)


@pytest.mark.parametrize(
    ("case", "containers", "answer", "reason"),
    [
        ("it stopped", [container("cam", running=False)], {}, Reason.NOT_RUNNING),
        ("it is gone", [], {"success": False, "reason": Reason.UNKNOWN_WORKLOAD}, Reason.UNKNOWN_WORKLOAD),
        ("its limits cannot be read", [container("cam", readable=False)], {}, Reason.QUERY_FAILED),
        ("the agent cannot ask", [], {"success": False, "reason": Reason.QUERY_FAILED}, Reason.QUERY_FAILED),
    ],
)
def test_an_answer_that_shows_no_limits_rolls_back_with_its_reason(
    bench: Bench, case: str, containers: list[object], answer: dict[str, object], reason: Reason
) -> None:
    bench.recorded(cpu_limit=4000)
    asked = lease_ends(bench)

    bench.agent_says(asked.id, *containers, **answer)  # type: ignore[arg-type] # a table of arguments

    verdict = bench.validate(cpu=4000, attempt=2)
    assert (verdict.verdict, verdict.reason) == (Verdict.FAILED, reason), case
    assert verdict.message


def test_without_an_answer_it_failed_and_target_and_rollback_are_held(bench: Bench) -> None:
    bench.recorded(cpu_limit=4000)
    lease_ends(bench)

    bench.after(9.75)
    assert bench.state().sync_state is SyncState.APPLYING
    bench.after(0.25)

    assert bench.state().sync_state is SyncState.FAILED
    assert bench.state().reason is Reason.QUERY_FAILED
    assert bench.state().last_failure is not None
    assert bench.capacity().allocated.cpu == 7000
    assert bench.validate(cpu=4000, attempt=2).reason is Reason.QUERY_FAILED
    bench.after(30)
    assert bench.heard(StatusRequest) == []


def test_the_question_is_repeated_while_there_is_time(bench: Bench) -> None:
    bench.recorded(cpu_limit=4000)
    asked = lease_ends(bench)

    bench.after(9.5)

    assert [again.id for again in bench.heard(StatusRequest)] == [asked.id] * 3


def test_a_busy_container_is_asked_again_until_it_has_settled(bench: Bench) -> None:
    bench.recorded(cpu_limit=4000)
    asked = lease_ends(bench)

    bench.agent_says(asked.id, container("cam", 2000, 1024, busy=True))
    assert bench.state().sync_state is SyncState.APPLYING
    bench.after(1.0)
    assert bench.only(StatusRequest).id == asked.id

    bench.agent_says(asked.id, container("cam", 4000, 1024))
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_an_answer_of_an_agent_that_restarted_since_is_not_believed(bench: Bench) -> None:
    bench.recorded(cpu_limit=4000)
    asked = lease_ends(bench)
    bench.agent_restarts(container("cam", 2000, 1024), container("nav", 3000, 2048))

    bench.agent_says(asked.id, container("cam", 4000, 1024), boot_id=99)

    assert bench.state().sync_state is SyncState.APPLYING


def test_an_answer_to_another_question_closes_nothing(bench: Bench) -> None:
    bench.recorded(cpu_limit=4000)

    bench.agent_says("lease:a-1", container("cam", 4000, 1024))  # before it was asked
    assert bench.state().sync_state is SyncState.APPLYING
    lease_ends(bench)
    bench.agent_says("somebody-elses", container("cam", 2000, 1024))
    assert bench.state().sync_state is SyncState.APPLYING


def test_a_report_during_the_question_is_the_verdict(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    asked = lease_ends(bench)

    verdict = bench.report(generation=recorded.generation, actual=Limits(cpu_limit=4000))
    assert verdict.verdict is Verdict.SYNCHRONIZED

    bench.agent_says(asked.id, container("cam", 2000, 1024))  # late
    assert bench.validate(cpu=4000, attempt=2).verdict is Verdict.SYNCHRONIZED
    bench.after(30)
    assert bench.heard(StatusRequest) == []


def test_a_record_begins_the_lease_anew(bench: Bench) -> None:
    bench.validate(cpu=4000)
    bench.after(LEASE_S - 1)
    bench.record(cpu_limit=4000)

    bench.after(LEASE_S - 0.25)
    assert bench.heard(StatusRequest) == []
    bench.after(0.25)
    assert bench.only(StatusRequest).workload_id == "cam"


def test_a_retry_renews_the_lease(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    bench.after(LEASE_S - 1)
    assert bench.fails(generation=recorded.generation).verdict is Verdict.RETRY

    bench.after(LEASE_S - 0.25)
    assert bench.heard(StatusRequest) == []
    bench.after(0.25)
    assert bench.only(StatusRequest).workload_id == "cam"


def test_a_retry_during_the_question_outdates_its_answer(bench: Bench) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    bench.after(LEASE_S)
    asked = bench.only(StatusRequest)
    assert bench.fails(generation=recorded.generation).verdict is Verdict.RETRY

    bench.agent_says(asked.id, container("cam", 2000, 1024))
    assert bench.record(cpu_limit=4000, attempt=2).success
    bench.after(LEASE_S)
    assert bench.only(StatusRequest).workload_id == "cam"
    assert bench.state().sync_state is SyncState.APPLYING


def test_after_a_restart_of_resource_manager_the_lease_runs_anew_from_its_start(kept: Bench) -> None:
    kept.validate("a-1", "cam", cpu=2500)
    kept.recorded("a-2", "nav", cpu_limit=3500)
    kept.after(LEASE_S - 1)
    kept.reopen()

    kept.after(LEASE_S - 0.25)
    assert kept.capacity().allocated.cpu == 6000
    assert [asked for asked in kept.heard(StatusRequest) if asked.workload_id] == []
    kept.after(0.5)
    assert kept.capacity().allocated.cpu == 5500
    assert [asked.workload_id for asked in kept.heard(StatusRequest) if asked.workload_id] == ["nav"]


@pytest.mark.parametrize("reason", [Reason.OVERLOADED, Reason.RUNTIME_ERROR, Reason.RUNTIME_TIMEOUT])
def test_an_agent_that_cannot_say_now_what_is_in_force_is_asked_again(bench: Bench, reason: Reason) -> None:
    recorded = bench.recorded(cpu_limit=4000)
    asked = lease_ends(bench)

    bench.agent_says(asked.id, success=False, reason=reason, message="ask again")
    assert bench.state().generation == recorded.generation, "not rolled back"
    bench.after(1)
    assert bench.only(StatusRequest).id == asked.id
    bench.agent_says(asked.id, container("cam", 4000, 1024))

    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_a_lease_that_ends_while_the_node_is_away_is_held_and_sent_when_it_returns(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    bench.recorded(cpu_limit=4000)
    bench.agent_is(ConnectionState.LOST)
    bench.after(LEASE_S + 11)

    state = bench.state()
    assert (state.sync_state, state.reason) == (SyncState.FAILED, Reason.QUERY_FAILED)
    assert bench.heard(Reconcile) == []
    assert bench.capacity().allocated.cpu == 7000

    bench.agent_is(ConnectionState.READY)
    bench.snapshot(container("cam", 4000, 1024), container("nav", 3000, 2048))  # the target is in force
    sent = bench.only(Reconcile)
    assert sent.desired == Limits(cpu_limit=2000)
    bench.reconciled(sent)
    assert bench.capacity().allocated.cpu == 5000
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_the_longest_action_id_has_a_lease_too(bench: Bench) -> None:
    longest = "a" * 256
    bench.recorded(longest, cpu_limit=4000)
    asked = lease_ends(bench)

    bench.agent_says(asked.id, container("cam", 4000, 1024))

    row = bench.manager.ledger.row(longest)
    assert row is not None
    assert (row.stage, row.verdict) == (Stage.CLOSED, Verdict.SYNCHRONIZED)


def test_a_lease_that_ends_says_so_in_the_state_with_what_is_in_force(bench: Bench) -> None:
    bench.recorded(cpu_limit=4000)
    asked = lease_ends(bench)
    bench.agent_says(asked.id, container("cam", 2000, 1024))

    state = bench.heard(ResourceState)[-1]
    assert state.message == "its lease ended: cpu_limit 4000 desired, 2000 in force"
