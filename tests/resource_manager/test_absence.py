"""Containers stop, vanish and return; their room and limits are held, let go, and given again if they fit."""

import pytest

from schemas.codec import Cleared
from schemas.enums import Reason, SnapshotTrigger, SyncState, Verdict
from schemas.limits import Limits
from schemas.resources import Reconcile, ResourceState
from tests.resource_manager.bench import NODE, Bench, container, settings

CAM, NAV = container("cam"), container("nav", 3000, 2048)
HOLD_S = 300.0


def cleared(bench: Bench) -> list[str]:
    return [item.values["workload_id"] for item in bench.said if isinstance(item, Cleared)]


def vanish(bench: Bench) -> None:
    """Cam goes, and its NodeAgent says so at once."""
    bench.snapshot(NAV, trigger=SnapshotTrigger.CONTAINER)


def test_an_event_that_a_container_is_gone_counts_at_once(bench: Bench) -> None:
    vanish(bench)

    assert bench.validate(cpu=2100).reason is Reason.NOT_RUNNING


def test_a_periodic_snapshot_without_it_counts_the_second_time(bench: Bench) -> None:
    bench.snapshot(NAV)
    assert bench.validate("a-1", cpu=2100).allowed

    bench.snapshot(NAV)
    assert bench.validate("a-2", cpu=2100).reason is Reason.NOT_RUNNING


def test_the_same_snapshot_twice_is_not_two(bench: Bench) -> None:
    bench.snapshot(NAV)
    bench.snapshot(NAV, seq=bench.seq)

    assert bench.validate("a-1", cpu=2100).allowed


def test_seen_in_between_it_begins_to_count_anew(bench: Bench) -> None:
    bench.snapshot(NAV)
    bench.snapshot(CAM, NAV)
    bench.snapshot(NAV)

    assert bench.validate("a-1", cpu=2100).allowed


def test_a_truncated_snapshot_proves_nothing_by_what_it_lacks(bench: Bench) -> None:
    for trigger in (SnapshotTrigger.PERIODIC, SnapshotTrigger.CONTAINER, SnapshotTrigger.PERIODIC):
        bench.snapshot(container("nav", 2000, 2048), truncated=True, trigger=trigger)

    assert bench.validate("a-1", cpu=2100).allowed
    assert bench.state("nav").actual == Limits(cpu_limit=2000, memory_limit=2048), "what it has is news"


def test_an_old_snapshot_proves_nothing_by_what_it_lacks(bench: Bench) -> None:
    bench.snapshot(CAM, NAV, seq=50)
    bench.snapshot(NAV, seq=49, trigger=SnapshotTrigger.CONTAINER)

    assert bench.validate("a-1", cpu=2100).allowed


def test_an_answer_about_one_container_proves_nothing_about_the_others(bench: Bench) -> None:
    for _ in range(3):
        bench.agent_says("anything", NAV)

    assert bench.validate("a-1", cpu=2100).allowed


@pytest.mark.parametrize("how", ["vanished", "stopped"])
def test_an_absent_workload_keeps_its_room_and_state_for_the_hold(bench: Bench, how: str) -> None:
    bench.scaled(cpu_limit=2500)
    gone = () if how == "vanished" else (container("cam", 2500, 1024, running=False),)
    bench.snapshot(*gone, NAV, trigger=SnapshotTrigger.CONTAINER)

    bench.after(HOLD_S)
    assert bench.capacity().allocated.cpu == 5500
    assert bench.state().desired == Limits(cpu_limit=2500)
    bench.after(0.25)
    assert cleared(bench) == ["cam"]
    assert bench.capacity().allocated.cpu == 3000
    assert f"resources/state/{NODE}/cam" not in bench.retained


