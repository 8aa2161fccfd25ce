"""Snapshots and other reports: complete or saying that they are not, not stale, not in the way of an answer."""

import pytest

from components.component import CallFailed
from components.node_agent.events import ContainersChanged, RuntimeFound, RuntimeLost
from schemas.codec import MESSAGE_BYTES_MAX, encode
from schemas.enums import Reason, SnapshotTrigger
from schemas.limits import Amount, Limits
from schemas.metrics import ContainerMetrics
from schemas.node import NodeInfo, NodeSnapshot, UpdateReply
from tests.node_agent.driver import Driver, of_type

FIRST = Limits(cpu_limit=500, memory_limit=256)


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.runtime.world.add("app", FIRST, usage=Amount(cpu=100, memory=64))
    return driver


def triggers(driver: Driver) -> list[SnapshotTrigger]:
    return [snapshot.trigger for snapshot in of_type(driver.said, NodeSnapshot)]


def test_the_first_one_comes_at_start(driver: Driver) -> None:
    driver.start()
    assert triggers(driver) == [SnapshotTrigger.START]
    report = driver.snapshot.containers[0]
    assert (report.workload_id, report.running, report.busy, report.fence) == ("app", True, False, None)
    assert report.actual is not None
    assert (report.actual.cpu_limit, report.actual.memory_limit) == (500, 256)
    assert (driver.snapshot.boot_id, driver.snapshot.truncated) == (7, False)


def test_then_one_every_period(driver: Driver) -> None:
    driver.start()
    driver.advance(95, run=True)
    assert triggers(driver) == [SnapshotTrigger.START, *[SnapshotTrigger.PERIODIC] * 3]


def test_one_follows_each_update_but_not_before_its_answer(driver: Driver) -> None:
    driver.start()
    driver.give(driver.command(5))
    said = driver.run()
    assert [type(message) for message in said] == [UpdateReply, NodeSnapshot]
    assert driver.snapshot.trigger is SnapshotTrigger.UPDATE
    assert driver.snapshot.containers[0].fence is not None


def test_none_follows_when_nothing_was_written(driver: Driver) -> None:
    driver.start()
    driver.update(driver.command(5, cpu_limit=500))
    assert driver.snapshots_waiting() == []


def test_an_answer_is_not_kept_waiting_by_a_snapshot_that_is_being_read(driver: Driver) -> None:
    driver.start()
    driver.give(ContainersChanged())
    driver.advance(0.1)
    assert len(driver.snapshots_waiting()) == 1
    assert driver.update(driver.command(5)).success


def test_what_is_asked_while_one_is_read_becomes_one_more(driver: Driver) -> None:
    driver.start()
    driver.update(driver.command(5, cpu_limit=600))
    driver.update(driver.command(6, cpu_limit=700))
    driver.update(driver.command(7, cpu_limit=800))
    assert len(driver.snapshots_waiting()) == 1
    driver.run()
    assert triggers(driver) == [SnapshotTrigger.START, SnapshotTrigger.UPDATE, SnapshotTrigger.UPDATE]


def test_events_in_a_row_make_one_snapshot_shortly_after(driver: Driver) -> None:
    driver.start()
    for _ in range(5):
        driver.give(ContainersChanged())
    assert driver.snapshots_waiting() == []
    driver.advance(0.1, run=True)
    assert triggers(driver) == [SnapshotTrigger.START, SnapshotTrigger.CONTAINER]


def test_the_weightiest_trigger_is_told(driver: Driver) -> None:
    """A container that started matters more than the period that ended just then."""
    driver.start()
    driver.advance(29.96)
    driver.give(ContainersChanged())
    driver.advance(0.1, run=True)
    assert triggers(driver)[-1] is SnapshotTrigger.CONTAINER
    assert len(triggers(driver)) == 2


def test_limits_changed_by_others_are_looked_at_soon(driver: Driver) -> None:
    driver.start()
    driver.give(ContainersChanged(limits_only=True))
    driver.advance(0.1, run=True)
    assert triggers(driver)[-1] is SnapshotTrigger.UPDATE


