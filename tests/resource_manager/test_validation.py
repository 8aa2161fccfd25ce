"""Asking for room: what is granted, what is refused and why, and that nothing is granted twice."""

from typing import Any

import pytest

from components.resource_manager.records import Stage
from schemas.enums import Reason, Verdict
from schemas.limits import Amount, Limits
from schemas.message import Wire
from schemas.node import Capability
from schemas.resources import NodeCapacity, ValidateReply
from tests.resource_manager.bench import NODE, Bench, container, settings


def test_the_example_of_the_requirements_is_refused_with_its_numbers(bench: Bench) -> None:
    reply = bench.validate(cpu=5000)

    assert not reply.allowed
    assert reply.reason is Reason.INSUFFICIENT_CPU
    assert reply.message == (
        "needs 3000m more CPU, node hpc-1 has 2000m available: total 8000m − allocated 5000m − reserved 1000m"
    )
    assert reply.available == Amount(cpu=2000, memory=16_384 - 3072 - 1024)
    assert (reply.node, reply.workload_id) == (NODE, "cam")


def test_both_short_names_cpu_as_the_reason_and_both_in_the_message(bench: Bench) -> None:
    reply = bench.validate(cpu=5000, memory=15_000)

    assert reply.reason is Reason.INSUFFICIENT_CPU
    assert "more CPU" in reply.message
    assert "more memory" in reply.message


def test_what_is_available_is_granted_and_is_a_reservation(bench: Bench) -> None:
    reply = bench.validate(cpu=4000)

    assert reply.allowed
    assert reply.reason is None
    assert bench.only(NodeCapacity).available.cpu == 0
    assert bench.capacity().allocated.cpu == 7000


def test_asking_without_reserving_takes_no_room_and_leaves_nothing(bench: Bench) -> None:
    assert bench.validate(cpu=4000, reserve=False).allowed

    assert bench.said == bench.heard(ValidateReply)
    assert bench.capacity().available.cpu == 2000
    assert bench.manager.ledger.row("a-1") is None
    assert not bench.validate(cpu=5000, reserve=False).allowed
    assert bench.manager.ledger.row("a-1") is None


def test_somebody_without_an_action_may_ask_too(bench: Bench) -> None:
    assert bench.validate(action_id=None, cpu=4000, reserve=False).allowed


def test_of_two_that_ask_for_the_last_room_exactly_one_gets_it(bench: Bench) -> None:
    first = bench.validate("a-1", "cam", cpu=4000)
    second = bench.validate("a-2", "nav", cpu=5000)

    assert first.allowed
    assert not second.allowed
    assert second.reason is Reason.INSUFFICIENT_CPU
    assert "2000m more CPU, node hpc-1 has 0m available" in second.message


def test_the_same_question_gets_the_same_answer_and_changes_nothing(bench: Bench) -> None:
    granted = bench.validate("a-1", "cam", cpu=4000)
    refused = bench.validate("a-2", "nav", cpu=5000)
    capacity = bench.capacity()

    assert bench.validate("a-1", "cam", cpu=4000) == granted
    assert bench.said == [granted]
    bench.snapshot(container("cam"), container("nav", 1000, 1024))  # now there would be room
    assert bench.validate("a-2", "nav", cpu=5000) == refused
    assert bench.capacity().allocated.cpu == capacity.allocated.cpu - 2000


def test_a_refused_one_leaves_a_closed_row_that_a_late_copy_cannot_open(bench: Bench) -> None:
    bench.validate("a-1", "cam", cpu=5000)
    row = bench.manager.ledger.row("a-1")
    assert row is not None
    assert row.stage is Stage.CLOSED
    bench.snapshot(container("cam"), container("nav", 1000, 1024))

    assert not bench.validate("a-1", "cam", cpu=5000).allowed
    assert bench.capacity().allocated.cpu == 3000


def test_the_next_attempt_of_a_refused_action_is_judged_anew(bench: Bench) -> None:
    bench.validate("a-1", "cam", cpu=5000)
    bench.snapshot(container("cam"), container("nav", 1000, 1024))

    assert bench.validate("a-1", "cam", cpu=5000, attempt=2).allowed
    assert bench.capacity().allocated.cpu == 6000


def test_an_action_that_begins_again_after_a_crash_is_told_of_what_it_holds(bench: Bench) -> None:
    bench.validate("a-1", "cam", cpu=5000)
    bench.snapshot(container("cam"), container("nav", 1000, 1024))
    bench.validate("a-1", "cam", cpu=5000, attempt=2)

    assert bench.validate("a-1", "cam", cpu=5000).allowed, "attempt 1 was refused, but attempt 2 holds room"
    assert bench.capacity().allocated.cpu == 6000


