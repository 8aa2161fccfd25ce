"""Commands: fences, repeats, turns, deadlines and settling. No old command is carried out after a newer one."""

import pytest

from components.node_agent.simulated import Fault
from schemas.codec import BadRequest, decode
from schemas.enums import Reason, UpdateState
from schemas.limits import Amount, Limits
from schemas.message import Message, Wire
from schemas.node import StatusRequest, UpdateReply
from schemas.resources import Fence
from tests.node_agent.driver import NODE, Driver, of_type

FIRST = Limits(cpu_limit=500, memory_limit=256)


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.runtime.world.add("app", FIRST, usage=Amount(cpu=100, memory=64))
    driver.runtime.world.add("other", FIRST)
    return driver.start()


def test_a_command_is_carried_out_and_answered_with_what_is_in_force(driver: Driver) -> None:
    reply = driver.update(driver.command(5, cpu_limit=2000, memory_limit=512))
    assert reply.success
    assert driver.limits() == Limits(cpu_limit=2000, memory_limit=512)
    assert reply.actual is not None
    assert (reply.actual.cpu_limit, reply.actual.memory_limit) == (2000, 512)
    assert (reply.status.actual_cpu_limit, reply.status.update_state) == (2000, UpdateState.SUCCESS)
    assert (reply.generation, reply.attempt, reply.action_id) == (5, 1, "a5")
    assert (reply.boot_id, reply.fence) == (7, Fence(generation=5, attempt=1))
    assert reply.seq > driver.snapshot.seq


def test_an_older_generation_is_refused_with_the_fence(driver: Driver) -> None:
    driver.update(driver.command(5, cpu_limit=2000))
    reply = driver.update(driver.command(4, cpu_limit=1000, attempt=9))
    assert (reply.success, reply.reason) == (False, Reason.SUPERSEDED)
    assert reply.fence == Fence(generation=5, attempt=1)
    assert driver.limits().cpu_limit == 2000


def test_a_lower_attempt_of_the_same_generation_is_refused(driver: Driver) -> None:
    driver.update(driver.command(5, cpu_limit=2000, attempt=2))
    assert driver.update(driver.command(5, cpu_limit=1000)).reason is Reason.SUPERSEDED


def test_the_same_height_from_another_action_is_refused(driver: Driver) -> None:
    driver.update(driver.command(5, cpu_limit=2000))
    assert driver.update(driver.command(5, cpu_limit=1000, action_id="other")).reason is Reason.SUPERSEDED


def test_a_retry_with_a_higher_attempt_is_carried_out(driver: Driver) -> None:
    driver.runtime.fault("app", Fault.FAIL)
    assert driver.update(driver.command(5, cpu_limit=2000)).reason is Reason.RUNTIME_ERROR
    assert driver.update(driver.command(5, cpu_limit=2000, attempt=2)).success


def test_a_repeat_gets_the_stored_answer_and_changes_nothing(driver: Driver) -> None:
    first = driver.update(driver.command(5, cpu_limit=2000))
    driver.runtime.world.set_limits("app", Limits(cpu_limit=700))
    again = driver.update(driver.command(5, cpu_limit=2000))
    assert again.in_reply_to != first.in_reply_to
    assert again.model_copy(update={"in_reply_to": first.in_reply_to}) == first
    assert (driver.limits().cpu_limit, driver.runtime.updates) == (700, 1)


def test_a_repeat_of_a_failure_gets_the_failure_again(driver: Driver) -> None:
    driver.runtime.fault("app", Fault.FAIL)
    driver.update(driver.command(5, cpu_limit=2000))
    assert driver.update(driver.command(5, cpu_limit=2000)).reason is Reason.RUNTIME_ERROR
    assert driver.runtime.updates == 1


