"""What PolicyManager remembers over a crash, and what it does when it cannot write."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from components.component import Instant
from components.policy_manager.journal import Journal
from components.policy_manager.manager import KEEP_S, PRUNE_S
from components.policy_manager.standing import moment
from components.storage import StorageError
from schemas.enums import EventOutcome, Reason
from schemas.message import Message, Wire
from schemas.performance import PerfOutcome
from schemas.scaling import ScalingAction, ScalingControl
from tests.policy_manager.desk import Desk, degraded, final, recovered, state

DAY_MS = 86_400_000


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A PolicyManager that knows the workload `nav`."""
    desk = Desk(tmp_path)
    desk.hear(state())
    return desk


def refused(desk: Desk, message: Message, wire: Wire = Wire.MSGPACK) -> list[Message] | None:
    """What its shell does with a message whose handling keeps failing; what is said in the end."""
    item: Any = desk.arrived(message, wire)
    for _ in range(3):
        with pytest.raises(StorageError) as caught:
            desk.manager.handle(item, desk.instant)
    answer = desk.manager.failed(item, caught.value, desk.instant)
    return None if answer is None else desk.spoken(answer)


def test_an_open_action_is_said_again_after_a_crash(desk: Desk) -> None:
    action = desk.action(degraded("e-1"))
    assert desk.restart() == [action]
    assert desk.hear(degraded("e-1")) == []
    assert desk.wait(3) == [action, action]
    assert desk.outcome(final(action)).outcome is EventOutcome.COMPLETED
    assert desk.restart() == []


def test_an_outcome_decided_before_a_crash_is_the_one_given_after_it(desk: Desk) -> None:
    refused_once = desk.outcome(degraded("e-1", usage=None))
    completed = desk.outcome(final(desk.action(degraded("e-2"))))
    assert desk.restart() == []
    assert desk.outcome(degraded("e-1")) == refused_once
    assert desk.outcome(degraded("e-2")) == completed


def test_a_json_event_is_answered_in_json_over_a_crash(desk: Desk) -> None:
    action = desk.action(degraded("e-1"), Wire.JSON)
    desk.restart()
    assert desk.outcome(final(action)).wire is Wire.JSON


@pytest.mark.parametrize(
    ("expectation", "away_s", "cooling"),
    [
        ("half of it gone", 5, True),
        ("all of it gone", 11, False),
        ("the clock was set back by an hour: it begins again, and no more than that", -3600, True),
    ],
)
def test_the_cooldown_survives_a_crash(desk: Desk, expectation: str, away_s: float, cooling: bool) -> None:
    desk.hear(final(desk.action(degraded("e-1"))))
    desk.restart(away_s)
    desk.hear(state())
    said = desk.hear(degraded("e-2"))
    assert isinstance(said[0], PerfOutcome) == cooling, expectation
    desk.wait(10)
    assert isinstance(desk.hear(degraded("e-3"))[0], ScalingAction) == cooling, expectation


def test_a_moment_known_by_the_wall_clock_is_never_in_the_future() -> None:
    now = Instant(50.0, 1_000_000)
    assert moment(1_000_000 - 20_000, now).monotonic == 30.0
    assert moment(1_000_000 + 20_000, now).monotonic == 50.0


def test_an_event_that_cannot_be_journaled_fails_and_stays_failed(desk: Desk) -> None:
    desk.break_journal()
    (said,) = refused(desk, degraded("e-1"), Wire.JSON) or []
    assert isinstance(said, PerfOutcome)
    assert (said.outcome, said.reason, said.wire) == (EventOutcome.FAILED, Reason.STORAGE_ERROR, Wire.JSON)
    assert "readonly" in (desk.manager.problem or "")
    assert desk.manager.open_actions == 0
    assert desk.outcome(degraded("e-1"), Wire.JSON) == said
    desk.break_journal(broken=False)
    desk.wait(1)
    assert desk.manager.problem is None
    desk.restart()
    assert desk.outcome(degraded("e-1"), Wire.JSON) == said, "it is in the journal now"


def test_an_event_decided_before_the_journal_broke_keeps_its_outcome(desk: Desk) -> None:
    before = desk.outcome(recovered("e-1"))
    action = desk.action(degraded("e-2"))
    desk.break_journal()
    assert desk.outcome(recovered("e-1")) == before
    assert desk.hear(degraded("e-2")) == []
    said = desk.manager.failed(desk.arrived(recovered("e-1")), ValueError(), desk.instant)
    assert desk.spoken(said or []) == [before]
    assert action in desk.wait(2)


def test_an_event_of_which_nobody_can_know_whether_it_was_decided_is_not_answered(desk: Desk) -> None:
    desk.outcome(recovered("e-1"))
    desk.manager._journal.close()
    item = desk.arrived(recovered("e-1"))
    with pytest.raises(StorageError):
        desk.manager.handle(item, desk.instant)
    assert desk.manager.failed(item, StorageError(), desk.instant) == []