def test_after_events_may_have_been_missed_everything_is_looked_at(driver: Driver) -> None:
    driver.start()
    driver.runtime.world.remove("app")
    driver.give(RuntimeFound())
    driver.advance(0.1, run=True)
    assert driver.snapshot.containers == ()


def test_stamps_grow_over_all_kinds_of_observations(driver: Driver) -> None:
    driver.start()
    first = driver.snapshot.seq
    reply = driver.update(driver.command(5))
    status = driver.status("app")
    driver.run()
    assert first < reply.seq < status.seq
    assert driver.snapshot.seq > reply.seq


def test_a_snapshot_is_stamped_before_it_is_read(driver: Driver) -> None:
    """Read before an update and told after it, it must not pass for the newer."""
    driver.start()
    driver.give(ContainersChanged())
    driver.advance(0.1)
    call = next(call for call in driver.waiting if call.name.startswith("snapshot"))
    driver.waiting.remove(call)
    result = driver.result_of(call)
    reply = driver.update(driver.command(5))
    driver.give(result)
    assert driver.snapshot.seq < reply.seq
    assert driver.snapshot.containers[0].busy


def test_a_write_in_progress_is_told_as_busy(driver: Driver) -> None:
    driver.start()
    driver.give(driver.command(5))
    driver.give(ContainersChanged())
    driver.advance(0.1)
    driver.run(lambda call: call.name.startswith("snapshot"))
    assert driver.snapshot.containers[0].busy


def test_a_snapshot_above_the_limit_of_a_message_is_cut_and_says_so(driver: Driver) -> None:
    labels = {f"io.pullpiri.annotations.{number}": "x" * 200 for number in range(16)}
    for number in range(100):
        driver.runtime.world.add(f"c{number}", FIRST, labels=labels)
    driver.runtime.world.stop("app")
    driver.start()
    snapshot = driver.snapshot
    assert snapshot.truncated
    assert 0 < len(snapshot.containers) < 100
    assert all(report.running for report in snapshot.containers), "what runs matters most"
    assert len(encode(snapshot).payload) <= MESSAGE_BYTES_MAX


def test_as_many_as_fit_are_in_a_snapshot(driver: Driver) -> None:
    for number in range(300):
        driver.runtime.world.add(f"c{number}", FIRST)
    driver.start()
    assert (len(driver.snapshot.containers), driver.snapshot.truncated) == (301, False)


def test_only_pullpiris_labels_are_told_and_they_are_bounded(driver: Driver) -> None:
    labels = {"io.pullpiri.annotations.model": "m", "org.other": "x", "io.pullpiri.long": "y" * 1000}
    driver.runtime.world.add("app", FIRST, labels=labels)
    driver.start()
    assert driver.snapshot.containers[0].labels == {
        "io.pullpiri.annotations.model": "m",
        "io.pullpiri.long": "y" * 256,
    }


def test_a_stopped_container_has_no_actual_limits(driver: Driver) -> None:
    driver.runtime.world.stop("app")
    driver.start()
    report = driver.snapshot.containers[0]
    assert (report.running, report.actual) == (False, None)


def test_a_paused_container_still_holds_its_resources(driver: Driver) -> None:
    driver.runtime.world.pause("app")
    driver.start()
    assert driver.snapshot.containers[0].running
    assert driver.snapshot.containers[0].actual is not None


def test_a_container_whose_name_fits_no_topic_is_told_by_its_id(driver: Driver) -> None:
    """Left out, it would not be counted, and what it holds would be granted once more."""
    container = driver.runtime.world.add("x" * 129, FIRST)
    driver.start()
    reports = {report.workload_id: report for report in driver.snapshot.containers}
    assert set(reports) == {"app", container.id}
    assert FIRST.cpu_limit == (reports[container.id].actual or Limits()).cpu_limit