def test_a_repeat_of_a_running_command_says_nothing_yet_and_the_answer_names_the_newer_id(driver: Driver) -> None:
    driver.give(driver.command(5, cpu_limit=2000, request_id="first"))
    assert driver.give(driver.command(5, cpu_limit=2000, request_id="again")) == []
    assert len(driver.updates_waiting()) == 1
    assert [reply.in_reply_to for reply in of_type(driver.run_updates(), UpdateReply)] == ["again"]


def test_a_refused_command_raises_the_fence_all_the_same(driver: Driver) -> None:
    """Otherwise the one before it could still come late and be carried out."""
    assert driver.update(driver.command(6, cpu_limit=999_000)).reason is Reason.INFEASIBLE
    reply = driver.update(driver.command(5, cpu_limit=2000))
    assert (reply.reason, reply.fence) == (Reason.SUPERSEDED, Fence(generation=6, attempt=1))


def test_a_command_for_another_boot_is_expired_with_the_present_one(driver: Driver) -> None:
    reply = driver.update(driver.command(5, cpu_limit=2000, boot_id=6))
    assert (reply.reason, reply.boot_id) == (Reason.EXPIRED, 7)
    assert driver.limits() == FIRST


def test_a_command_for_another_container_of_that_name_is_refused_and_raises_the_fence(driver: Driver) -> None:
    reply = driver.update(driver.command(5, cpu_limit=2000, runtime_id="f" * 64))
    assert (reply.reason, reply.fence) == (Reason.UNKNOWN_WORKLOAD, Fence(generation=5, attempt=1))
    assert driver.limits() == FIRST


def test_the_fence_stays_when_the_container_goes_and_returns(driver: Driver) -> None:
    driver.update(driver.command(5, cpu_limit=2000))
    driver.runtime.world.remove("app")
    driver.runtime.world.add("app", FIRST)
    assert driver.update(driver.command(4, cpu_limit=1000)).reason is Reason.SUPERSEDED
    assert driver.update(driver.command(6, cpu_limit=1000)).success


def test_name_and_full_id_share_one_fence(driver: Driver) -> None:
    driver.update(driver.command(5, cpu_limit=2000))
    full_id = driver.runtime.resolve("app").id
    assert driver.update(driver.command(4, workload=full_id)).reason is Reason.SUPERSEDED


def test_fences_of_different_containers_are_apart(driver: Driver) -> None:
    driver.update(driver.command(5, cpu_limit=2000))
    assert driver.update(driver.command(4, workload="other", cpu_limit=2000)).success


def test_a_change_by_hand_is_carried_out_without_touching_the_fence(driver: Driver) -> None:
    reply = driver.update(driver.request(cpu_limit=900))
    assert (reply.success, reply.generation, reply.fence) == (True, None, None)
    assert driver.update(driver.command(1, cpu_limit=800)).success


def test_a_repeated_change_by_hand_gets_the_same_answer_and_changes_nothing(driver: Driver) -> None:
    first = driver.update(driver.request(cpu_limit=900, request_id="mine"))
    driver.runtime.world.set_limits("app", Limits(cpu_limit=700))
    assert driver.update(driver.request(cpu_limit=900, request_id="mine")) == first
    assert driver.limits().cpu_limit == 700


def test_a_person_who_uses_an_id_again_for_another_wish_gets_that_wish(driver: Driver) -> None:
    driver.update(driver.request(cpu_limit=900, request_id="1"))
    assert driver.update(driver.request(cpu_limit=1100, request_id="1")).success
    assert driver.limits().cpu_limit == 1100


def test_one_write_at_a_time_per_container_the_next_waits_for_its_turn(driver: Driver) -> None:
    driver.give(driver.command(5, cpu_limit=2000))
    driver.give(driver.command(6, cpu_limit=3000))
    driver.give(driver.command(1, workload="other", cpu_limit=600))
    assert len(driver.updates_waiting()) == 2  # one of each container
    replies = of_type(driver.run_updates(), UpdateReply)
    assert [reply.generation for reply in replies if reply.workload_id == "app"] == [5, 6]
    assert driver.limits().cpu_limit == 3000


