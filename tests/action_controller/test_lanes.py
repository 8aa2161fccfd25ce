"""Who runs and who waits: one action per workload at a time, the newest waiting one next."""

from typing import Any

import pytest

from schemas.enums import ActionOutcome, Phase, Reason, Verdict
from schemas.resources import ValidateRequest
from schemas.scaling import ScalingStatus
from tests.action_controller.bench import Bench


def ended(bench: Bench, action_id: str) -> tuple[ActionOutcome | None, Reason | None]:
    status = bench.finals[action_id]
    return status.outcome, status.reason


SUPERSEDED = (ActionOutcome.REJECTED, Reason.SUPERSEDED)


@pytest.mark.parametrize("phase", [Phase.VALIDATING, Phase.RECORDING, Phase.UPDATING, Phase.CONFIRMING])
def test_a_second_action_waits_until_the_first_has_ended(bench: Bench, phase: Phase) -> None:
    bench.up_to(phase, "a-1")
    bench.act("a-2")
    assert bench.phases() == [("a-2", "accepted")]
    assert bench.heard(ValidateRequest) == []

    bench.after(0.25)
    while "a-1" not in bench.finals:
        step: Any = {
            Phase.VALIDATING: bench.granted,
            Phase.RECORDING: bench.recorded,
            Phase.UPDATING: bench.updated,
            Phase.CONFIRMING: lambda: bench.judged(Verdict.SYNCHRONIZED),
        }[phase]
        step()
        if "a-1" not in bench.finals:
            phase = bench.only(ScalingStatus).phase
    assert bench.phases() == [("a-1", "done"), ("a-2", "validating")]
    assert bench.only(ValidateRequest).action_id == "a-2"


def test_a_newer_one_takes_the_place_of_the_one_that_waits(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING, "a-1")
    bench.act("a-2")
    bench.act("a-3")

    assert bench.phases() == [("a-3", "accepted"), ("a-2", "done")]
    assert ended(bench, "a-2") == SUPERSEDED
    bench.updated("a-1")
    bench.judged(Verdict.SYNCHRONIZED, "a-1")
    assert bench.phases() == [("a-1", "done"), ("a-3", "validating")]


def test_other_workloads_and_the_same_name_on_another_node_run_beside_it(bench: Bench) -> None:
    bench.up_to(Phase.UPDATING, "a-1")
    bench.act("a-2", workload="nav")
    assert bench.only(ValidateRequest).workload_id == "nav"
    bench.act("a-3", node="hpc-2")
    assert bench.only(ValidateRequest).node == "hpc-2"


def test_a_workload_whose_action_failed_is_free_for_the_next(bench: Bench) -> None:
    bench.act("a-1")
    bench.refused("a-1")
    bench.act("a-2")
    assert bench.phases() == [("a-2", "accepted"), ("a-2", "validating")]
