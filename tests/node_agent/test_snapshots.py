"""Snapshots and other reports: complete or saying that they are not, not stale, not in the way of an answer."""

import pytest

from components.component import CallFailed
from components.node_agent.events import ContainersChanged, RuntimeFound, RuntimeLost
from schemas.codec import MESSAGE_BYTES_MAX, encode
from schemas.enums import Reason, SnapshotTrigger
from schemas.limits import Amount, Limits
from schemas.message import Wire
from schemas.metrics import ContainerMetrics, NodeMetrics
from schemas.node import NodeInfo, NodeSnapshot, StatusReply, StatusRequest, UpdateReply
from tests.node_agent.driver import NODE, Driver, of_type

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


def test_a_name_that_fits_no_topic_is_left_out_and_harms_no_other(driver: Driver) -> None:
    driver.runtime.world.add("x" * 129, FIRST)
    driver.start()
    assert [report.workload_id for report in driver.snapshot.containers] == ["app"]


def test_retained_messages_are_said_again_on_every_connection(driver: Driver) -> None:
    driver.start()
    assert [type(said) for said in driver.agent.connected(driver.now)] == [NodeInfo, NodeSnapshot]


class TestWithoutRuntime:
    """Podman is down: the agent lives, says so, and claims nothing."""

    def test_it_starts_says_what_is_wrong_and_says_no_snapshot(self, driver: Driver) -> None:
        driver.runtime.set_down(down=True)
        driver.start()
        assert of_type(driver.said, NodeSnapshot) == [], "an empty one would say that all containers are gone"
        assert driver.agent.healthy is not None
        assert "switch it on" in driver.agent.healthy

    def test_it_tries_again_and_then_all_is_well(self, driver: Driver) -> None:
        driver.runtime.set_down(down=True)
        driver.start()
        driver.runtime.set_down(down=False)
        driver.advance(6, run=True)
        assert driver.agent.healthy is None
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
        assert "switch it on" in (driver.agent.healthy or "")

    def test_and_when_it_is_back_the_whole_is_told(self, driver: Driver) -> None:
        driver.start()
        driver.runtime.set_down(down=True)
        driver.give(ContainersChanged())
        driver.advance(0.1, run=True)
        driver.runtime.set_down(down=False)
        driver.advance(3, run=True)
        assert (driver.snapshot.truncated, driver.snapshot.trigger) == (False, SnapshotTrigger.CONTAINER)
        assert driver.agent.healthy is None

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
        assert driver.agent.healthy == "Podman cannot be reached"
        driver.give(RuntimeFound())
        assert driver.agent.healthy is None

    def test_a_bug_in_a_look_is_survived(self, driver: Driver) -> None:
        driver.start()
        driver.give(ContainersChanged())
        driver.advance(0.1)
        call = next(call for call in driver.waiting if call.name.startswith("snapshot"))
        driver.waiting.remove(call)
        driver.give(CallFailed(call, ZeroDivisionError("oops")))
        assert "oops" in (driver.agent.healthy or "")
        driver.advance(3, run=True)
        assert driver.agent.healthy is None


