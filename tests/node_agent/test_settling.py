"""After a broken connection or a crash the runtime may still be at work: nothing is written until it settled."""

import pytest

from components.component import CallFailed
from components.node_agent.simulated import Fault
from components.node_agent.store import MemoryStore
from schemas.enums import Reason
from schemas.limits import Amount, Limits
from schemas.node import UpdateReply
from tests.node_agent.driver import Driver, of_type

FIRST = Limits(cpu_limit=500, memory_limit=256)


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.runtime.world.add("app", FIRST, usage=Amount(cpu=100, memory=64))
    driver.runtime.world.add("other", FIRST)
    return driver.start()


class TestAfterABrokenConnection:
    """The runtime may still be at work on the container: it is busy until that has settled."""

    @pytest.fixture
    def broken(self, driver: Driver) -> Driver:
        driver.runtime.late_after_s = 30.0
        driver.runtime.fault("app", Fault.HANG)
        assert driver.update(driver.command(5, cpu_limit=2000)).reason is Reason.RUNTIME_TIMEOUT
        return driver

    def test_the_next_write_waits_until_it_has_settled(self, broken: Driver) -> None:
        broken.give(broken.command(6, cpu_limit=3000, deadline_ms=600_000))
        broken.advance(59)
        assert broken.updates_waiting() == []
        assert broken.limits().cpu_limit == 2000  # the late one, by now
        broken.advance(2)
        assert of_type(broken.run_updates(), UpdateReply)[0].success
        assert broken.limits().cpu_limit == 3000

    def test_same_values_are_not_told_from_a_state_that_may_still_change(self, broken: Driver) -> None:
        """A late write would break the promise right after it was given."""
        broken.give(broken.command(6, cpu_limit=500))
        said = broken.advance(11)
        assert [reply.reason for reply in of_type(said, UpdateReply)] == [Reason.RUNTIME_TIMEOUT]

    def test_other_containers_go_on(self, broken: Driver) -> None:
        assert broken.update(broken.command(1, workload="other", cpu_limit=2000)).success

    def test_it_is_reported_busy_until_then_and_a_snapshot_follows(self, broken: Driver) -> None:
        broken.run()
        busy = {report.workload_id: report.busy for report in broken.snapshot.containers}
        assert busy == {"app": True, "other": False}
        before = broken.snapshot.seq
        broken.advance(61, run=True)
        assert broken.snapshot.seq > before
        assert not any(report.busy for report in broken.snapshot.containers)

    def test_an_observation_begun_before_it_settled_is_told_as_busy(self, broken: Driver) -> None:
        """It may show what was in force before the late write."""
        broken.run()
        broken.advance(59.9, run=True)
        broken.give(broken.request("other", cpu_limit=700))
        broken.run_updates()
        call = next(call for call in broken.waiting if call.name.startswith("snapshot"))
        result = broken.result_of(call)
        broken.advance(0.5)
        broken.give(result)
        assert [report.busy for report in broken.snapshot.containers if report.workload_id == "app"] == [True]

    def test_the_intent_is_kept_until_then(self, broken: Driver) -> None:
        container_id = broken.runtime.resolve("app").id
        assert broken.store.pending() == [container_id]
        broken.advance(61)
        assert broken.store.pending() == []

    def test_a_re_created_container_does_not_wait_for_the_old_ones_call(self, broken: Driver) -> None:
        broken.runtime.world.remove("app")
        broken.runtime.world.add("app", FIRST)
        broken.run()
        broken.advance(31, run=True)  # the periodic snapshot, at the latest, shows the new one
        assert broken.update(broken.command(6, cpu_limit=3000)).success

    def test_a_success_seen_in_the_kernel_keeps_it_busy_all_the_same(self, driver: Driver) -> None:
        driver.runtime.late_after_s = 5.0  # within the time-out
        driver.runtime.fault("app", Fault.HANG)
        reply = driver.update(driver.command(5, cpu_limit=2000))
        assert reply.success
        driver.give(driver.command(6, cpu_limit=3000, deadline_ms=1000))
        assert of_type(driver.advance(1.1), UpdateReply)[0].reason is Reason.RUNTIME_TIMEOUT


class TestAfterACrash:
    """The agent died while the runtime was at work on a container."""

    def test_the_container_is_busy_for_the_next_agent(self) -> None:
        store = MemoryStore()
        first = Driver(store=store)
        app = first.runtime.world.add("app", FIRST)
        first.runtime.world.add("other", FIRST)
        store.begin(app.id)
        second = Driver(first.runtime, store=store, clock=first.clock, boot_id=8).start()
        assert {report.workload_id: report.busy for report in second.snapshot.containers} == {
            "app": True,
            "other": False,
        }
        second.give(second.command(5, cpu_limit=2000, deadline_ms=600_000))
        assert second.update(second.command(5, workload="other", cpu_limit=2000)).success
        second.advance(59)
        assert second.updates_waiting() == []
        second.advance(2)
        assert of_type(second.run_updates(), UpdateReply)[0].success
        assert store.pending() == []

    def test_nothing_is_written_before_it_is_known_which_container_is_busy(self) -> None:
        store = MemoryStore()
        store.begin("f" * 64)
        driver = Driver(store=store)
        driver.runtime.world.add("app", FIRST)
        driver.agent.start(driver.now)
        driver.give(driver.command(5, cpu_limit=2000))
        assert driver.updates_waiting() == []

    def test_and_if_the_runtime_cannot_tell_the_command_is_answered_so(self) -> None:
        store = MemoryStore()
        store.begin("f" * 64)
        driver = Driver(store=store)
        driver.runtime.set_down(down=True)
        driver._take(driver.agent.start(driver.now))
        driver.give(driver.command(5, cpu_limit=2000))
        reply = of_type(driver.run(), UpdateReply)[0]
        assert reply.reason is Reason.RUNTIME_ERROR
        assert "switch it on" in reply.message


def test_a_bug_in_the_update_is_answered_and_leaves_the_container_busy(driver: Driver) -> None:
    driver.give(driver.command(5, cpu_limit=2000))
    call = driver.updates_waiting()[0]
    driver.waiting.remove(call)
    reply = of_type(driver.give(CallFailed(call, ZeroDivisionError("oops"))), UpdateReply)[0]
    assert reply.reason is Reason.RUNTIME_ERROR
    assert "ZeroDivisionError: oops" in reply.message
    driver.give(driver.command(6, cpu_limit=3000))
    assert driver.updates_waiting() == []
