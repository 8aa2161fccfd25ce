"""An action that may wait for room is woken when room is freed, holds up nobody, and ends in time."""

from typing import Any

import pytest

from schemas.enums import ActionOutcome, OnShortage, Phase, Reason, Verdict
from schemas.resources import ValidateRequest
from schemas.scaling import ScalingStatus
from tests.action_controller.bench import Bench


def ended(bench: Bench, action_id: str) -> tuple[ActionOutcome | None, Reason | None]:
    status = bench.finals[action_id]
    return status.outcome, status.reason


SUPERSEDED = (ActionOutcome.REJECTED, Reason.SUPERSEDED)


def test_an_action_that_may_wait_does_so_when_there_is_no_room_now(bench: Bench) -> None:
    bench.act(on_shortage=OnShortage.WAIT)
    bench.refused(message="needs 3000m more")

    status = bench.only(ScalingStatus)
    assert (status.phase, status.state.value, status.outcome) == (Phase.WAITING, "PENDING", None)
    assert (status.reason, status.message) == (Reason.INSUFFICIENT_CPU, "needs 3000m more")
    assert bench.said == [status]


@pytest.mark.parametrize("reason", [Reason.INFEASIBLE, Reason.UNKNOWN_NODE, Reason.NOT_RUNNING])
def test_it_does_not_wait_for_what_does_not_pass(bench: Bench, reason: Reason) -> None:
    bench.act(on_shortage=OnShortage.WAIT)
    bench.refused(reason=reason)

    assert ended(bench, "a-1") == (ActionOutcome.REJECTED, reason)


def test_memory_is_waited_for_as_well(bench: Bench) -> None:
    bench.act(on_shortage=OnShortage.WAIT)
    bench.refused(reason=Reason.INSUFFICIENT_MEMORY)

    assert bench.phases() == [("a-1", "waiting")]


def test_freed_capacity_wakes_whoever_waits_at_once_the_oldest_first(bench: Bench) -> None:
    bench.capacity(1000)
    bench.waits("a-1", "cam")
    bench.waits("a-2", "nav")

    bench.capacity(3000)

    asked = bench.heard(ValidateRequest)
    assert [(one.action_id, one.attempt, one.reserve) for one in asked] == [("a-1", 2, True), ("a-2", 2, True)]


def test_a_big_one_does_not_block_a_small_one(bench: Bench) -> None:
    bench.waits("big", "cam", cpu=7000)
    bench.waits("small", "nav", cpu=1000)
    bench.capacity(1000)

    bench.refused("big")
    assert bench.phases() == [("big", "waiting")]
    bench.granted("small")
    assert bench.phases() == [("small", "recording")]


@pytest.mark.parametrize(
    ("case", "news"),
    [
        ("less room", {"cpu": 900, "memory": 4096}),
        ("the same room", {"cpu": 1000, "memory": 4096}),
        ("room elsewhere", {"cpu": 7900, "memory": 8000, "node": "hpc-2"}),
    ],
)
def test_no_more_room_wakes_nobody(bench: Bench, case: str, news: dict[str, Any]) -> None:
    bench.capacity(1000)
    bench.waits()

    assert bench.capacity(**news) == [], case


@pytest.mark.parametrize(("cpu", "memory"), [(1001, 4096), (1000, 4097), (1001, 1)])
def test_more_of_either_resource_wakes(bench: Bench, cpu: int, memory: int) -> None:
    bench.capacity(1000)
    bench.waits()
    bench.capacity(cpu, memory)

    assert bench.only(ValidateRequest).attempt == 2


def test_who_does_not_wait_is_not_woken(bench: Bench) -> None:
    bench.up_to(Phase.RECORDING)
    assert bench.capacity(7900) == []


def test_it_looks_for_itself_too_should_the_news_be_lost(bench: Bench) -> None:
    bench.waits()
    bench.after(4.75)
    assert bench.said == []
    bench.after(0.25)
    assert bench.only(ValidateRequest).attempt > 1


def test_at_its_deadline_it_has_expired(bench: Bench) -> None:
    bench.waits(wait_s=12.0)
    for _ in range(2):
        bench.after(5)
        bench.refused(message="needs 3000m more")
    bench.after(1.75)
    assert bench.said == []
    bench.after(0.25)

    status = bench.only(ScalingStatus)
    assert (status.outcome, status.reason) == (ActionOutcome.REJECTED, Reason.EXPIRED)
    assert status.message == "no room came within 12 s: needs 3000m more"
    bench.after(60)
    assert bench.said == []


def test_a_refusal_after_the_deadline_is_the_end(bench: Bench) -> None:
    bench.act(on_shortage=OnShortage.WAIT, wait_s=2.0)
    bench.seconds += 3.0
    bench.refused()

    assert ended(bench, "a-1") == (ActionOutcome.REJECTED, Reason.EXPIRED)


def test_room_that_comes_is_taken(bench: Bench) -> None:
    bench.waits()
    bench.capacity(4000)
    bench.granted()
    bench.recorded()
    bench.updated()
    bench.judged(Verdict.SYNCHRONIZED)

    assert bench.only(ScalingStatus).outcome is ActionOutcome.COMPLETED


def test_a_newer_action_takes_the_place_of_one_that_waits_for_room_at_once(bench: Bench) -> None:
    bench.waits("a-1")
    bench.act("a-2", cpu=2500)

    assert bench.phases() == [("a-2", "accepted"), ("a-1", "done"), ("a-2", "validating")]
    assert ended(bench, "a-1") == SUPERSEDED
    assert bench.capacity(7900) == [], "it waits no more"
    bench.granted("a-2")
    assert bench.phases() == [("a-2", "recording")]


def test_who_came_while_it_was_asked_about_does_not_wait_behind_one_that_waits_for_room(bench: Bench) -> None:
    bench.act("a-1", on_shortage=OnShortage.WAIT, wait_s=3600.0)
    bench.act("a-2", cpu=2500)
    bench.refused("a-1")

    assert ended(bench, "a-1") == SUPERSEDED
    assert bench.only(ValidateRequest).action_id == "a-2"


def test_the_order_of_arrival_is_kept_when_one_waits_for_room(bench: Bench) -> None:
    bench.act("a-1", on_shortage=OnShortage.WAIT)
    bench.act("a-2", cpu=2500)
    bench.refused("a-1")
    bench.act("a-3", cpu=2600)

    bench.granted("a-2")
    bench.recorded("a-2")
    bench.updated("a-2")
    bench.judged(Verdict.SYNCHRONIZED, "a-2")
    assert bench.phases() == [("a-2", "done"), ("a-3", "validating")]
