"""What agents see is taken in when it is newer, and only then."""

import pytest

from schemas.enums import Reason, SyncState
from schemas.limits import Amount, Limits
from schemas.node import ContainerReport
from schemas.resources import NodeCapacity, Reconcile
from tests.resource_manager.bench import Bench, container, settings

CAM, NAV = container("cam"), container("nav", 3000, 2048)


def test_every_container_is_shown_and_counted_ours_or_not(bench: Bench) -> None:
    state = bench.state("nav")

    assert state.sync_state is SyncState.UNKNOWN
    assert (state.generation, state.desired, state.actual) == (0, None, Limits(cpu_limit=3000, memory_limit=2048))
    assert bench.capacity().allocated == Amount(cpu=5000, memory=3072)


def test_a_snapshot_without_news_says_nothing(bench: Bench) -> None:
    bench.snapshot(CAM, NAV)
    assert bench.said == []


def test_a_snapshot_that_came_before_counts_nothing_twice(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    bench.snapshot(container("cam", 700, 1024), NAV)
    assert len(bench.heard(Reconcile)) == 1

    bench.snapshot(container("cam", 700, 1024), NAV, seq=bench.seq)

    assert bench.said == []


def test_the_capacity_of_a_node_is_said_when_its_size_is_known() -> None:
    bench = Bench()
    bench.snapshot(CAM)
    assert bench.heard(NodeCapacity) == []
    bench.info()
    assert bench.only(NodeCapacity).allocated == Amount(cpu=2000, memory=1024)
    bench.info()
    assert bench.said == []


def test_the_reserved_share_follows_the_size_of_the_node() -> None:
    bench = Bench(rules=settings(reserved={}))
    bench.info(4000, 8192)
    assert bench.capacity().reserved == Amount(cpu=400, memory=819)
    bench.info(500, 512)
    assert bench.capacity().reserved == Amount(cpu=100, memory=256)


def test_use_that_changes_moves_the_room_only_where_nothing_limits(bench: Bench) -> None:
    bench.snapshot(container("cam", usage=(1900, 900)), NAV)
    assert bench.said == []
    bench.snapshot(container("cam", None, 1024, usage=(1900, 900)), NAV)
    assert bench.capacity().allocated.cpu == 4900
    bench.snapshot(container("cam", None, 1024, usage=(100, 900)), NAV)
    assert bench.only(NodeCapacity).allocated.cpu == 3100


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(container("cam", usage=(0, 0), readable=False), id="could not be read once"),
        pytest.param(container("cam", usage=(0, 0), readable=False, running=False), id="has stopped"),
    ],
)
def test_an_unlimited_container_of_which_nothing_is_measured_counts_what_it_used_last(
    bench: Bench, report: ContainerReport
) -> None:
    bench.snapshot(container("cam", None, 1024, usage=(3000, 900)), NAV)

    bench.snapshot(report, NAV)

    assert bench.capacity().allocated.cpu == 6000
    assert bench.validate("a-1", "nav", cpu=5000).reason is Reason.INSUFFICIENT_CPU


def test_limits_that_cannot_be_read_are_a_failure_that_heals(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)

    bench.snapshot(container("cam", readable=False), NAV)
    state = bench.state()
    assert (state.sync_state, state.reason, state.actual) == (SyncState.FAILED, Reason.QUERY_FAILED, None)
    assert bench.capacity().allocated.cpu == 5500, "the last known counts"

    bench.snapshot(container("cam", 2500, 1024), NAV)
    state = bench.state()
    assert (state.sync_state, state.reason) == (SyncState.SYNCHRONIZED, None)


def test_limits_that_cannot_be_read_while_busy_are_no_failure(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)

    bench.snapshot(container("cam", readable=False, busy=True), NAV)

    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_limits_that_cannot_be_read_during_an_action_are_left_to_its_verdict(bench: Bench) -> None:
    bench.recorded(cpu_limit=2500)

    bench.snapshot(container("cam", readable=False), NAV)

    assert bench.state().sync_state is SyncState.APPLYING


def test_an_unmanaged_container_that_cannot_be_read_is_just_unknown(bench: Bench) -> None:
    bench.snapshot(container("cam", readable=False), NAV)

    assert (bench.state().sync_state, bench.state().actual) == (SyncState.UNKNOWN, None)
