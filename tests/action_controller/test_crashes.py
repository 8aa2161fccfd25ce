"""The journal is the inbox: whatever was accepted is carried to its one end, whatever happens to the process."""

import contextlib
import sqlite3

import pytest

from components.action_controller.journal import KEEP_FINAL_MS, read_history
from schemas.enums import ActionOutcome, Phase, Reason, Verdict
from schemas.limits import Limits
from schemas.node import UpdateRequest
from schemas.resources import ActualReport, DesiredRequest, Fence, ValidateRequest
from schemas.scaling import ScalingAction, ScalingStatus
from tests.action_controller.bench import NODE, Bench

OPEN_PHASES = [Phase.VALIDATING, Phase.RECORDING, Phase.UPDATING, Phase.CONFIRMING]


@pytest.fixture
def bench(kept: Bench) -> Bench:
    """All of this is about what survives."""
    return kept


@pytest.mark.parametrize("phase", OPEN_PHASES)
def test_after_a_crash_an_action_begins_again_and_comes_to_its_end(bench: Bench, phase: Phase) -> None:
    bench.up_to(phase)
    bench.restart()

    assert bench.heard(ScalingStatus)[0].phase is Phase.VALIDATING
    asked = bench.question(ValidateRequest)
    assert (asked.action_id, asked.attempt, asked.requested_cpu) == ("a-1", 1, 4000)
    bench.granted()
    bench.recorded()
    bench.updated()
    bench.judged(Verdict.SYNCHRONIZED)
    assert bench.finals["a-1"].outcome is ActionOutcome.COMPLETED


def test_a_late_refusal_from_before_a_crash_is_not_believed_since_it_was_granted_later(bench: Bench) -> None:
    """Simulation, seed 111896: it waited again, a newer action took its place, and its limits were in force."""
    bench.waits()
    refused = bench.question(ValidateRequest)
    bench.after(5)
    bench.granted()
    bench.recorded()
    bench.restart()
    bench.asked[ValidateRequest, "a-1"], asked = refused, bench.question(ValidateRequest)
    assert bench.refused() == []
    bench.act("a-2")
    assert "a-1" not in bench.finals

    bench.asked[ValidateRequest, "a-1"] = asked
    bench.granted()
    assert bench.phases() == [("a-1", "recording")]


def test_it_goes_on_at_the_attempt_that_the_agent_had_come_to(bench: Bench) -> None:
    bench.up_to(Phase.CONFIRMING)
    bench.judged(Verdict.RETRY, reason=Reason.RUNTIME_ERROR)
    bench.after(5)
    bench.recorded()
    bench.restart()
    bench.granted()
    bench.recorded()
    bench.not_updated(reason=Reason.SUPERSEDED, fence=Fence(generation=8, attempt=2))
    bench.updated()

    assert bench.only(ActualReport).attempt == 2


def test_a_reconcile_is_not_carried_over_a_crash_since_it_is_repeated(bench: Bench) -> None:
    bench.reconcile()
    assert bench.restart() == []
    bench.reconcile()
    assert bench.only(UpdateRequest).attempt == 3


def test_who_runs_and_who_waits_is_the_same_after_a_crash(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING, "a-1")
    bench.act("a-2")
    bench.act("b-1", workload="nav")
    bench.restart()

    assert [asked.action_id for asked in bench.heard(ValidateRequest)] == ["a-1", "b-1"] * 2
    bench.refused("a-1")
    assert bench.phases() == [("a-1", "done"), ("a-2", "validating")]


def test_a_dry_run_is_carried_over_too(bench: Bench) -> None:
    bench.act(dry_run=True)
    bench.restart()
    assert not bench.question(ValidateRequest).reserve
    bench.granted()
    assert bench.finals["a-1"].dry_run


def test_the_time_an_action_may_wait_for_room_goes_on_over_a_crash(bench: Bench) -> None:
    bench.waits(wait_s=60)
    bench.seconds += 50
    bench.restart()
    bench.refused()
    assert bench.phases() == [("a-1", "waiting")]
    bench.after(5)
    bench.refused()
    bench.after(5)
    assert bench.finals["a-1"].reason is Reason.EXPIRED


