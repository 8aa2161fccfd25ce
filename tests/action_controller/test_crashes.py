"""The journal is the inbox: whatever was accepted is carried to its one end, whatever happens to the process."""

import contextlib
import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.action_controller import build
from components.action_controller.controller import OPEN_ACTIONS_MAX, ActionController
from components.action_controller.journal import KEEP_FINAL_MS, Journal, read_history
from components.component import Component
from components.settings import Settings
from components.storage import StorageError
from schemas.codec import Cleared, pack
from schemas.enums import ActionOutcome, OnShortage, Phase, Reason, TaskState, Verdict
from schemas.limits import Limits
from schemas.message import Wire
from schemas.node import UpdateRequest
from schemas.resources import ActualReport, DesiredRequest, Fence, NodeCapacity, ValidateRequest
from schemas.scaling import ScalingAction, ScalingStatus
from schemas.topics import TOPICS, Role
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


def test_an_answer_to_the_life_before_is_as_good(bench: Bench) -> None:
    bench.act()
    bench.restart()
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


def test_history_shows_the_latest_endings_first(bench: Bench) -> None:
    for number in range(3):
        bench.act(f"a-{number}", workload=f"w{number}")
        bench.seconds += 1
        bench.refused(f"a-{number}")

    journal = bench.controller._journal
    assert [status.action_id for _, status in journal.history(2)] == ["a-2", "a-1"]
    assert journal.history(1)[0][0] == bench.now.epoch_ms


# A disk that cannot be written


