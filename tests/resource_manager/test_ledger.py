"""The ledger is durable before anything is said, and an accident to it costs no more than it must."""

import contextlib
import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.component import Instant
from components.resource_manager import build
from components.resource_manager.ledger import KEEP_CLOSED_MS, Ledger
from components.resource_manager.manager import ResourceManager
from components.resource_manager.records import Stage
from components.settings import Settings
from components.storage import StorageError
from schemas.codec import Cleared
from schemas.enums import ConnectionState, DesiredOperation, Reason, SyncState, UpdateResult, Verdict
from schemas.limits import Amount, Limits
from schemas.resources import (
    ActualReport,
    DesiredReply,
    DesiredRequest,
    Fence,
    Reconcile,
    ResourceState,
    ValidateReply,
    ValidateRequest,
)
from tests.resource_manager.bench import EPOCH_S, NODE, Bench, container

CAM, NAV = container("cam"), container("nav", 3000, 2048)


@pytest.fixture
def bench(kept: Bench) -> Bench:
    """All of this is about what survives."""
    return kept


Step = Callable[[Bench], None]


# Whole stories, with ResourceManager killed before every step


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


# Generations and lost ledgers


def test_generations_grow_with_every_desired_state_and_over_restarts(bench: Bench) -> None:
    seen = [bench.scaled("a-1", cpu_limit=2500).generation]
    bench.reopen()
    bench.recorded("a-2", cpu_limit=2600)
    seen.append(bench.state().generation)
    bench.fails("a-2", generation=seen[-1], reason=Reason.PARENT_LIMIT)
    seen.append(bench.state().generation)
    bench.reopen()
    seen.append(bench.recorded("a-3", cpu_limit=2700).generation)

    assert seen == [EPOCH_S + 1, EPOCH_S + 2, EPOCH_S + 3, EPOCH_S + 4]


def lose_the_ledger(bench: Bench, *, later_s: float = 1000.0) -> None:
    """Delete the file, as a new disk would; the broker still has what was retained."""
    bench.manager.close()
    assert bench.path is not None
    for suffix in ("", "-wal", "-shm"):
        bench.path.with_name(bench.path.name + suffix).unlink(missing_ok=True)
    bench.seconds += later_s


def test_a_new_ledgers_generations_are_above_the_lost_ones(bench: Bench) -> None:
    lost = bench.scaled("a-1", cpu_limit=2500).generation
    lose_the_ledger(bench)
    bench.retained = {topic: said for topic, said in bench.retained.items() if not topic.startswith("resources/")}
    bench.reopen()

    assert bench.recorded("a-2", cpu_limit=2600).generation == EPOCH_S + 1001 > lost


def test_retained_state_gives_the_desired_limits_back(bench: Bench) -> None:
    lost = bench.scaled("a-1", cpu_limit=2500)
    lose_the_ledger(bench)

    bench.reopen()

    state = bench.state()
    assert (state.desired, state.generation) == (Limits(cpu_limit=2500), lost.generation)
    assert bench.capacity().allocated.cpu == 5500
    (sent,) = bench.heard(Reconcile)
    assert (sent.desired, sent.generation) == (Limits(cpu_limit=2500), lost.generation)
    bench.reconciled(sent)
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


@pytest.mark.parametrize("first", ["the size of the node", "the retained state"])
def test_a_rollback_to_unlimited_still_counts_by_use_after_the_ledger_was_lost(bench: Bench, first: str) -> None:
    bench.snapshot(container("cam", None, 1024, usage=(700, 300)), NAV)
    bench.recorded("a-1", cpu_limit=4000)
    bench.fails("a-1", generation=bench.state().generation, reason=Reason.PARENT_LIMIT)
    bench.after()
    bench.reconciled(bench.only(Reconcile))
    unlimited = container("cam", 8000, 1024, usage=(700, 300))
    bench.snapshot(unlimited, NAV)
    assert bench.capacity().allocated.cpu == 3700
    lose_the_ledger(bench)
    if first == "the retained state":
        bench.retained = dict(reversed(bench.retained.items()))
    bench.reopen()

    bench.snapshot(unlimited, NAV)

    assert bench.state().desired == Limits(cpu_limit=8000)
    assert bench.capacity().allocated.cpu == 3700