def test_a_final_status_that_cannot_be_journaled_is_asked_for_again(desk: Desk) -> None:
    action = desk.action(degraded("e-1"))
    desk.break_journal()
    assert refused(desk, final(action)) == []
    assert action in desk.wait(2)
    desk.break_journal(broken=False)
    assert desk.outcome(final(action)).outcome is EventOutcome.COMPLETED


def test_a_bug_is_answered_as_failed_without_blaming_the_disk(desk: Desk) -> None:
    said = desk.manager.failed(desk.arrived(degraded("e-1")), ZeroDivisionError("oops"), desk.instant)
    assert said is not None
    (outcome,) = desk.spoken(said)
    assert isinstance(outcome, PerfOutcome)
    assert (outcome.outcome, outcome.reason) == (EventOutcome.FAILED, None)
    assert outcome.message == "ZeroDivisionError: oops"


def test_failures_that_wait_for_the_journal_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.policy_manager.manager.WAITING_MAX", 1)
    desk.break_journal()
    assert refused(desk, degraded("e-1"))
    assert refused(desk, degraded("e-2")) is None, "to the dead letters; it comes again"


def test_a_pause_that_cannot_be_journaled_holds_all_the_same(desk: Desk) -> None:
    desk.break_journal()
    assert refused(desk, ScalingControl(paused=True)) == []
    desk.break_journal(broken=False)
    assert desk.outcome(degraded("e-1")).reason is Reason.PAUSED


def test_pauses_that_could_not_be_journaled_are_as_soon_as_they_can(desk: Desk) -> None:
    desk.break_journal()
    for node in ("hpc-1", "hpc-2"):  # the broker keeps the second word only
        assert refused(desk, ScalingControl(paused=True, node=node)) == []
    desk.break_journal(broken=False)
    desk.wait(2)
    desk.restart()
    desk.hear(state())

    assert desk.outcome(degraded("e-1")).reason is Reason.PAUSED


def test_an_event_that_waited_is_decided_when_the_journal_can_be_written(tmp_path: Path) -> None:
    desk = Desk(tmp_path, connect=False)
    desk.manager.connected(desk.instant)
    assert desk.hear(degraded("e-1")) == []
    desk.break_journal()
    assert desk.wait(4) == []
    assert desk.manager.problem is not None
    desk.break_journal(broken=False)
    (said,) = desk.wait(1)
    assert isinstance(said, PerfOutcome)
    assert said.reason is Reason.NO_DATA


def test_a_corrupt_journal_is_set_aside_and_work_goes_on(desk: Desk) -> None:
    desk.action(degraded("e-1"))
    desk.manager.close()
    desk.path.write_bytes(os.urandom(50_000))
    for suffix in ("-wal", "-shm"):
        desk.path.with_name(desk.path.name + suffix).unlink(missing_ok=True)
    assert desk.restart() == []
    desk.hear(state())
    assert desk.action(degraded("e-2")).action_id == "act-e-2"
    assert list(desk.path.parent.glob("*.set-aside-*"))


def test_an_open_action_that_cannot_be_read_does_not_stop_the_start(desk: Desk) -> None:
    desk.action(degraded("e-1"))
    desk.manager.close()
    with sqlite3.connect(desk.path) as connection:
        connection.execute("UPDATE open_action SET body = '{}'")
    connection.close()
    assert desk.restart() == []
    desk.hear(state())
    assert desk.action(degraded("e-1")).action_id == "act-e-1", "decided anew, so that it gets its outcome"


def test_answered_events_are_forgotten_after_a_day_and_open_ones_are_not(desk: Desk) -> None:
    desk.hear(state(workload="radio"))
    desk.outcome(recovered("e-1"))
    action = desk.action(degraded("e-2", workload="radio"))
    desk.epoch_ms += DAY_MS + 1000
    desk.wait(PRUNE_S, step_s=PRUNE_S)
    journal = desk.manager._journal
    assert journal.event("e-1") is None
    assert journal.event("e-2") is not None
    assert desk.outcome(final(action)).outcome is EventOutcome.COMPLETED


def test_a_wild_fleet_does_not_fill_the_disk(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite3", durable=False)
    outcomes = [
        PerfOutcome(event_id=f"e-{n}", node="n", workload_id="w", outcome=EventOutcome.NOT_REQUIRED)
        for n in range(100)
    ]
    journal.answer(outcomes, Instant(0, 1000))
    journal.prune(0, [], keep=10)
    assert [n for n in range(100) if journal.event(f"e-{n}")] == list(range(90, 100))
    journal.close()


def test_workloads_that_are_gone_for_a_day_are_forgotten(desk: Desk) -> None:
    desk.hear(state(workload="radio"))
    for number, workload in enumerate(("nav", "radio")):
        desk.hear(final(desk.action(degraded(f"e-{number}", workload=workload))))
    desk.hear(state(workload="radio"))
    desk.manager.workloads.gone(("hpc-1", "nav"))
    desk.wait(KEEP_S + PRUNE_S, step_s=PRUNE_S)
    assert set(desk.manager._journal.standings(desk.instant)) == {("hpc-1", "radio")}, (
        "its baseline is still known"
    )