def test_created_anew_within_the_hold_it_has_its_desired_limits_again(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    vanish(bench)
    bench.after(HOLD_S - 1)

    bench.snapshot(container("cam", runtime_id="cam-id-2", started_at=9), NAV, trigger=SnapshotTrigger.CONTAINER)

    sent = bench.only(Reconcile)
    assert (sent.desired, sent.runtime_id) == (Limits(cpu_limit=2500), "cam-id-2")
    assert bench.state().sync_state is SyncState.DRIFT_DETECTED
    bench.after(HOLD_S)
    assert cleared(bench) == []


def test_returning_after_the_hold_it_has_them_again_if_they_fit(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    vanish(bench)
    bench.after(HOLD_S + 1)

    bench.snapshot(container("cam", runtime_id="cam-id-2", started_at=9), NAV, trigger=SnapshotTrigger.CONTAINER)

    assert bench.only(Reconcile).desired == Limits(cpu_limit=2500)
    assert bench.capacity().allocated.cpu == 5500


def returned_without_room(bench: Bench) -> None:
    """Cam, at 4000m, went for longer than the hold; nav took its room; cam is back."""
    bench.scaled("a-1", cpu_limit=4000)
    vanish(bench)
    bench.after(HOLD_S + 1)
    bench.scaled("a-2", "nav", cpu_limit=4500)
    bench.snapshot(
        container("cam", runtime_id="cam-id-2", started_at=9),
        container("nav", 4500, 2048),
        trigger=SnapshotTrigger.CONTAINER,
    )


def test_returning_later_what_no_longer_fits_is_failed_with_the_numbers(bench: Bench) -> None:
    returned_without_room(bench)

    state = bench.state()
    assert (state.sync_state, state.reason) == (SyncState.FAILED, Reason.INSUFFICIENT_CPU)
    assert state.message == (
        "cannot have its limits again: needs 2000m more CPU, node hpc-1 has 500m available: "
        "total 8000m − allocated 6500m − reserved 1000m"
    )
    assert state.desired == Limits(cpu_limit=4000)
    assert bench.heard(Reconcile) == []
    assert bench.capacity().allocated.cpu == 6500
    bench.after(5)
    assert bench.said == []


def test_when_room_frees_it_has_its_limits_again(bench: Bench) -> None:
    returned_without_room(bench)
    bench.scaled("a-3", "nav", cpu_limit=3000)

    bench.after()
    sent = bench.only(Reconcile)
    assert sent.desired == Limits(cpu_limit=4000)
    assert bench.capacity().allocated.cpu == 7000
    bench.reconciled(sent)
    assert (bench.state().sync_state, bench.state().reason) == (SyncState.SYNCHRONIZED, None)


def test_its_room_is_not_given_away_once_it_waits_only_for_the_update(bench: Bench) -> None:
    returned_without_room(bench)
    bench.scaled("a-3", "nav", cpu_limit=3000)
    bench.after()

    assert bench.validate("a-4", "nav", cpu=3001).reason is Reason.INSUFFICIENT_CPU


def test_what_waits_for_room_may_be_scaled_to_what_fits(bench: Bench) -> None:
    returned_without_room(bench)

    bench.scaled("a-3", "cam", cpu_limit=2500)

    assert bench.state().sync_state is SyncState.SYNCHRONIZED
    assert bench.state().desired == Limits(cpu_limit=2500)
    assert bench.capacity().allocated.cpu == 7000


def test_what_waits_for_room_is_not_scaled_to_what_does_not_fit(bench: Bench) -> None:
    returned_without_room(bench)

    reply = bench.validate("a-3", "cam", cpu=3000)

    assert reply.reason is Reason.INSUFFICIENT_CPU
    assert bench.validate("a-4", "cam", memory=1100).reason is Reason.INSUFFICIENT_CPU, "the whole desired counts"


def test_limits_that_waited_for_room_come_back_with_an_action_only_if_they_still_fit(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=4000, memory_limit=8000)
    vanish(bench)
    bench.after(HOLD_S + 1)
    bench.scaled("a-2", "nav", cpu_limit=4500)
    bench.snapshot(
        container("cam", runtime_id="cam-id-2", started_at=9),
        container("nav", 4500, 2048),
        trigger=SnapshotTrigger.CONTAINER,
    )
    assert bench.validate("a-3", "cam", cpu=2500).allowed, "its 8000Mi of before would fit, but are not reserved"
    bench.scaled("a-4", "nav", memory_limit=10_000)

    refused = bench.record("a-3", cpu_limit=2500)

    assert (refused.success, refused.reason) == (False, Reason.EXPIRED)
    assert bench.validate("a-3", "cam", cpu=2500, attempt=2).reason is Reason.INSUFFICIENT_MEMORY
    room = bench.capacity()
    assert room.allocated.memory + room.reserved.memory <= room.total.memory


def test_a_failed_action_on_what_waited_for_room_goes_back_to_what_was_in_force(bench: Bench) -> None:
    returned_without_room(bench)
    recorded = bench.recorded("a-3", "cam", cpu_limit=2500)

    bench.fails("a-3", generation=recorded.generation, reason=Reason.PARENT_LIMIT)

    assert bench.state().desired == Limits(cpu_limit=2000)


def test_a_container_without_limits_may_return_to_a_full_node(bench: Bench) -> None:
    bench.snapshot(container("cam", None, 1024, usage=(100, 100)), NAV)
    recorded = bench.recorded("a-1", cpu_limit=2500)
    bench.fails("a-1", generation=recorded.generation, reason=Reason.PARENT_LIMIT)
    bench.after()
    bench.reconciled(bench.only(Reconcile))
    vanish(bench)
    bench.after(HOLD_S + 1)

    bench.snapshot(container("cam", None, 1024, usage=(100, 100), runtime_id="cam-id-2"), NAV)

    assert bench.state().sync_state is not SyncState.FAILED
    assert bench.only(Reconcile).desired == Limits(cpu_limit=8000)
    assert bench.capacity().allocated.cpu == 3100


def test_another_image_under_the_same_name_is_a_new_workload(bench: Bench) -> None:
    first = bench.scaled("a-1", cpu_limit=2500)

    bench.snapshot(container("cam", image_id="image-2", runtime_id="cam-id-2"), NAV)

    state = bench.state()
    assert (state.sync_state, state.desired, state.generation) == (SyncState.UNKNOWN, None, 0)
    assert state.last_failure is None
    assert bench.heard(Reconcile) == []
    assert bench.capacity().allocated.cpu == 5000
    assert bench.scaled("a-2", cpu_limit=2600).generation == first.generation + 1


def test_another_image_ends_the_action_that_was_meant_for_the_old_one(bench: Bench) -> None:
    recorded = bench.recorded("a-1", cpu_limit=2500)

    bench.snapshot(container("cam", image_id="image-2", runtime_id="cam-id-2"), NAV)

    reply = bench.fails("a-1", generation=recorded.generation)
    assert (reply.verdict, reply.reason) == (Verdict.FAILED, Reason.UNKNOWN_WORKLOAD)
    assert bench.capacity().allocated.cpu == 5000
    bench.after(1)
    assert bench.heard(Reconcile) == []


def test_another_image_after_the_hold_has_nothing_of_the_old_one_either(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    vanish(bench)
    bench.after(HOLD_S + 1)

    bench.snapshot(container("cam", image_id="image-2", runtime_id="cam-id-2"), NAV)

    assert bench.state().desired is None
    assert bench.heard(Reconcile) == []


def test_an_action_cut_off_by_the_end_of_the_hold_leaves_no_target_behind() -> None:
    bench = Bench(rules=settings(absent_hold_s=5, lease_s=60))
    bench.info()
    bench.snapshot(CAM, NAV)
    recorded = bench.recorded("a-1", cpu_limit=4000)
    vanish(bench)
    bench.after(6)
    late = bench.fails("a-1", generation=recorded.generation)
    assert (late.verdict, late.reason) == (Verdict.FAILED, Reason.UNKNOWN_WORKLOAD)

    bench.snapshot(container("cam", runtime_id="cam-id-2"), NAV)

    assert bench.state().desired == Limits(cpu_limit=2000)
    assert [sent.desired for sent in bench.heard(Reconcile)] == [Limits(cpu_limit=2000)]


def test_a_reservation_of_a_container_that_is_gone_is_free(bench: Bench) -> None:
    bench.validate("a-1", cpu=4000)
    vanish(bench)
    bench.after(61)

    assert bench.capacity().allocated.cpu == 5000


def test_an_unmanaged_container_that_is_gone_is_forgotten(bench: Bench) -> None:
    vanish(bench)
    bench.after(HOLD_S + 1)

    assert cleared(bench) == ["cam"]
    assert bench.capacity().allocated.cpu == 3000
    assert bench.validate(cpu=100).reason is Reason.UNKNOWN_WORKLOAD


def test_a_stopped_container_that_stays_listed_is_cleared_once(bench: Bench) -> None:
    stopped = container("cam", running=False)
    clears = []
    for _ in range(30):
        bench.snapshot(stopped, NAV)
        clears += cleared(bench)
        bench.after(30)
        clears += cleared(bench)

    assert clears == ["cam"]
    assert f"resources/state/{NODE}/cam" not in bench.retained
    assert bench.validate(cpu=100).reason is Reason.NOT_RUNNING
    bench.snapshot(CAM, NAV)
    assert bench.state().sync_state is SyncState.UNKNOWN
    assert bench.capacity().allocated.cpu == 5000


def test_generations_go_on_after_a_container_was_removed(bench: Bench) -> None:
    first = bench.scaled("a-1", cpu_limit=2500)
    bench.hear(Cleared(ResourceState, {"node": NODE, "workload_id": "cam"}))
    vanish(bench)
    bench.after(HOLD_S + 1)

    bench.snapshot(container("cam", runtime_id="cam-id-2"), NAV)
    assert bench.scaled("a-2", cpu_limit=2600).generation == first.generation + 1


def test_after_a_restart_it_has_them_again_only_when_the_use_of_unlimited_ones_is_told(kept: Bench) -> None:
    returned_without_room(kept)
    cam = container("cam", runtime_id="cam-id-2", started_at=9)
    nav = container("nav", 4500, 2048)
    kept.snapshot(cam, nav, container("free", None, 64, usage=(0, 10)))
    kept.snapshot(cam, nav, container("free", None, 64, usage=(2000, 10)))
    kept.scaled("a-3", "nav", cpu_limit=3000)
    kept.after(1)
    assert kept.heard(Reconcile) == [], "there is no room for it"
    kept.manager.close()
    kept.manager = kept._open()

    kept.after(1)

    assert kept.heard(Reconcile) == []