def test_a_late_copy_of_an_attempt_whose_answer_is_forgotten_opens_nothing(bench: Bench) -> None:
    for attempt in range(1, 19):
        bench.validate("a-1", "cam", cpu=5000, attempt=attempt)
    bench.snapshot(container("cam"), container("nav", 1000, 1024))

    late = bench.validate("a-1", "cam", cpu=5000, attempt=2)

    assert not late.allowed
    assert late.reason is Reason.EXPIRED
    assert bench.capacity().allocated.cpu == 3000


def test_a_later_attempt_meets_the_reservation_it_already_has(bench: Bench) -> None:
    bench.validate("a-1", "cam", cpu=4000)

    assert bench.validate("a-1", "cam", cpu=4000, attempt=2).allowed
    assert bench.capacity().allocated.cpu == 7000


def test_while_another_action_is_under_way_the_answer_is_to_try_again(bench: Bench) -> None:
    bench.validate("a-1", "cam", cpu=2500)

    reply = bench.validate("a-2", "cam", cpu=2600)
    assert not reply.allowed
    assert reply.reason is Reason.OVERLOADED
    assert "a-1" in reply.message

    bench.record("a-1", cpu_limit=2500)
    assert bench.validate("a-2", "cam", cpu=2600, attempt=2).reason is Reason.OVERLOADED


def test_other_workloads_are_not_held_up_by_it(bench: Bench) -> None:
    bench.validate("a-1", "cam", cpu=2500)

    assert bench.validate("a-2", "nav", cpu=3500).allowed


def test_lowering_needs_no_room_even_on_a_full_node(bench: Bench) -> None:
    bench.snapshot(container("cam", 6000, 1024), container("nav", 6000, 2048))

    assert bench.capacity().available.cpu == 0
    assert bench.validate("a-1", "cam", cpu=5999).allowed
    assert bench.validate("a-2", "nav", cpu=6001).reason is Reason.INSUFFICIENT_CPU


def test_a_lowered_one_holds_its_old_room_until_the_kernel_shows_less(bench: Bench) -> None:
    recorded = bench.recorded("a-1", "cam", cpu_limit=500)
    assert bench.capacity().allocated.cpu == 5000

    bench.report("a-1", generation=recorded.generation, actual=Limits(cpu_limit=500, memory_limit=1024))
    assert bench.capacity().allocated.cpu == 3500


def test_a_container_without_limits_counts_by_what_it_uses(bench: Bench) -> None:
    bench.snapshot(container("cam", None, None, usage=(700, 300)), container("nav", 3000, 2048))

    assert bench.capacity().allocated == Amount(cpu=3700, memory=2348)
    assert bench.capacity().unlimited == ("cam",)
    assert bench.validate("a-1", "cam", cpu=4000).allowed
    assert bench.capacity().allocated.cpu == 7000


@pytest.mark.parametrize(
    ("case", "asked", "reason", "text"),
    [
        ("more than the node may ever give", {"cpu": 7001}, Reason.INFEASIBLE, "can never be given"),
        ("more memory than the node may ever give", {"memory": 16_000}, Reason.INFEASIBLE, "can never be given"),
        ("more than its policy allows", {"cpu": 2200}, Reason.INFEASIBLE, "maximum, 2100m"),
    ],
)
def test_what_can_never_be_given_says_so(case: str, asked: dict[str, Any], reason: Reason, text: str) -> None:
    bench = Bench(rules=settings(policy=({"workload": "ca*", "max": {"cpu": "2100m"}},)))
    bench.info()
    bench.snapshot(container("cam"))

    reply = bench.validate(**asked)

    assert (reply.allowed, reply.reason) == (False, reason), case
    assert text in reply.message


@pytest.mark.parametrize(
    ("case", "asked", "reason"),
    [
        ("a node that was never heard", {"node": "hpc-9"}, Reason.UNKNOWN_NODE),
        ("a container that is not there", {"workload": "radar"}, Reason.UNKNOWN_WORKLOAD),
        ("a container that does not run", {"workload": "old"}, Reason.NOT_RUNNING),
        ("a decision on an older state", {"base_generation": 7}, Reason.SUPERSEDED),
    ],
)
def test_what_cannot_be_scaled_says_why(bench: Bench, case: str, asked: dict[str, Any], reason: Reason) -> None:
    bench.snapshot(container("cam"), container("nav"), container("old", running=False))

    reply = bench.validate(**{"cpu": 2100, **asked})

    assert (reply.allowed, reply.reason) == (False, reason), case
    assert reply.message


def test_a_node_whose_agent_only_said_its_size_cannot_be_scaled_yet() -> None:
    bench = Bench()
    bench.info()

    assert bench.validate(cpu=100).reason is Reason.NODE_UNAVAILABLE