def test_revisions_go_on_after_the_ledger_was_lost(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    revision = bench.state().revision
    lose_the_ledger(bench)
    bench.reopen()

    assert bench.state().revision > revision


def test_an_agents_fence_keeps_generations_growing_though_the_clock_stands_at_its_beginning(bench: Bench) -> None:
    lost = bench.scaled("a-1", cpu_limit=2500).generation
    lose_the_ledger(bench)
    bench.retained.clear()
    bench.epoch_s = 0
    bench.reopen()
    bench.info()
    bench.snapshot(container("cam", 2500, 1024, fence=(lost, 1)), NAV)
    bench.after(61)

    assert bench.recorded("a-2", cpu_limit=2600).generation == lost + 1


@pytest.mark.parametrize("witness", ["retained state", "a fence", "a file set aside"])
def test_a_ledger_in_place_of_a_lost_one_grants_nothing_until_a_lease_has_passed(
    bench: Bench, witness: str
) -> None:
    lost = bench.scaled("a-1", cpu_limit=2500).generation
    if witness == "a file set aside":
        bench.manager.close()
        assert bench.path is not None
        bench.path.with_name(bench.path.name + "-wal").unlink(missing_ok=True)
        bench.path.write_bytes(b"this is no database, but long enough to be looked at by SQLite" * 99)
        bench.retained.clear()
    else:
        lose_the_ledger(bench)
    if witness == "a fence":
        bench.retained.clear()
    bench.epoch_s -= 2000  # the clock was set back
    bench.reopen()
    bench.info()
    bench.snapshot(container("cam", 2500, 1024, fence=(lost, 1)), NAV)

    reply = bench.validate("a-2", cpu=2600)
    assert (reply.allowed, reply.reason) == (False, Reason.OVERLOADED)
    bench.after(59.75)
    assert bench.validate("a-2", cpu=2600, attempt=2).reason is Reason.OVERLOADED
    bench.after(0.5)
    if bench.heard(Reconcile):
        bench.reconciled(bench.heard(Reconcile)[0])
    assert bench.validate("a-2", cpu=2600, attempt=3).allowed


def test_a_ledger_in_place_of_a_lost_one_grants_nothing_on_a_node_not_heard_yet(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    lose_the_ledger(bench)
    bench.retained = {topic: said for topic, said in bench.retained.items() if topic != f"node/{NODE}/actual"}
    bench.reopen()
    bench.after(61)

    assert bench.validate("a-2", cpu=2600).reason is Reason.NODE_UNAVAILABLE


def test_once_a_lease_has_passed_a_restart_does_not_hold_up_grants_again(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    lose_the_ledger(bench)
    bench.reopen()
    bench.after(61)
    bench.reconciled(bench.heard(Reconcile)[0])
    assert bench.validate("a-2", cpu=2600).allowed

    bench.reopen()

    assert bench.validate("a-3", "nav", cpu=3100).allowed


def test_a_fresh_ledger_beside_nothing_lost_grants_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ledger.sqlite3")
    bench.info()
    bench.snapshot(CAM)

    assert bench.manager.ledger.fresh
    assert bench.validate(cpu=2500).allowed
    bench.manager.close()


def test_a_copy_from_before_takes_over_what_retained_state_remembers_beyond_it(
    bench: Bench, tmp_path: Path
) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    bench.manager.close()
    assert bench.path is not None
    shutil.copy(bench.path, tmp_path / "copy")
    bench.reopen()
    newer = bench.scaled("a-2", cpu_limit=2600)
    bench.manager.close()
    shutil.copy(tmp_path / "copy", bench.path)
    bench.path.with_name(bench.path.name + "-wal").unlink(missing_ok=True)
    retained = dict(bench.retained)
    bench.manager = bench._open()
    bench.retained = retained
    for message in retained.values():
        if isinstance(message, ResourceState) or "node" in str(message.source):
            bench.hear(message)

    assert bench.state().generation == newer.generation
    assert bench.state().desired == Limits(cpu_limit=2600)


# Closed rows


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


VALIDATE = ValidateRequest(
    id="q-1", node=NODE, workload_id="cam", action_id="a-1", requested_cpu=2500, reserve=True
)
RECORD = DesiredRequest(
    id="q-2",
    action_id="a-1",
    node=NODE,
    workload_id="cam",
    operation=DesiredOperation.RECORD,
    target=Limits(cpu_limit=2500),
)


def tried(bench: Bench, item: object) -> StorageError:
    with pytest.raises(StorageError) as caught:
        bench.manager.handle(item, bench.now)
    return caught.value


def test_a_disk_that_cannot_be_written_grants_nothing_and_says_so(bench: Bench) -> None:
    with full_disk(bench):
        error = tried(bench, VALIDATE)
        answered = bench.manager.failed(VALIDATE, error, bench.now)
        assert answered is not None
        (reply,) = answered
        assert isinstance(reply, ValidateReply)
        assert (reply.in_reply_to, reply.allowed, reply.reason) == ("q-1", False, Reason.STORAGE_ERROR)
        assert "free space" in reply.message
        assert bench.manager.healthy == str(error)

    assert bench.capacity().allocated.cpu == 5000
    assert bench.manager.ledger.row("a-1") is None
    assert bench.validate("a-1", cpu=2500).allowed
    assert bench.manager.healthy is None


def test_a_target_that_cannot_be_written_is_not_recorded_but_still_reserved(bench: Bench) -> None:
    bench.validate(cpu=2500)
    with full_disk(bench):
        answered = bench.manager.failed(RECORD, tried(bench, RECORD), bench.now)
    assert answered is not None
    (reply,) = answered
    assert isinstance(reply, DesiredReply)
    assert (reply.in_reply_to, reply.success, reply.reason) == ("q-2", False, Reason.STORAGE_ERROR)
    assert bench.state().desired is None

    assert bench.record(cpu_limit=2500, attempt=2).success


@pytest.mark.parametrize("request_kind", ["report", "abandon"])
def test_what_cannot_be_answered_truly_is_not_answered_since_it_is_repeated(
    bench: Bench, request_kind: str
) -> None:
    bench.recorded(cpu_limit=2500)
    report = ActualReport(
        id="q-3",
        action_id="a-1",
        node=NODE,
        workload_id="cam",
        generation=bench.state().generation,
        result=UpdateResult.SUCCESS,
        actual=Limits(cpu_limit=2500),
        boot_id=100,
        seq=9,
    )
    abandon = RECORD.model_copy(update={"operation": DesiredOperation.ABANDON})
    item = report if request_kind == "report" else abandon
    with full_disk(bench):
        assert bench.manager.failed(item, tried(bench, item), bench.now) == []
    assert bench.state().sync_state is SyncState.APPLYING
    bench.hear(item)
    assert bench.state().sync_state is not SyncState.APPLYING


def test_what_is_no_trouble_of_the_disk_is_nobodys_answer(bench: Bench) -> None:
    assert bench.manager.failed(VALIDATE, ZeroDivisionError(), bench.now) is None


def test_a_reconcile_that_could_not_be_written_down_is_not_sent(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    with full_disk(bench):
        with pytest.raises(StorageError):
            bench.snapshot(container("cam", 700, 1024), NAV)
        bench.after(5)
        assert bench.heard(Reconcile) == []

    bench.snapshot(container("cam", 700, 1024), NAV)
    assert bench.only(Reconcile).desired == Limits(cpu_limit=2500)


def test_a_snapshot_that_could_not_be_written_down_does_not_count(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    with full_disk(bench):
        for _ in range(4):  # as the shell tries again
            with pytest.raises(StorageError):
                bench.snapshot(container("nav", 2900, 2048), seq=70)
    bench.snapshot(container("nav", 2900, 2048), seq=70)

    assert bench.validate("a-2", cpu=2600).allowed, "one snapshot without it is not two"


def test_leases_that_end_while_nothing_can_be_written_end_afterwards(bench: Bench) -> None:
    bench.validate(cpu=4000)
    with full_disk(bench):
        bench.after(61)
        assert bench.manager.healthy is not None
        assert bench.capacity().allocated.cpu == 7000
    bench.after()
    assert bench.capacity().allocated.cpu == 5000
    assert bench.manager.healthy is None


def test_a_message_that_needs_no_write_does_not_make_a_full_disk_look_healthy(bench: Bench) -> None:
    with full_disk(bench):
        bench.manager.failed(VALIDATE, tried(bench, VALIDATE), bench.now)
        bench.snapshot(CAM, NAV)
        assert bench.manager.healthy is not None


def test_a_disk_that_can_be_written_again_is_noticed_without_a_request(bench: Bench) -> None:
    with full_disk(bench):
        bench.manager.failed(VALIDATE, tried(bench, VALIDATE), bench.now)
        bench.after(30)
        assert bench.manager.healthy is not None
    bench.after(10)
    assert bench.manager.healthy is None


def test_a_file_that_became_read_only_grants_nothing(bench: Bench) -> None:
    bench.manager.close()
    assert bench.path is not None
    with contextlib.closing(sqlite3.connect(bench.path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    ledger = Ledger(bench.path, EPOCH_S)
    ledger._database._connection.execute("PRAGMA query_only = ON")
    manager = ResourceManager(ledger, bench.rules, bench.now)
    bench.manager = manager
    with pytest.raises(StorageError):
        bench.hear(VALIDATE)


# The file itself


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
