"""Status replies, metrics and info: what an agent says besides snapshots."""

import pytest

from schemas.codec import MESSAGE_BYTES_MAX, encode
from schemas.enums import Reason
from schemas.limits import Amount, Limits
from schemas.message import Wire
from schemas.metrics import ContainerMetrics, NodeMetrics
from schemas.node import NodeInfo, StatusReply, StatusRequest
from tests.node_agent.driver import NODE, Driver, of_type

FIRST = Limits(cpu_limit=500, memory_limit=256)


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.runtime.world.add("app", FIRST, usage=Amount(cpu=100, memory=64))
    return driver


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
        driver.advance(29, run=True)
        infos = of_type(driver.said, NodeInfo)
        assert len(infos) == 1
        assert (infos[0].simulated, infos[0].podman_version) == (True, "simulated")
        assert infos[0].capabilities["cpu_limit"].supported
        assert not infos[0].capabilities["huge_pages"].supported
        assert infos[0].capabilities["huge_pages"].reason

    def test_one_that_somebody_deleted_is_back_within_half_a_minute(self, driver: Driver) -> None:
        """Nobody else may say it, and without it nothing is known of the node's size."""
        driver.start()
        (first,) = of_type(driver.said, NodeInfo)
        driver.advance(61, run=True)
        assert of_type(driver.said, NodeInfo) == [first, first, first]

    def test_it_is_said_again_when_the_machine_changes(self, driver: Driver) -> None:
        driver.start()
        driver.runtime.world.total = Amount(cpu=4000, memory=16_384)
        driver.advance(31, run=True)
        assert of_type(driver.said, NodeInfo)[-1].total.cpu == 4000
