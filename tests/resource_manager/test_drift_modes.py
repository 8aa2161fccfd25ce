"""What is done about drift is configured; what a restart lost is always applied again."""

from typing import Any

import pytest

from schemas.enums import (
    ConnectionState,
    ReconcileCause,
    SnapshotTrigger,
    SyncState,
    Verdict,
)
from schemas.limits import Limits
from schemas.resources import Reconcile
from tests.resource_manager.bench import Bench, container, settings

NAV = container("nav", 3000, 2048)


def drifting(mode: str) -> Bench:
    """As `scaled`, with another treatment of drift."""
    bench = Bench(rules=settings(drift=mode))
    bench.info()
    bench.snapshot(container("cam"), NAV)
    bench.scaled("a-1", cpu_limit=2500)
    return bench


def test_report_shows_drift_and_leaves_it() -> None:
    bench = drifting("report")
    bench.snapshot(container("cam", 700, 1024), NAV)

    assert bench.state().sync_state is SyncState.DRIFT_DETECTED
    bench.after(30)
    assert bench.heard(Reconcile) == []
    bench.snapshot(container("cam", 2500, 1024), NAV)
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


@pytest.mark.parametrize("cause", ["the node was away", "it could not be read"])
def test_report_does_not_go_on_telling_a_cause_that_has_gone(cause: str) -> None:
    bench = drifting("report")
    bench.agent_is(ConnectionState.READY)
    if cause == "the node was away":
        bench.agent_is(ConnectionState.LOST)
        bench.agent_is(ConnectionState.READY)
    else:
        bench.snapshot(container("cam", readable=False), NAV)
    assert bench.state().sync_state is SyncState.FAILED

    bench.snapshot(container("cam", 700, 1024), NAV)

    state = bench.state()
    assert (state.sync_state, state.reason) == (SyncState.DRIFT_DETECTED, None)
    assert state.message == "cpu_limit 2500 desired, 700 in force"


def test_adopt_takes_what_others_gave_a_running_container() -> None:
    bench = drifting("adopt")
    before = bench.state()
    bench.snapshot(container("cam", 700, 1024), NAV)

    state = bench.state()
    assert bench.heard(Reconcile) == []
    assert state.sync_state is SyncState.SYNCHRONIZED
    assert state.desired == Limits(cpu_limit=700)
    assert state.generation == before.generation + 1
    assert state.message == "adopted: cpu_limit 2500 desired, 700 in force"
    assert bench.capacity().allocated.cpu == 3700


def test_adopt_does_not_take_a_limit_that_was_removed() -> None:
    bench = drifting("adopt")
    bench.snapshot(container("cam", None, 1024), NAV)

    assert bench.only(Reconcile).desired == Limits(cpu_limit=2500)


def test_adopt_takes_what_was_changed_and_puts_back_what_was_removed() -> None:
    bench = Bench(rules=settings(drift="adopt"))
    bench.info()
    bench.snapshot(container("cam"), NAV)
    bench.scaled("a-1", cpu_limit=2500, memory_limit=1536)

    bench.snapshot(container("cam", 700, None), NAV)

    assert bench.state().desired == Limits(cpu_limit=700, memory_limit=1536)
    sent = bench.only(Reconcile)
    assert sent.desired == Limits(cpu_limit=700, memory_limit=1536)
    assert bench.state().sync_state is not SyncState.SYNCHRONIZED
    bench.reconciled(sent)
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


@pytest.mark.parametrize("mode", ["enforce", "report", "adopt"])
@pytest.mark.parametrize(
    ("case", "seen"),
    [
        ("restarted", {"started_at": 2}),
        ("created anew from the same image", {"runtime_id": "cam-id-2", "started_at": 2}),
    ],
)
def test_limits_lost_by_a_restart_or_a_new_creation_are_always_applied_again(
    mode: str, case: str, seen: dict[str, Any]
) -> None:
    bench = drifting(mode)
    bench.snapshot(container("cam", 2000, 1024, **seen), NAV, trigger=SnapshotTrigger.CONTAINER)

    sent = bench.only(Reconcile)
    assert sent.desired == Limits(cpu_limit=2500), case
    assert sent.cause is ReconcileCause.CONTAINER_START
    assert sent.runtime_id == seen.get("runtime_id", "cam-id-1")
    bench.reconciled(sent)
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_a_change_by_hand_after_a_restart_that_kept_the_limits_is_adopted() -> None:
    bench = drifting("adopt")
    bench.snapshot(container("cam", 2500, 1024, started_at=2), NAV)
    bench.snapshot(container("cam", 700, 1024, started_at=2), NAV)

    assert bench.heard(Reconcile) == []
    assert bench.state().desired == Limits(cpu_limit=700)


def test_limits_lost_before_the_update_was_reported_are_applied_again_not_adopted() -> None:
    bench = drifting("adopt")
    recorded = bench.recorded("a-2", cpu_limit=2600)
    bench.snapshot(container("cam", 2000, 1024, started_at=2), NAV, seq=50)  # restarted after the update
    done = bench.report("a-2", generation=recorded.generation, actual=Limits(cpu_limit=2600), seq=49)
    assert done.verdict is Verdict.SYNCHRONIZED

    bench.snapshot(container("cam", 2000, 1024, started_at=2), NAV, seq=51)

    assert bench.only(Reconcile).desired == Limits(cpu_limit=2600)


def test_a_change_by_hand_is_adopted_though_the_snapshot_overtook_the_report() -> None:
    bench = drifting("adopt")
    recorded = bench.recorded("a-2", cpu_limit=2600)
    bench.snapshot(container("cam", 2600, 1024), NAV, seq=50)
    bench.report("a-2", generation=recorded.generation, actual=Limits(cpu_limit=2600), seq=49)

    bench.snapshot(container("cam", 700, 1024), NAV, seq=51)

    assert bench.state().desired == Limits(cpu_limit=700)