def test_a_clock_that_was_set_back_does_not_prolong_the_wait(bench: Bench) -> None:
    bench.waits(wait_s=6)
    bench.seconds -= 1000.0
    bench.restart()
    bench.refused()
    bench.after(5)
    bench.refused()
    bench.after(1)

    assert bench.finals["a-1"].reason is Reason.EXPIRED


def test_an_ending_that_may_not_have_been_heard_is_said_at_the_next_start(bench: Bench) -> None:
    bench.act()
    bench.refused()
    ended = bench.only(ScalingStatus)
    bench.after(4.75)

    assert bench.restart() == [ended]
    bench.after(5)
    assert bench.said == []
    assert bench.restart() == []


def test_a_lost_connection_makes_it_doubtful_again(bench: Bench) -> None:
    bench.act()
    bench.refused()
    ended = bench.only(ScalingStatus)
    bench.after(4)
    bench.controller.connected(bench.now)
    bench.after(4)

    assert bench.restart() == [ended]


def test_an_ending_without_a_connection_stays_doubtful_however_long_it_takes(bench: Bench) -> None:
    bench.up_to(Phase.CONFIRMING)
    bench.controller.disconnected(bench.now)
    bench.judged(Verdict.SYNCHRONIZED)
    bench.after(600)

    assert [final.action_id for final in bench.restart() if isinstance(final, ScalingStatus)] == ["a-1"]
    bench.after(6)
    assert bench.restart() == []


def test_endings_are_known_for_a_day(bench: Bench) -> None:
    bench.act()
    bench.refused()
    ended = bench.only(ScalingStatus)
    bench.after(5)
    bench.seconds += KEEP_FINAL_MS / 1000 - 1000
    bench.after(601)
    assert bench.act() == [ended]

    bench.seconds += 1000
    bench.after(601)
    bench.finals.clear()
    bench.act()
    assert bench.phases() == [("a-1", "accepted"), ("a-1", "validating")]


def test_an_ending_is_never_overwritten(bench: Bench) -> None:
    bench.act()
    bench.refused()
    ended = bench.only(ScalingStatus)
    action = ScalingAction(id="m", action_id="a-1", node=NODE, workload_id="cam", target=Limits(cpu_limit=4000))

    bench.controller._journal.end(action, ended.model_copy(update={"message": "another"}), 1, 2)

    assert bench.act() == [ended]


def test_history_shows_the_latest_endings_first(bench: Bench) -> None:
    for number in range(3):
        bench.act(f"a-{number}", workload=f"w{number}")
        bench.seconds += 1
        bench.refused(f"a-{number}")

    journal = bench.controller._journal
    assert [status.action_id for _, status in journal.history(2)] == ["a-2", "a-1"]
    assert journal.history(1)[0][0] == bench.now.epoch_ms


def test_an_action_is_on_disk_before_anything_is_said_of_it(bench: Bench) -> None:
    bench.act()
    assert bench.path is not None
    with contextlib.closing(sqlite3.connect(bench.path)) as onlooker:
        assert onlooker.execute("SELECT action_id, final FROM actions").fetchall() == [("a-1", None)]
    bench.refused()
    ((_, written),) = read_history(bench.path, 9)
    assert written == bench.only(ScalingStatus).model_copy(update={"id": ""})


def test_a_second_instance_started_by_mistake_does_not_take_an_action_twice(bench: Bench) -> None:
    journal = bench.controller._journal
    action = ScalingAction(id="m", action_id="a-1", node=NODE, workload_id="cam", target=Limits(cpu_limit=4000))
    journal.accept(action, 1)

    bench.act()

    assert bench.phases() == [("a-1", "accepted"), ("a-1", "validating")]
    assert len(journal.open_actions()) == 1


def test_a_record_is_not_asked_twice_at_once(bench: Bench) -> None:
    bench.up_to(Phase.RECORDING)
    bench.restart()
    assert bench.heard(DesiredRequest) == [], "first it is asked whether it is still reserved"