def test_of_several_that_wait_only_the_newest_is_carried_out(driver: Driver) -> None:
    driver.give(driver.command(5, cpu_limit=2000))
    driver.give(driver.command(6, cpu_limit=3000))
    said = driver.give(driver.command(7, cpu_limit=4000))
    assert [(reply.generation, reply.reason) for reply in of_type(said, UpdateReply)] == [(6, Reason.SUPERSEDED)]
    assert [reply.generation for reply in of_type(driver.run_updates(), UpdateReply)] == [5, 7]
    assert driver.runtime.updates == 2


def test_a_change_by_hand_does_not_push_a_waiting_command_aside(driver: Driver) -> None:
    driver.give(driver.command(5, cpu_limit=2000))
    driver.give(driver.command(6, cpu_limit=3000))
    assert driver.update(driver.request(cpu_limit=100)).reason is Reason.OVERLOADED
    assert driver.limits().cpu_limit == 3000


def test_a_repeat_of_the_running_command_leaves_the_one_that_waits_alone(driver: Driver) -> None:
    driver.give(driver.command(5, cpu_limit=2000))
    driver.give(driver.request(cpu_limit=900, request_id="by-hand"))
    driver.give(driver.command(5, cpu_limit=2000, request_id="again"))
    assert [reply.in_reply_to for reply in of_type(driver.run_updates(), UpdateReply)] == ["again", "by-hand"]
    assert driver.limits().cpu_limit == 900


def test_what_waits_past_its_deadline_is_answered_and_never_begins(driver: Driver) -> None:
    driver.give(driver.command(5, cpu_limit=2000))
    driver.give(driver.command(6, cpu_limit=3000, deadline_ms=1000))
    said = driver.advance(1.1)
    replies = of_type(said, UpdateReply)
    assert [(reply.generation, reply.reason) for reply in replies] == [(6, Reason.RUNTIME_TIMEOUT)]
    assert "nothing was begun" in replies[0].message
    assert [reply.generation for reply in of_type(driver.run_updates(), UpdateReply)] == [5]
    assert driver.limits().cpu_limit == 2000


def test_a_command_that_reaches_the_pool_too_late_never_begins(driver: Driver) -> None:
    driver.give(driver.command(5, cpu_limit=2000, deadline_ms=1000))
    driver.clock.seconds += 1.1
    assert of_type(driver.run_updates(), UpdateReply)[0].reason is Reason.RUNTIME_TIMEOUT
    assert (driver.limits(), driver.runtime.updates) == (FIRST, 0)


def test_nor_is_it_compared_with_what_is_in_force(driver: Driver) -> None:
    """A success that is told after the deadline would surprise whoever has given up."""
    driver.give(driver.command(5, cpu_limit=500, deadline_ms=1000))
    driver.clock.seconds += 1.1
    assert of_type(driver.run_updates(), UpdateReply)[0].reason is Reason.RUNTIME_TIMEOUT


def test_a_repeat_does_not_prolong_the_deadline(driver: Driver) -> None:
    driver.give(driver.command(5, cpu_limit=2000))
    driver.give(driver.command(6, cpu_limit=3000, deadline_ms=1000))
    driver.advance(0.8)
    driver.give(driver.command(6, cpu_limit=3000, deadline_ms=1000, request_id="again"))
    replies = of_type(driver.advance(0.4), UpdateReply)
    assert [(reply.in_reply_to, reply.reason) for reply in replies] == [("again", Reason.RUNTIME_TIMEOUT)]


def test_more_than_can_wait_is_overloaded(driver: Driver) -> None:
    for number in range(300):
        driver.runtime.world.add(f"c{number}", FIRST)
    said = [reply for number in range(300) for reply in driver.give(driver.command(1, workload=f"c{number}"))]
    reasons = [reply.reason for reply in of_type(said, UpdateReply)]
    assert reasons == [Reason.OVERLOADED] * (300 - 256 - 8)
    assert len(driver.updates_waiting()) == 8
    driver.run_updates()
    assert driver.runtime.updates == 264


