"""The ledger is durable before anything is said, and survives a kill at any moment."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from components.component import Instant
from components.resource_manager import build
from components.resource_manager.ledger import KEEP_CLOSED_MS, Ledger
from components.resource_manager.manager import ResourceManager
from components.resource_manager.records import Stage
from components.settings import Settings
from schemas.codec import Cleared
from schemas.enums import ConnectionState, Reason, SyncState, Verdict
from schemas.limits import Amount, Limits
from schemas.resources import (
    Fence,
    Reconcile,
    ResourceState,
)
from tests.resource_manager.bench import EPOCH_S, NODE, Bench, container

CAM, NAV = container("cam"), container("nav", 3000, 2048)


@pytest.fixture
def bench(kept: Bench) -> Bench:
    """All of this is about what survives."""
    return kept


Step = Callable[[Bench], None]


def granted(bench: Bench) -> None:
    assert bench.validate(cpu=4000).allowed


def recorded(bench: Bench) -> None:
    assert bench.record(cpu_limit=4000).success


def updated(bench: Bench) -> None:
    generation = bench.state().generation
    done = bench.report(generation=generation, actual=Limits(cpu_limit=4000, memory_limit=1024))
    assert done.verdict is Verdict.SYNCHRONIZED


def failed_once(bench: Bench) -> None:
    assert bench.fails(generation=bench.state().generation).verdict is Verdict.RETRY


def failed(bench: Bench) -> None:
    reply = bench.fails(generation=bench.state().generation, reason=Reason.PARENT_LIMIT, attempt=2)
    assert reply.verdict is Verdict.FAILED


def rolled_back(bench: Bench) -> None:
    bench.after()
    bench.reopen()
    bench.reconciled(bench.heard(Reconcile)[0])


def drifted(bench: Bench) -> None:
    bench.snapshot(container("cam", 700, 1024), NAV)
    assert bench.state().sync_state is SyncState.DRIFT_DETECTED


def reconciled(bench: Bench) -> None:
    bench.reopen()
    (sent,) = {sent.id: sent for sent in bench.heard(Reconcile)}.values()
    assert bench.reconciled(sent).verdict is Verdict.SYNCHRONIZED


def abandoned(bench: Bench) -> None:
    assert bench.abandon().success


def updated_again(bench: Bench) -> None:
    done = bench.report(
        generation=bench.state().generation, actual=Limits(cpu_limit=4000, memory_limit=1024), attempt=2
    )
    assert done.verdict is Verdict.SYNCHRONIZED


REPEATABLE = (granted, recorded, updated, updated_again, failed_once, failed, abandoned)

STORIES: dict[str, tuple[list[Step], Limits | None, SyncState]] = {
    "a success": ([granted, recorded, updated], Limits(cpu_limit=4000), SyncState.SYNCHRONIZED),
    "a retry, then a success": (
        [granted, recorded, failed_once, recorded, updated_again],
        Limits(cpu_limit=4000),
        SyncState.SYNCHRONIZED,
    ),
    "a failure": (
        [granted, recorded, failed_once, failed, rolled_back],
        Limits(cpu_limit=2000),
        SyncState.SYNCHRONIZED,
    ),
    "drift": (
        [granted, recorded, updated, drifted, reconciled],
        Limits(cpu_limit=4000),
        SyncState.SYNCHRONIZED,
    ),
    "a step back before it was recorded": ([granted, abandoned], None, SyncState.UNKNOWN),
    "a step back after it was recorded": (
        [granted, recorded, abandoned, rolled_back],
        Limits(cpu_limit=2000),
        SyncState.SYNCHRONIZED,
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_story_ends_the_same_though_resource_manager_is_killed_before_every_step(
    bench: Bench, story: str
) -> None:
    steps, desired, state = STORIES[story]
    bench.restarts = True
    for step in steps:
        bench.reopen()
        step(bench)
        if step in REPEATABLE:
            step(bench)  # its answer was lost in the crash

    bench.reopen()
    assert bench.state().desired == desired
    assert bench.state().sync_state is state
    assert bench.capacity().allocated.cpu == (desired.cpu_limit or 0 if desired else 2000) + 3000
    assert bench.validate("next", cpu=2100).allowed


def test_what_was_said_is_said_again_after_a_restart(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    before, capacity = bench.state(), bench.capacity()

    bench.reopen()

    assert bench.state().model_copy(update={"revision": before.revision}) == before
    assert bench.capacity() == capacity
    assert bench.heard(ResourceState)


def test_a_reconcile_that_is_out_is_sent_again_after_a_restart(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    drifted(bench)
    sent = bench.only(Reconcile)

    bench.reopen()

    assert sent in bench.heard(Reconcile)
    bench.after(1.0)
    assert bench.heard(Reconcile) == [sent]


def test_what_only_follows_measurements_costs_no_write(bench: Bench) -> None:
    path = bench.path
    assert path is not None
    log = path.with_name(path.name + "-wal")
    before = log.stat().st_size

    for use in range(20):
        bench.snapshot(container("cam", usage=(use, use)), NAV)

    assert log.stat().st_size == before


def test_closed_rows_answer_for_a_day_and_are_forgotten_then(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    bench.validate("a-2", cpu=6900)
    bench.recorded("a-3", "nav", cpu_limit=3100)
    ledger = bench.manager.ledger

    ledger.prune(bench.now.epoch_ms + KEEP_CLOSED_MS - 1)
    assert ledger.row("a-1") is not None
    ledger.prune(bench.now.epoch_ms + KEEP_CLOSED_MS + 1)

    assert ledger.row("a-1") is None
    assert ledger.row("a-2") is None
    row = ledger.row("a-3")
    assert row is not None
    assert row.stage is Stage.RECORDED, "what is open is kept whatever its age"


def test_pruning_happens_by_itself(bench: Bench) -> None:
    bench.validate("a-1", cpu=6900)
    bench.seconds += 24 * 3600
    bench.after(601)

    assert bench.manager.ledger.row("a-1") is None


def test_open_and_held_rows_survive_a_restart_however_old(bench: Bench) -> None:
    bench.recorded("a-1", cpu_limit=4000)
    bench.fails("a-1", generation=bench.state().generation, reason=Reason.PARENT_LIMIT)
    bench.manager.ledger.prune(bench.now.epoch_ms + 2 * KEEP_CLOSED_MS)
    bench.reopen()

    assert bench.capacity().allocated.cpu == 7000
    assert bench.validate("a-1", cpu=4000, attempt=2).verdict is Verdict.FAILED


def test_the_ledger_lies_where_it_is_configured_and_is_written_through(tmp_path: Path) -> None:
    rules = Settings.model_validate({"resource_manager": {"database": str(tmp_path / "rm" / "ledger.sqlite3")}})
    component = build(rules, lambda _item: None)
    assert isinstance(component, ResourceManager)
    assert (tmp_path / "rm" / "ledger.sqlite3").exists()
    assert component.ledger._database.query("PRAGMA synchronous") == [(2,)]
    component.close()


def test_without_a_place_configured_it_lies_in_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    build(Settings(), lambda _item: None).close()

    assert (tmp_path / "piriscale" / "resource_manager.sqlite3").exists()


def test_all_that_matters_is_in_the_file(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    bench.recorded("a-1", cpu_limit=4000)
    bench.snapshot(container("cam", fence=(EPOCH_S + 1, 1)), NAV)
    before = bench.manager.ledger
    bench.manager.close()
    assert bench.path is not None
    after = Ledger(bench.path, 0)

    assert after.nodes == before.nodes
    assert after.workloads.keys() == before.workloads.keys()
    for key, kept in after.workloads.items():
        follows = before.workloads[key].model_copy(update={"stamp": kept.stamp})  # an unchanged actual's stamp
        assert kept == follows
    assert after.generations == before.generations
    assert after.row("a-1") == before.row("a-1")
    assert after.workloads[NODE, "cam"].fence == Fence(generation=EPOCH_S + 1, attempt=1)
    assert after.nodes[NODE].total == Amount(cpu=8000, memory=16_384)
    after.close()
    bench.manager = ResourceManager(Ledger(None, 0), bench.rules, Instant(0.0, 0))


def test_a_release_is_in_the_file_too(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    bench.hear(Cleared(ResourceState, {"node": NODE, "workload_id": "cam"}))
    bench.reopen()

    assert bench.state().desired is None