@contextlib.contextmanager
def full_disk(bench: Bench) -> Iterator[None]:
    """No file of this process may grow any more, as on a full disk."""
    assert bench.path is not None
    size = bench.path.with_name(bench.path.name + "-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def offer(bench: Bench, action_id: str = "a-1") -> ScalingStatus:
    """Let an action arrive that cannot be written down, as the shell would, and return the answer."""
    action = ScalingAction(
        id="m", action_id=action_id, node=NODE, workload_id="cam", target=Limits(cpu_limit=4000), wire=Wire.JSON
    )
    with pytest.raises(StorageError) as caught:
        bench.controller.handle(action, bench.now)
    answered = bench.controller.failed(action, caught.value, bench.now)
    assert answered is not None
    (status,) = bench._carried(answered)
    assert isinstance(status, ScalingStatus)
    return status


def test_an_action_that_cannot_be_written_down_is_refused_and_not_begun(bench: Bench) -> None:
    with full_disk(bench):
        status = offer(bench)
        assert (status.state, status.outcome, status.reason) == (
            TaskState.FAILED,
            ActionOutcome.REJECTED,
            Reason.STORAGE_ERROR,
        )
        assert status.wire is Wire.JSON
        assert "free space" in status.message
        assert bench.controller.healthy is not None
        assert list(bench.controller.tasks) == []

    bench.act()
    assert [one.reason for one in bench.heard(ScalingStatus)] == [Reason.STORAGE_ERROR], "its end was told"
    bench.act("a-2")
    assert bench.phases() == [("a-2", "accepted"), ("a-2", "validating")]
    assert bench.controller.healthy is None


def test_a_disk_that_can_be_written_again_is_noticed_without_an_action(bench: Bench) -> None:
    with full_disk(bench):
        offer(bench)
        bench.after(10)
        assert bench.controller.healthy is not None
        bench.capacity(100)
        assert bench.controller.healthy is not None, "a message that needs no write proves nothing"
    bench.after(1.25)
    assert bench.controller.healthy is None


ENDINGS: dict[str, Callable[[Bench], object]] = {
    "a refusal": lambda bench: bench.refused(),
    "a verdict": lambda bench: bench.refused(verdict=Verdict.SYNCHRONIZED, reason=None),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_ending_is_said_only_when_it_is_written_down(bench: Bench, ending: str) -> None:
    bench.act()
    bench.act("a-2")
    with full_disk(bench):
        ENDINGS[ending](bench)
        assert bench.said == []
        assert bench.controller.healthy is not None
        bench.after(30)
        assert bench.said == [], "and nothing is asked any more"
    bench.after(1)

    assert bench.phases() == [("a-1", "done"), ("a-2", "validating")]
    assert bench.controller.healthy is None


def test_the_end_of_a_wait_that_cannot_be_written_is_written_later(bench: Bench) -> None:
    bench.waits(wait_s=4)
    with full_disk(bench):
        bench.after(10)
        assert bench.said == []
        assert bench.capacity(7000) == [], "it is over"
    bench.after(1)
    assert bench.finals["a-1"].reason is Reason.EXPIRED


def test_one_that_was_superseded_while_nothing_can_be_written_ends_later(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING, "a-1")
    bench.act("a-2")
    bench.act("a-3", workload="nav")
    size = None
    with full_disk(bench):
        with pytest.raises(StorageError):
            bench.act("a-4")
        bench.updated("a-1")
        assert bench.phases() == [("a-1", "confirming")], "what needs no write goes on"
        size = len(list(bench.controller.tasks))
    assert size == 3
    bench.judged(Verdict.SYNCHRONIZED, "a-1")
    assert bench.phases() == [("a-1", "done"), ("a-2", "validating")]


def test_a_reconcile_whose_end_cannot_be_written_does_not_give_way_twice(bench: Bench) -> None:
    bench.reconcile()
    bench.updated("r-1")
    with full_disk(bench):
        assert bench.judged(Verdict.SYNCHRONIZED, "r-1") == []
    bench.act("a-1")
    assert bench.heard(ActualReport) == []
    bench.after(1)
    assert bench.phases() == [("r-1", "done"), ("a-1", "validating")]


def test_an_empty_action_whose_refusal_cannot_be_written_ends_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up between acceptance and refusal."""
    good = Journal.end

    def full(*_args: Any) -> None:
        raise StorageError("full")

    monkeypatch.setattr(Journal, "end", full)
    bench.act(target=Limits())
    assert bench.phases() == [("a-1", "accepted")]
    monkeypatch.setattr(Journal, "end", good)
    bench.after(1)
    assert bench.finals["a-1"].reason is Reason.INVALID_TARGET


def test_what_cannot_be_written_at_a_start_does_not_prevent_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.up_to(Phase.RECORDING)
    good = Journal.end

    def full(*_args: Any) -> None:
        raise StorageError("full")

    monkeypatch.setattr(Journal, "end", full)
    bench.restart()
    bench.refused()
    monkeypatch.setattr(Journal, "end", good)
    bench.after(1)
    assert bench.finals["a-1"].outcome is ActionOutcome.REJECTED


def test_no_trouble_of_the_disk_is_nobodys_answer(bench: Bench) -> None:
    action = ScalingAction(id="m", action_id="x", node=NODE, workload_id="cam", target=Limits(cpu_limit=1))
    assert bench.controller.failed(action, ZeroDivisionError(), bench.now) is None


# Bounds and bad values


def test_ten_thousand_actions_may_be_open_and_the_next_is_refused_for_good() -> None:
    bench = Bench(retries=0)
    for number in range(OPEN_ACTIONS_MAX):
        action = ScalingAction(
            id="m",
            action_id=f"a-{number}",
            node=NODE,
            workload_id=f"w-{number}",
            target=Limits(cpu_limit=4000),
            on_shortage=OnShortage.WAIT,
        )
        bench.controller.handle(action, bench.now)
    assert OPEN_ACTIONS_MAX == 10_000

    bench.act("late")
    (status,) = bench.heard(ScalingStatus)
    assert bench.said == [status]
    assert (status.outcome, status.reason) == (ActionOutcome.REJECTED, Reason.OVERLOADED)
    assert bench.reconcile() == [], "ResourceManager repeats it"

    bench.asked[ValidateRequest, "a-0"] = ValidateRequest(
        id="a-0:validate:1", node=NODE, workload_id="w-0", action_id="a-0"
    )
    bench.refused("a-0", reason=Reason.INFEASIBLE)
    assert bench.act("late") == [status], "a copy of it gets the same end, though there would be room"
    bench.act("later")
    assert bench.phases() == [("later", "accepted"), ("later", "validating")]


def test_the_memory_for_refusals_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.action_controller.controller.REFUSED_MAX", 3)
    with full_disk(bench):
        for number in range(5):
            offer(bench, f"a-{number}")
    assert list(bench.controller._refused) == ["a-2", "a-3", "a-4"]


@pytest.mark.parametrize("wire", [Wire.JSON, Wire.MSGPACK])
@pytest.mark.parametrize(
    ("case", "body", "reason"),
    [
        ("a limit that is no number", {"target": {"cpu_limit": "much"}}, Reason.INVALID_TARGET),
        ("a limit of nothing", {"target": {"memory_limit": 0}}, Reason.INVALID_TARGET),
        ("a limit nobody can set", {"target": {"hugepages": 2}}, Reason.UNSUPPORTED),
        ("no target", {}, Reason.INVALID_TARGET),
        ("a wait without end", {"target": {"cpu_limit": 1}, "wait_s": 1e9}, Reason.INVALID_TARGET),
    ],
)
def test_an_action_with_a_bad_value_is_refused_in_words(
    bench: Bench, case: str, body: dict[str, Any], reason: Reason, wire: Wire
) -> None:
    sound = {"action_id": "a-1", "node": NODE, "workload_id": "cam"}
    bench.hear_bytes("scaling/action", pack({**sound, **body}, wire))

    status = bench.only(ScalingStatus)
    assert bench.said == [status], case
    assert (status.outcome, status.reason, status.wire) == (ActionOutcome.REJECTED, reason, wire)
    assert (status.action_id, status.node, status.workload_id) == ("a-1", NODE, "cam")
    assert status.message


def test_a_bad_copy_of_an_action_changes_nothing_of_the_good_one(bench: Bench) -> None:
    bad = {"action_id": "a-1", "node": NODE, "workload_id": "cam", "target": {"cpu_limit": "much"}}
    bench.act()
    assert bench.hear_json("scaling/action", **bad) == []
    bench.refused()
    ended = bench.only(ScalingStatus)
    assert bench.hear_json("scaling/action", **bad) == [ended]


def test_the_longest_id_goes_all_the_way(bench: Bench) -> None:
    longest, twin = "a" * 256, "a" * 255 + "b"
    bench.act(twin, workload="nav")
    bench.up_to(Phase.CONFIRMING, longest)
    assert bench.question(ValidateRequest, twin).id != bench.question(ValidateRequest, longest).id
    bench.judged(Verdict.SYNCHRONIZED, longest)
    assert bench.finals[longest].outcome is ActionOutcome.COMPLETED
    bench.restart()
    bench.reconcile("r" * 256)
    bench.updated("r" * 256)
    bench.judged(Verdict.SYNCHRONIZED, "r" * 256)
    bench.reconcile("r" * 256)
    assert bench.only(ActualReport).action_id == "r" * 256


def test_it_hears_what_the_registry_says_it_reads(bench: Bench) -> None:
    component: Component = bench.controller
    expected = {topic.filter() for topic in TOPICS if Role.ACTION_CONTROLLER in topic.readers}
    expected.discard("component/+/+")

    assert {one.filter for one in component.subscriptions()} == expected
    assert (component.role, component.instance, component.persistent) == (Role.ACTION_CONTROLLER, "main", True)
    assert component.healthy is None


def test_a_deleted_capacity_is_no_news(bench: Bench) -> None:
    bench.waits()
    assert bench.hear(Cleared(NodeCapacity, {"node": NODE})) == []


def test_the_journal_lies_where_it_is_configured_and_is_written_through(tmp_path: Path) -> None:
    path = tmp_path / "ac" / "journal.sqlite3"
    component = build(Settings.model_validate({"action_controller": {"database": str(path)}}), lambda _item: None)
    assert isinstance(component, ActionController)
    assert path.exists()
    assert component._journal._database.query("PRAGMA synchronous") == [(2,)]
    component.close()


def test_without_a_place_configured_it_lies_in_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    build(Settings(), lambda _item: None).close()

    assert (tmp_path / "piriscale" / "action_controller.sqlite3").exists()


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