def test_a_request_without_limits_is_refused(driver: Driver) -> None:
    assert driver.update(driver.request()).reason is Reason.INVALID_TARGET


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"id": "1", "workload_id": "app", "cpu_limit": 0}', Reason.INVALID_TARGET),
        (b'{"id": "1", "workload_id": "app", "memory_limit": 0}', Reason.INVALID_TARGET),
        (b'{"id": "1", "workload_id": "app", "cpu_limit": -1}', Reason.INVALID_TARGET),
        (b'{"id": "1", "workload_id": "app", "cpu_shares": 1}', Reason.INVALID_TARGET),
        (b'{"id": "1", "workload_id": "app", "cpu_shares": 300000}', Reason.INVALID_TARGET),
        (b'{"id": "1", "workload_id": "app", "cpuset_cpus": "one"}', Reason.INVALID_TARGET),
        (b'{"id": "1", "workload_id": "app", "memory_swap": 1}', Reason.UNSUPPORTED),
        (b'{"id": "1", "workload_id": "app", "hugepages": 1}', Reason.UNSUPPORTED),
    ],
)
def test_a_bad_value_is_answered_in_json_as_it_was_asked(driver: Driver, body: bytes, reason: Reason) -> None:
    item = decode(f"node/{NODE}/update", body)
    assert isinstance(item, BadRequest)
    reply = of_type(driver.give(item), UpdateReply)[0]
    assert (reply.in_reply_to, reply.reason, reply.wire, reply.success) == ("1", reason, Wire.JSON, False)
    assert reply.message


def test_an_unknown_workload_is_told_so(driver: Driver) -> None:
    reply = driver.update(driver.request("nobody", cpu_limit=100))
    assert (reply.reason, reply.workload_id, reply.actual) == (Reason.UNKNOWN_WORKLOAD, "nobody", None)


def test_a_request_whose_handling_fails_is_answered(driver: Driver) -> None:
    request = driver.request(cpu_limit=100)
    outputs = driver.agent.failed(request, RuntimeError("broken"), driver.now)
    assert outputs is not None
    reply = outputs[0]
    assert isinstance(reply, UpdateReply)
    assert (reply.in_reply_to, reply.reason) == (request.id, Reason.RUNTIME_ERROR)


def test_a_generation_that_nothing_could_come_after_is_refused(driver: Driver) -> None:
    """Carried out, it would block the container until the agent is started anew."""
    reply = driver.update(driver.command(2**53, cpu_limit=2000))

    assert (reply.success, reply.reason) == (False, Reason.INVALID_TARGET)
    assert driver.limits() == FIRST
    assert driver.update(driver.command(5, cpu_limit=2000)).success


def of_a_later_boot(driver: Driver, asked: str, boot_id: int) -> Message:
    if asked == "a question":
        return StatusRequest(id="q", node=NODE, boot_id=boot_id)
    return driver.command(5, cpu_limit=2000).model_copy(update={"boot_id": boot_id})


@pytest.mark.parametrize("asked", ["a question", "a command"])
def test_an_agent_that_hears_of_a_later_boot_of_itself_begins_anew_above_it(driver: Driver, asked: str) -> None:
    driver.give(of_a_later_boot(driver, asked, 7))
    assert driver.agent.renewal is None

    driver.give(of_a_later_boot(driver, asked, 9_000))

    assert driver.outlived == [9_000]
    assert driver.agent.renewal == "boot 9000 of this agent is known, this one is only 7"


@pytest.mark.parametrize("asked", ["a question", "a command"])
def test_it_does_not_when_it_could_not_come_above_it(driver: Driver, asked: str) -> None:
    driver.give(of_a_later_boot(driver, asked, 2**53))
    assert driver.agent.renewal is None

    driver.store_is_broken = True
    driver.give(of_a_later_boot(driver, asked, 9_000))
    assert driver.agent.renewal is None
