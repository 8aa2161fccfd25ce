"""People delete retained topics: a workload is released, a node forgotten. Our own deletions are no such wish."""

from pathlib import Path

import pytest

from schemas.codec import Cleared
from schemas.enums import ConnectionState, Reason, SnapshotTrigger, SyncState, Verdict
from schemas.limits import Limits
from schemas.node import NodeInfo
from schemas.resources import (
    Reconcile,
    ResourceState,
)
from tests.resource_manager.bench import EPOCH_S, NODE, Bench, container

CAM, NAV = container("cam"), container("nav", 3000, 2048)
STATE_OF_CAM = Cleared(ResourceState, {"node": NODE, "workload_id": "cam"})
INFO = Cleared(NodeInfo, {"node": NODE})


def test_deleting_its_retained_state_releases_a_workload(bench: Bench) -> None:
    done = bench.scaled(cpu_limit=2500)

    bench.hear(STATE_OF_CAM)

    state = bench.only(ResourceState)
    assert (state.sync_state, state.desired, state.generation) == (SyncState.UNKNOWN, None, 0)
    assert state.actual == Limits(cpu_limit=2500, memory_limit=1024)
    bench.snapshot(container("cam", 700, 1024), NAV)
    assert bench.heard(Reconcile) == []
    assert bench.recorded("a-2", cpu_limit=2600).generation == done.generation + 1


