"""A number that no message of ours can follow does not stop anything: it is left aside, or begun anew."""

import pytest

from schemas.enums import Reason, SyncState, UpdateResult
from schemas.limits import Limits
from schemas.message import LARGEST_INTEGER
from schemas.resources import ActualReport, Fence, Reconcile, ResourceState
from tests.resource_manager.bench import NODE, Bench, container

ATTEMPT_MAX = 1_000_000
NAV = container("nav", 3000, 2048)


def stranger_reports(bench: Bench, **values: int) -> None:
    """A report of an action that nobody began."""
    told = {"generation": bench.state().generation, "attempt": 1, **values}
    names = {"id": "x", "action_id": "stranger", "node": NODE, "workload_id": "cam"}
    bench.hear(ActualReport(**names, **told, result=UpdateResult.FAILED))


def test_drift_is_seen_and_mended_after_a_report_with_the_highest_attempt_there_is(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    before = bench.state().generation
    stranger_reports(bench, attempt=ATTEMPT_MAX)

    bench.snapshot(container("cam", 700, 1024), container("nav", 3100, 2048))

    assert bench.state("nav").actual == Limits(cpu_limit=3100, memory_limit=2048)
    sent = bench.only(Reconcile)
    assert (sent.workload_id, sent.attempt) == ("cam", 1)
    assert sent.generation > before
    bench.reconciled(sent)
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_drift_is_mended_above_a_fence_with_the_highest_attempt_there_is(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    before = bench.state().generation

    bench.snapshot(container("cam", 700, 1024, fence=(before, ATTEMPT_MAX)), NAV)

    sent = bench.only(Reconcile)
    assert sent.generation > before
    assert sent.attempt == 1


def test_a_fence_that_no_generation_can_exceed_is_not_learned_from(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    before = bench.state().generation

    bench.snapshot(container("cam", 700, 1024, fence=(LARGEST_INTEGER, 1)), NAV)

    assert bench.only(Reconcile).generation == before
    bench.agent_restarts(container("cam", 2500, 1024), NAV)
    bench.scaled("a-2", cpu_limit=2600)
    assert bench.state().generation == before + 1


def test_a_report_with_such_a_fence_is_answered_and_the_action_ends(bench: Bench) -> None:
    granted = bench.recorded("a-1", cpu_limit=2500)

    fence = Fence(generation=LARGEST_INTEGER, attempt=1)
    verdict = bench.fails("a-1", generation=granted.generation, reason=Reason.SUPERSEDED, fence=fence)

    assert verdict.reason is Reason.SUPERSEDED
    assert bench.state().generation == granted.generation + 1


@pytest.mark.parametrize(("generation", "revision"), [(LARGEST_INTEGER, 1), (1, LARGEST_INTEGER - 1)])
def test_a_state_with_such_numbers_is_not_taken_for_the_word_of_a_lost_ledger(
    bench: Bench, generation: int, revision: int
) -> None:
    forged = ResourceState(
        id="f",
        node=NODE,
        workload_id="cam",
        desired=Limits(cpu_limit=100),
        sync_state=SyncState.SYNCHRONIZED,
        generation=generation,
        revision=revision,
    )
    bench.hear(forged)

    bench.scaled("a-1", cpu_limit=2500)
    assert bench.state().desired == Limits(cpu_limit=2500)