class TestStatus:
    """GetResourceStatus."""

    def test_one_container(self, driver: Driver) -> None:
        driver.start()
        reply = driver.status("app")
        assert reply.success
        assert reply.status is not None
        assert (reply.status.cpu_limit, reply.status.memory_limit) == (500, 256)
        assert reply.status.runtime_id == driver.runtime.resolve("app").id
        assert reply.seq > 0

    def test_all_containers(self, driver: Driver) -> None:
        driver.runtime.world.add("other", FIRST)
        driver.start()
        reply = driver.status()
        assert [report.workload_id for report in reply.containers] == ["app", "other"]
        assert reply.status is None

    def test_an_unknown_one(self, driver: Driver) -> None:
        driver.start()
        reply = driver.status("nobody")
        assert (reply.success, reply.reason) == (False, Reason.UNKNOWN_WORKLOAD)

    def test_a_stopped_one_has_no_limits_in_force(self, driver: Driver) -> None:
        driver.runtime.world.stop("app")
        driver.start()
        reply = driver.status("app")
        assert (reply.success, reply.containers[0].running) == (True, False)
        assert reply.containers[0].actual is None
        assert "does not run" in reply.message

    def test_a_runtime_that_cannot_tell(self, driver: Driver) -> None:
        driver.runtime.set_down(down=True)
        driver.start()
        assert driver.status().reason is Reason.QUERY_FAILED

    def test_a_runtime_that_cannot_tell_any_more(self, driver: Driver) -> None:
        driver.start()
        driver.runtime.set_down(down=True)
        reply = driver.status()
        assert (reply.success, len(reply.containers)) == (True, 1)
        assert "cannot tell which containers there are" in reply.message

    def test_more_than_can_be_answered_at_once_is_overloaded(self, driver: Driver) -> None:
        driver.start()
        said = []
        for number in range(20):
            said += driver.give(StatusRequest(id=f"x{number}", node=NODE, wire=Wire.JSON))
        assert [reply.reason for reply in of_type(said, StatusReply)] == [Reason.OVERLOADED] * 4
        answered = of_type(driver.run(), StatusReply)
        assert len(answered) == 16
        assert all(reply.wire is Wire.JSON for reply in answered)

    def test_a_repeated_question_is_answered_once_while_it_is_open(self, driver: Driver) -> None:
        driver.start()
        request = StatusRequest(id="x", node=NODE)
        driver.give(request)
        driver.give(request)
        assert len(of_type(driver.run(), StatusReply)) == 1


class TestMetrics:
    """What is said every period."""

    def test_node_and_containers_every_period(self, driver: Driver) -> None:
        driver.start()
        driver.said.clear()
        driver.advance(3.01, run=True)
        assert len(of_type(driver.said, NodeMetrics)) == 3
        batches = of_type(driver.said, ContainerMetrics)
        assert [len(batch.containers) for batch in batches] == [1, 1, 1]

    def test_use_is_what_was_used_since_the_last_time(self, driver: Driver) -> None:
        driver.start()
        driver.advance(5, run=True)
        driver.runtime.world.set_usage("app", Amount(cpu=400, memory=128))
        driver.advance(2.1, run=True)
        use = of_type(driver.said, ContainerMetrics)[-1].containers[0]
        assert (use.usage, use.limits.cpu_limit) == (Amount(cpu=400, memory=128), 500)

    def test_the_first_look_counts_over_the_containers_life(self, driver: Driver) -> None:
        """An unlimited container counts with what it uses; 0 would promise away what it has."""
        driver.clock.seconds += 100
        driver.start()
        assert driver.snapshot.containers[0].usage == Amount(cpu=100, memory=64)

    def test_a_period_is_left_out_while_the_last_is_still_read(self, driver: Driver) -> None:
        driver.start()
        driver.advance(5)
        assert len([call for call in driver.waiting if call.name == "metrics"]) == 1

    def test_more_containers_than_fit_come_in_several_messages(self, driver: Driver) -> None:
        for number in range(1200):
            driver.runtime.world.add(f"container-{number}", FIRST)
        driver.start()
        batches = of_type(driver.said, ContainerMetrics)
        assert len(batches) > 1
        assert sum(len(batch.containers) for batch in batches) == 1201
        assert all(len(encode(batch).payload) <= MESSAGE_BYTES_MAX for batch in batches)

    def test_the_node_alone_when_the_containers_cannot_be_seen(self, driver: Driver) -> None:
        driver.start()
        assert of_type(driver.said, NodeMetrics)[0].total_memory == 16_384 * 1024 * 1024


class TestInfo:
    """What the node is."""

    def test_it_is_said_once_and_a_simulated_one_says_so(self, driver: Driver) -> None:
        driver.start()
        driver.advance(60, run=True)
        infos = of_type(driver.said, NodeInfo)
        assert len(infos) == 1
        assert (infos[0].simulated, infos[0].podman_version) == (True, "simulated")
        assert infos[0].capabilities["cpu_limit"].supported
        assert not infos[0].capabilities["huge_pages"].supported
        assert infos[0].capabilities["huge_pages"].reason

    def test_it_is_said_again_when_the_machine_changes(self, driver: Driver) -> None:
        driver.start()
        driver.runtime.world.total = Amount(cpu=4000, memory=16_384)
        driver.advance(31, run=True)
        assert [info.total.cpu for info in of_type(driver.said, NodeInfo)] == [8000, 4000]