def test_a_machine_of_a_thousand_cpus_is_told_like_any_other(driver: Driver) -> None:
    driver.runtime.world.total = Amount(cpu=1_024_000, memory=16_384)
    driver.start()
    assert [report.actual.cpuset_cpus for report in driver.snapshot.containers if report.actual] == ["0-1023"]


def test_retained_messages_are_said_again_on_every_connection(driver: Driver) -> None:
    driver.start()
    assert [type(said) for said in driver.agent.connected(driver.now)] == [NodeInfo, NodeSnapshot]


class TestWithoutRuntime:
    """Podman is down: the agent lives, says so, and claims nothing."""

    def test_it_starts_says_what_is_wrong_and_says_no_snapshot(self, driver: Driver) -> None:
        driver.runtime.set_down(down=True)
        driver.start()
        assert of_type(driver.said, NodeSnapshot) == [], "an empty one would say that all containers are gone"
        assert driver.agent.problem is not None
        assert "switch it on" in driver.agent.problem

    def test_it_tries_again_and_then_all_is_well(self, driver: Driver) -> None:
        driver.runtime.set_down(down=True)
        driver.start()
        driver.runtime.set_down(down=False)
        driver.advance(6, run=True)
        assert driver.agent.problem is None
        assert triggers(driver) == [SnapshotTrigger.START]
        assert len(of_type(driver.said, NodeInfo)) == 1

    def test_what_was_seen_before_is_still_read_from_the_kernel_but_absence_proves_nothing(
        self, driver: Driver
    ) -> None:
        driver.runtime.world.add("gone", FIRST)
        driver.start()
        driver.runtime.set_down(down=True)
        driver.runtime.world.remove("gone")
        driver.runtime.world.set_limits("app", Limits(cpu_limit=900))
        driver.give(ContainersChanged())
        driver.advance(0.1, run=True)
        assert (driver.snapshot.truncated, driver.snapshot.trigger) == (True, SnapshotTrigger.PERIODIC)
        assert [report.workload_id for report in driver.snapshot.containers] == ["app"]
        assert driver.snapshot.containers[0].actual is not None
        assert driver.snapshot.containers[0].actual.cpu_limit == 900
        assert "switch it on" in (driver.agent.problem or "")

    def test_and_when_it_is_back_the_whole_is_told(self, driver: Driver) -> None:
        driver.start()
        driver.runtime.set_down(down=True)
        driver.give(ContainersChanged())
        driver.advance(0.1, run=True)
        driver.runtime.set_down(down=False)
        driver.advance(3, run=True)
        assert (driver.snapshot.truncated, driver.snapshot.trigger) == (False, SnapshotTrigger.CONTAINER)
        assert driver.agent.problem is None

    def test_metrics_go_on(self, driver: Driver) -> None:
        driver.start()
        driver.runtime.set_down(down=True)
        driver.said.clear()
        driver.advance(2.1, run=True)
        assert [len(batch.containers) for batch in of_type(driver.said, ContainerMetrics)] == [1, 1]

    def test_updates_are_answered(self, driver: Driver) -> None:
        driver.start()
        driver.runtime.set_down(down=True)
        reply = driver.update(driver.command(5))
        assert reply.reason is Reason.RUNTIME_ERROR
        assert "switch it on" in reply.message

    def test_a_lost_event_stream_is_unhealthy_until_it_is_back(self, driver: Driver) -> None:
        driver.start()
        driver.give(RuntimeLost("Podman cannot be reached"))
        assert driver.agent.problem == "Podman cannot be reached"
        driver.give(RuntimeFound())
        assert driver.agent.problem is None

    def test_a_bug_in_a_look_is_survived(self, driver: Driver) -> None:
        driver.start()
        driver.give(ContainersChanged())
        driver.advance(0.1)
        call = next(call for call in driver.waiting if call.name.startswith("snapshot"))
        driver.waiting.remove(call)
        driver.give(CallFailed(call, ZeroDivisionError("oops")))
        assert "oops" in (driver.agent.problem or "")
        driver.advance(3, run=True)
        assert driver.agent.problem is None