def test_a_released_workload_is_decided_on_as_generation_nothing(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    bench.hear(STATE_OF_CAM)

    assert bench.validate("a-2", cpu=2600, base_generation=0).allowed


def test_a_release_ends_the_reconcile_under_way(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    bench.snapshot(container("cam", 700, 1024), NAV)
    sent = bench.only(Reconcile)

    bench.hear(STATE_OF_CAM)

    assert bench.reconciled(sent).verdict is Verdict.FAILED
    bench.after(60)
    assert bench.heard(Reconcile) == []


def test_the_echo_of_our_own_deletion_from_before_a_restart_releases_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ledger.sqlite3")
    bench.info()
    bench.snapshot(CAM, NAV)
    bench.scaled(cpu_limit=2500)
    bench.snapshot(NAV, trigger=SnapshotTrigger.CONTAINER)
    bench.after(301)
    assert STATE_OF_CAM in bench.said
    bench.reopen()
    bench.snapshot(container("cam", runtime_id="cam-id-2", started_at=9), NAV, trigger=SnapshotTrigger.CONTAINER)

    bench.hear(STATE_OF_CAM)

    assert bench.state().desired == Limits(cpu_limit=2500)
    bench.after(61)
    bench.hear(STATE_OF_CAM)
    assert bench.state().desired is None, "so late it is a person's"
    bench.manager.close()


@pytest.mark.parametrize("how_far", ["reserved", "recorded", "failed and held"])
def test_what_an_action_has_not_finished_with_is_not_released(bench: Bench, how_far: str) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    bench.validate("a-2", cpu=2600)
    if how_far != "reserved":
        bench.record("a-2", cpu_limit=2600)
    if how_far == "failed and held":
        bench.fails("a-2", generation=bench.state().generation, reason=Reason.PARENT_LIMIT)
    desired = bench.state().desired

    bench.hear(STATE_OF_CAM)

    assert bench.only(ResourceState).desired == desired, "its state is published again"
    if how_far == "failed and held":
        bench.after()
        bench.reconciled(bench.only(Reconcile))
        assert bench.capacity().allocated.cpu == 5500
        bench.hear(STATE_OF_CAM)
        assert bench.state().desired is None


def test_deleting_the_state_of_an_unmanaged_container_only_brings_it_back(bench: Bench) -> None:
    bench.hear(STATE_OF_CAM)

    assert bench.only(ResourceState).sync_state is SyncState.UNKNOWN


def test_the_echo_of_our_own_deletion_releases_nothing(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    bench.snapshot(NAV)
    bench.snapshot(NAV)
    bench.after(301)
    assert STATE_OF_CAM in bench.said
    bench.snapshot(container("cam", runtime_id="cam-id-2"), NAV)

    bench.hear(STATE_OF_CAM)  # the broker hands our own message back, late

    bench.hear(STATE_OF_CAM)  # and twice, after a lost acknowledgement
    assert bench.state().desired == Limits(cpu_limit=2500)
    bench.after(61)
    assert bench.manager.live.cleared == {}, "names come and go without end"
    bench.hear(STATE_OF_CAM)  # and this is a person's
    assert bench.state().desired is None


def test_the_state_of_what_is_long_gone_is_deleted_when_it_is_met(bench: Bench) -> None:
    ghost = ResourceState(
        id="x", node=NODE, workload_id="ghost", sync_state=SyncState.UNKNOWN, generation=0, revision=4
    )
    assert bench.hear(ghost) == [Cleared(ResourceState, {"node": NODE, "workload_id": "ghost"})]
    assert bench.hear(Cleared(ResourceState, {"node": NODE, "workload_id": "ghost"})) == []


def test_our_own_state_that_comes_back_changes_nothing(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)

    for message in list(bench.retained.values()):
        if isinstance(message, ResourceState):
            assert bench.hear(message) == []


def test_an_echo_of_a_state_whose_workload_left_since_is_deleted_again(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    state = bench.state()
    bench.snapshot(NAV)
    bench.snapshot(NAV)
    bench.after(301)

    assert bench.hear(state) == [STATE_OF_CAM]


def test_a_state_nobody_has_a_container_for_is_kept_for_the_hold_and_then_goes(bench: Bench) -> None:
    lost = ResourceState(
        id="x",
        node=NODE,
        workload_id="radar",
        desired=Limits(cpu_limit=500),
        sync_state=SyncState.SYNCHRONIZED,
        generation=EPOCH_S + 50,
    )
    bench.hear(lost)
    assert bench.state("radar").desired == Limits(cpu_limit=500)
    assert bench.capacity().allocated.cpu == 5500
    bench.after(301)
    assert Cleared(ResourceState, {"node": NODE, "workload_id": "radar"}) in bench.said


def test_a_node_that_is_away_is_forgotten_when_its_info_is_deleted(kept: Bench) -> None:
    kept.agent_is(ConnectionState.READY)
    done = kept.scaled(cpu_limit=2500)
    kept.agent_is(ConnectionState.DISCONNECTED)

    kept.hear(INFO)

    assert {item.address for item in kept.said if isinstance(item, Cleared)} == {
        f"resources/state/{NODE}/cam",
        f"resources/state/{NODE}/nav",
        f"resources/capacity/{NODE}",
    }
    assert len(kept.said) == 3
    assert kept.validate("a-2", cpu=2600).reason is Reason.UNKNOWN_NODE
    kept.retained.clear()
    kept.reopen()
    assert kept.said == []
    kept.agent_restarts(CAM, NAV)
    assert kept.state().desired is None
    assert kept.scaled("a-3", cpu_limit=2500).generation == done.generation + 1


def test_a_node_whose_agent_is_there_is_not_forgotten(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)

    bench.hear(INFO)

    assert bench.said == []
    assert bench.validate(cpu=2500).allowed


@pytest.mark.parametrize("how_far", ["reserved", "recorded", "failed and held", "reconciling"])
def test_forgetting_a_node_leaves_nothing_open(bench: Bench, how_far: str) -> None:
    bench.agent_is(ConnectionState.READY)
    if how_far == "reconciling":
        bench.scaled(cpu_limit=2500)
        bench.snapshot(container("cam", 700, 1024), NAV)
    else:
        bench.validate(cpu=2500)
    if how_far in ("recorded", "failed and held"):
        bench.record(cpu_limit=2500)
    if how_far == "failed and held":
        bench.fails(generation=bench.state().generation, reason=Reason.PARENT_LIMIT)
    bench.agent_is(ConnectionState.LOST)

    bench.hear(INFO)

    assert not any(bench.manager.ledger.active.values())
    bench.after(200)
    assert bench.said == []
    if how_far != "reconciling":
        assert bench.validate(cpu=2500, attempt=2).verdict is Verdict.FAILED
    bench.agent_restarts(CAM, NAV)
    assert bench.capacity().allocated.cpu == 5000
    assert bench.scaled("a-9", cpu_limit=2600).success


def test_a_forgotten_node_may_return_with_an_agent_that_counts_its_lives_anew(bench: Bench) -> None:
    bench.snapshot(CAM, NAV, seq=500)
    bench.agent_is(ConnectionState.LOST)
    bench.hear(INFO)

    bench.boot_id, bench.seq = 1, 0
    bench.info()
    bench.snapshot(CAM, NAV)
    bench.snapshot(NAV)
    bench.snapshot(NAV)

    assert bench.validate(cpu=2100).reason is Reason.NOT_RUNNING


def forged(bench: Bench, **changes: object) -> ResourceState:
    return bench.state().model_copy(update={"id": "forged", "generation": 1, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"revision": 1, "since": 1}, id="as of an early revision"),
        pytest.param({"desired": Limits(cpu_limit=500)}, id="under the present revision"),
        pytest.param({"revision": 10**6}, id="as of a later revision"),
    ],
)
def test_a_state_that_somebody_overwrote_is_said_again(bench: Bench, changes: dict[str, object]) -> None:
    bench.scaled(cpu_limit=2500)
    true = bench.state()
    bench.hear(true)
    told = forged(bench, **changes)
    bench.retained[f"resources/state/{NODE}/cam"] = told

    bench.hear(told)
    bench.after(1)

    again = bench.only(ResourceState)
    assert again.revision > true.revision
    assert again.model_copy(update={"revision": 0}) == true.model_copy(update={"revision": 0})
    bench.hear(again)
    bench.after(20)
    assert bench.heard(ResourceState) == [], "its own echo is no news"


def test_an_echo_that_comes_late_is_not_taken_for_anothers_word(bench: Bench) -> None:
    bench.recorded(cpu_limit=2500)
    states = bench.heard(ResourceState)
    assert len(states) == 2, "PENDING and APPLYING"

    for state in states:
        bench.hear(state)

    assert bench.after(5) == []


def test_two_who_contradict_each_other_do_not_flood_the_bus(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    said = 0
    for _ in range(40):
        bench.hear(forged(bench, revision=10**6))
        said += sum(isinstance(message, ResourceState) for message in bench.after(0.25))

    assert said == 2
