"""A ledger in place of a lost one takes over what others remember, and is careful at first."""

import shutil
from pathlib import Path

import pytest

from schemas.enums import Reason, SyncState
from schemas.limits import Limits
from schemas.resources import (
    DesiredReply,
    Reconcile,
    ResourceState,
)
from tests.resource_manager.bench import EPOCH_S, NODE, Bench, container, settings

CAM, NAV = container("cam"), container("nav", 3000, 2048)


@pytest.fixture
def bench(kept: Bench) -> Bench:
    """All of this is about what survives."""
    return kept


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


def test_where_nothing_is_kept_for_the_system_the_whole_node_is_a_limit_like_any_other(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ledger.sqlite3", settings(reserved={"cpu": "0", "memory": "0"}))
    bench.info()
    bench.snapshot(CAM)
    bench.scaled("a-1", cpu_limit=8000)
    lose_the_ledger(bench)
    bench.reopen()

    bench.snapshot(container("cam", 8000, 1024))

    assert bench.capacity().allocated.cpu == 8000
    bench.manager.close()


def test_a_fence_that_was_seen_once_counts_for_ever(bench: Bench) -> None:
    ahead = EPOCH_S + 5000
    bench.snapshot(container("cam", fence=(ahead, 1)), NAV)
    bench.agent_restarts(CAM, NAV)
    bench.reopen()
    bench.after(61)

    assert bench.recorded("a-1", cpu_limit=2500).generation == ahead + 1


def test_a_report_tells_of_a_generation_that_an_old_copy_of_the_ledger_does_not_know(bench: Bench) -> None:
    bench.report("of-the-lost-ledger", generation=EPOCH_S + 700, actual=Limits(cpu_limit=2000))
    bench.after(61)

    assert bench.recorded("a-1", cpu_limit=2500).generation == EPOCH_S + 701


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
    fence = (lost, 1) if witness == "a fence" else None
    bench.snapshot(container("cam", 2500, 1024, fence=fence), NAV)

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


def scaled_after_a_copy(bench: Bench, copy: Path) -> DesiredReply:
    """Copy the ledger, and scale once more, which the copy does not know."""
    bench.scaled("a-1", cpu_limit=2500)
    bench.manager.close()
    assert bench.path is not None
    shutil.copy(bench.path, copy)
    bench.reopen()
    return bench.scaled("a-2", cpu_limit=2600)


def put_back(bench: Bench, copy: Path) -> None:
    """Put an old copy in the place of the ledger; the broker forgot everything too."""
    bench.manager.close()
    assert bench.path is not None
    shutil.copy(copy, bench.path)
    bench.path.with_name(bench.path.name + "-wal").unlink(missing_ok=True)
    bench.seconds += 30.0
    bench.retained.clear()
    bench.reopen()


def test_a_copy_from_before_does_not_use_generations_again_that_nobody_else_remembers(
    bench: Bench, tmp_path: Path
) -> None:
    newer = scaled_after_a_copy(bench, tmp_path / "copy")
    put_back(bench, tmp_path / "copy")
    bench.info()
    bench.snapshot(CAM, NAV)

    assert bench.recorded("a-3", cpu_limit=2700).generation > newer.generation


def test_a_copy_from_before_takes_over_what_retained_state_remembers_beyond_it(
    bench: Bench, tmp_path: Path
) -> None:
    newer = scaled_after_a_copy(bench, tmp_path / "copy")
    bench.manager.close()
    assert bench.path is not None
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


def test_what_an_old_copy_calls_synchronized_is_not_gone_back_to(bench: Bench, tmp_path: Path) -> None:
    """Its room may be another's by now."""
    bench.scaled("a-1", cpu_limit=4000)
    bench.manager.close()
    assert bench.path is not None
    shutil.copy(bench.path, tmp_path / "copy")
    bench.reopen()
    bench.scaled("a-2", cpu_limit=1000)
    remembered = bench.state()
    put_back(bench, tmp_path / "copy")
    bench.info()
    bench.hear(remembered)
    bench.snapshot(container("cam", 1000, 1024), NAV)
    bench.after(61)
    bench.recorded("a-3", cpu_limit=1500)

    bench.abandon("a-3")

    assert bench.state().desired == Limits(cpu_limit=1000)


def test_while_agents_of_a_lost_ledger_have_not_spoken_their_nodes_are_not_called_unknown(bench: Bench) -> None:
    """An action under way would end with that, for good."""
    bench.scaled("a-1", cpu_limit=2500)
    remembered = bench.state()
    lost = Bench()

    assert lost.validate("a-2", "nav", cpu=3100, node="hpc-2").reason is Reason.UNKNOWN_NODE
    lost.hear(remembered)
    assert lost.validate("a-3", "nav", cpu=3100, node="hpc-2").reason is Reason.OVERLOADED