def test_a_node_of_unknown_size_grants_nothing() -> None:
    bench = Bench()
    bench.snapshot(container("cam"))

    reply = bench.validate(cpu=100)
    assert reply.reason is Reason.NODE_UNAVAILABLE
    assert "how large the node is" in reply.message


def test_a_limit_the_node_cannot_change_is_refused_with_the_remedy() -> None:
    bench = Bench()
    bench.info(capabilities={"cpu_limit": Capability(supported=False, reason="delegate the cpu controller")})
    bench.snapshot(container("cam"))

    reply = bench.validate(cpu=2100, memory=1100)

    assert reply.reason is Reason.UNSUPPORTED
    assert "delegate the cpu controller" in reply.message
    assert bench.validate("a-2", memory=1100).allowed


def test_a_full_container_id_is_answered_with_the_name(bench: Bench) -> None:
    reply = bench.validate(workload="nav-id-1", cpu=3500)

    assert reply.allowed
    assert reply.workload_id == "nav"
    assert bench.validate("a-2", "nav", cpu=3600).reason is Reason.OVERLOADED


def test_a_decision_on_the_present_state_is_granted_and_a_copy_of_it_is_not(bench: Bench) -> None:
    assert bench.validate("x", "cam", cpu=2000, base_generation=0, reserve=False).allowed  # unmanaged is 0
    first = bench.scaled("a-1", cpu_limit=2500)

    granted = bench.validate("a-2", cpu=3000, base_generation=first.generation)
    assert granted.allowed
    assert granted.generation == first.generation
    bench.record("a-2", cpu_limit=3000)

    doubled = bench.validate("a-3", cpu=4000, base_generation=first.generation)
    assert doubled.reason is Reason.SUPERSEDED
    assert bench.validate("a-2", cpu=3000, base_generation=first.generation) == granted


def test_a_json_question_gets_a_json_answer(bench: Bench) -> None:
    bench.hear_json("resources/validate", id="q", node=NODE, workload_id="cam", requested_cpu=2100)

    assert bench.only(ValidateReply).wire is Wire.JSON


def test_the_verdict_of_an_ended_action_answers_for_a_day(bench: Bench) -> None:
    done = bench.scaled("a-1", cpu_limit=2500)

    reply = bench.validate("a-1", cpu=2500, attempt=9)

    assert reply.verdict is Verdict.SYNCHRONIZED
    assert not reply.allowed
    assert reply.generation == done.generation
    assert bench.record("a-1", cpu_limit=2500, attempt=9).verdict is Verdict.SYNCHRONIZED


def test_an_action_for_weights_only_needs_no_room(bench: Bench) -> None:
    bench.snapshot(container("cam", 7000, 1024), container("nav", 3000, 2048))

    assert bench.validate("a-1", "cam").allowed
    assert bench.record("a-1", cpu_shares=512).success
    assert bench.state().desired == Limits(cpu_shares=512)


def test_a_reservation_for_no_action_is_refused_since_nothing_would_end_it(bench: Bench) -> None:
    before = bench.capacity()

    reply = bench.validate(None, cpu=3000)

    assert (reply.allowed, reply.reason) == (False, Reason.INVALID_TARGET)
    assert bench.capacity() == before


def test_every_answer_says_what_is_available(bench: Bench) -> None:
    bench.scaled("a-1", cpu_limit=2500)
    bench.recorded("a-2", "nav", cpu_limit=3100)

    of_an_ended_action = bench.validate("a-1", cpu=2500, attempt=2)
    of_one_that_is_further = bench.validate("a-2", "nav", cpu=3100, attempt=2)

    assert of_an_ended_action.available == of_one_that_is_further.available == bench.capacity().available


def test_after_a_restart_nothing_is_granted_beside_unlimited_containers_until_their_use_is_told(
    kept: Bench,
) -> None:
    """Use is not written down: the ledger knows that of an earlier time."""
    nav = container("nav", 3000, 2048)
    kept.snapshot(container("cam", None, 1024, usage=(100, 900)), nav)
    kept.snapshot(container("cam", None, 1024, usage=(3900, 900)), nav)
    assert kept.validate("a-1", "nav", cpu=6000).reason is Reason.INSUFFICIENT_CPU
    kept.manager.close()
    kept.manager = kept._open()

    early = kept.validate("a-2", "nav", cpu=6000)
    assert (early.allowed, early.reason) == (False, Reason.OVERLOADED)
    assert "what its unlimited containers use (cam)" in early.message
    kept.snapshot(container("cam", None, 1024, usage=(3900, 900)), nav)
    assert kept.validate("a-2", "nav", cpu=6000, attempt=2).reason is Reason.INSUFFICIENT_CPU
    assert kept.validate("a-3", "nav", cpu=3100).allowed
