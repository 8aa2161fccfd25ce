"""On a disk that cannot be written nothing is accepted, and no ending is said before it is written down."""

import contextlib
import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from components.action_controller.journal import Journal
from components.storage import StorageError
from schemas.enums import ActionOutcome, Phase, Reason, TaskState, Verdict
from schemas.limits import Limits
from schemas.message import Wire
from schemas.resources import ActualReport
from schemas.scaling import ScalingAction, ScalingStatus
from tests.action_controller.bench import NODE, Bench

OPEN_PHASES = [Phase.VALIDATING, Phase.RECORDING, Phase.UPDATING, Phase.CONFIRMING]


@pytest.fixture
def bench(kept: Bench) -> Bench:
    """All of this is about what survives."""
    return kept


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
        assert bench.controller.problem is not None
        assert list(bench.controller.tasks) == []

    bench.act()
    assert [one.reason for one in bench.heard(ScalingStatus)] == [Reason.STORAGE_ERROR], "its end was told"
    bench.act("a-2")
    assert bench.phases() == [("a-2", "accepted"), ("a-2", "validating")]
    assert bench.controller.problem is None


def test_a_disk_that_can_be_written_again_is_noticed_without_an_action(bench: Bench) -> None:
    with full_disk(bench):
        offer(bench)
        bench.after(10)
        assert bench.controller.problem is not None
        bench.capacity(100)
        assert bench.controller.problem is not None, "a message that needs no write proves nothing"
    bench.after(1.25)
    assert bench.controller.problem is None


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
        assert bench.controller.problem is not None
        bench.after(30)
        assert bench.said == [], "and nothing is asked any more"
    bench.after(1)

    assert bench.phases() == [("a-1", "done"), ("a-2", "validating")]
    assert bench.controller.problem is None


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


def test_the_memory_for_refusals_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.action_controller.controller.REFUSED_MAX", 3)
    with full_disk(bench):
        for number in range(5):
            offer(bench, f"a-{number}")
    assert list(bench.controller._refused) == ["a-2", "a-3", "a-4"]
