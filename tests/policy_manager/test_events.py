"""Every performance event gets exactly one outcome, however often it comes and whatever becomes of its action."""

from pathlib import Path
from typing import Any

import pytest

from components.policy_manager import build
from components.policy_manager.manager import STATE_GRACE_S
from components.settings import PolicyManagerSettings, PolicySettings, Settings
from schemas.codec import BadRequest, Cleared, decode, pack
from schemas.enums import ActionOutcome, CauseType, EventOutcome, OnShortage, Phase, Reason, TaskState
from schemas.limits import Limits
from schemas.message import Wire
from schemas.performance import PerfOutcome
from schemas.resources import ResourceState
from schemas.scaling import ScalingAction, ScalingStatus
from tests.policy_manager.desk import BUSY, IDLE, LIMITS, Desk, degraded, final, recovered, state


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A PolicyManager that knows the workload `nav`."""
    desk = Desk(tmp_path)
    desk.hear(state())
    return desk


def test_a_degraded_workload_gets_an_action_that_names_all_it_rests_on(desk: Desk) -> None:
    action = desk.action(degraded("e-1"))
    assert (action.action_id, action.node, action.workload_id) == ("act-e-1", "hpc-1", "nav")
    assert action.id == action.action_id
    assert action.current == LIMITS
    assert action.target == Limits(cpu_limit=2000)
    assert action.base_generation == 7
    assert (action.cause.type, action.cause.event_id) == (CauseType.PERF, "e-1")
    assert (action.dry_run, action.on_shortage) == (False, OnShortage.REJECT)


@pytest.mark.parametrize(
    ("ended", "reason", "outcome"),
    [
        (ActionOutcome.COMPLETED, None, EventOutcome.COMPLETED),
        (ActionOutcome.REJECTED, Reason.INSUFFICIENT_CPU, EventOutcome.REJECTED),
        (ActionOutcome.FAILED, Reason.RUNTIME_ERROR, EventOutcome.FAILED),
        (ActionOutcome.INCONSISTENT, Reason.PARTIAL, EventOutcome.INCONSISTENT),
    ],
)
def test_how_the_action_ends_is_the_outcome_of_the_event(
    desk: Desk, ended: ActionOutcome, reason: Reason | None, outcome: EventOutcome
) -> None:
    action = desk.action(degraded("e-1"))
    status = final(action, ended, reason)
    said = desk.outcome(status)
    assert (said.event_id, said.node, said.workload_id) == ("e-1", "hpc-1", "nav")
    assert (said.action_id, said.outcome, said.reason) == ("act-e-1", outcome, reason)
    assert said.message == status.message
    assert desk.outcome(degraded("e-1")) == said, "the event again: the same outcome"


def test_an_action_is_repeated_as_it_was_until_its_final_status(desk: Desk) -> None:
    action = desk.action(degraded("e-1"))
    assert desk.wait(8) == [action, action, action]
    running = ScalingStatus(
        action_id="act-e-1", node="hpc-1", workload_id="nav", state=TaskState.RUNNING, phase=Phase.UPDATING
    )
    assert desk.hear(running) == []
    assert desk.wait(16) == [action]
    desk.hear(final(action))
    assert desk.wait(100) == []


def test_an_event_whose_action_is_open_is_not_decided_again(desk: Desk) -> None:
    action = desk.action(degraded("e-1"))
    assert desk.hear(degraded("e-1")) == []
    assert desk.hear(degraded("e-1", usage=IDLE)) == []
    assert desk.spoken(desk.manager.connected(desk.instant)) == [action]


def test_a_final_status_that_comes_again_changes_nothing(desk: Desk) -> None:
    action = desk.action(degraded("e-1"))
    first = desk.outcome(final(action))
    assert desk.hear(final(action)) == []
    assert desk.hear(final(action, ActionOutcome.FAILED, Reason.RUNTIME_ERROR)) == []
    assert desk.outcome(degraded("e-1")) == first


def test_a_second_event_while_the_action_is_open_gets_its_own_outcome_at_once(desk: Desk) -> None:
    action = desk.action(degraded("e-1"))
    second = desk.outcome(degraded("e-2"))
    assert (second.event_id, second.outcome, second.reason) == ("e-2", EventOutcome.NOT_REQUIRED, Reason.COOLDOWN)
    assert second.action_id is None
    assert action.action_id in second.message
    desk.hear(final(action))
    assert desk.outcome(degraded("e-2")) == second


def test_workloads_are_scaled_independently(desk: Desk) -> None:
    desk.hear(state(workload="radio"))
    desk.action(degraded("e-1"))
    assert desk.action(degraded("e-2", workload="radio")).workload_id == "radio"


def test_a_recovery_needs_nothing(desk: Desk) -> None:
    said = desk.outcome(recovered("e-1"))
    assert (said.outcome, said.reason, said.action_id) == (EventOutcome.NOT_REQUIRED, None, None)


@pytest.mark.parametrize("ended", list(ActionOutcome))
def test_the_cooldown_begins_however_the_action_ended(desk: Desk, ended: ActionOutcome) -> None:
    desk.hear(final(desk.action(degraded("e-1")), ended))
    desk.wait(9.5)
    assert desk.outcome(degraded("e-2")).reason is Reason.COOLDOWN
    desk.wait(0.5)
    assert desk.action(degraded("e-3")).action_id == "act-e-3"


def test_the_next_scaling_starts_from_what_is_in_force_then(desk: Desk) -> None:
    desk.hear(final(desk.action(degraded("e-1"))))
    desk.hear(state(generation=8, actual=Limits(cpu_limit=2000, memory_limit=512)))
    desk.wait(10)
    action = desk.action(degraded("e-2", usage=BUSY.model_copy(update={"cpu": 1900})))
    assert (action.target, action.base_generation) == (Limits(cpu_limit=4000), 8)


def test_a_json_event_is_answered_in_json_and_others_as_configured(desk: Desk) -> None:
    assert desk.outcome(recovered("e-1"), Wire.JSON).wire is Wire.JSON
    assert desk.outcome(recovered("e-1")).wire is Wire.MSGPACK
    action = desk.action(degraded("e-2"), Wire.JSON)
    assert action.wire is Wire.MSGPACK
    assert desk.outcome(final(action)).wire is Wire.JSON
    assert desk.outcome(degraded("e-2"), Wire.JSON).wire is Wire.JSON


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"usage": {"cpu": -1, "memory": 1}}, id="a use below nothing"),
        pytest.param({"limits": {"cpu_limit": 0}}, id="a limit of nothing"),
        pytest.param({"episode_id": ""}, id="no episode"),
    ],
)
def test_an_event_with_a_bad_value_ends_at_once_and_once(desk: Desk, wrong: dict[str, Any]) -> None:
    body = degraded("e-1").model_dump(mode="json", exclude_none=True) | wrong
    bad = decode("perf/degraded", pack(body, Wire.JSON))
    assert isinstance(bad, BadRequest)

    (first,) = desk.spoken(desk.manager.handle(bad, desk.instant))
    assert isinstance(first, PerfOutcome)
    assert (first.event_id, first.node, first.workload_id) == ("e-1", "hpc-1", "nav")
    assert (first.outcome, first.reason) == (EventOutcome.FAILED, Reason.INVALID_TARGET)
    assert next(iter(wrong)) in first.message
    desk.wait(5)
    assert desk.spoken(desk.manager.handle(bad, desk.instant)) == [first]
    desk.restart()
    assert desk.outcome(degraded("e-1")) == first.model_copy(update={"wire": Wire.MSGPACK})


def test_an_event_id_of_full_length_still_gives_an_action_id(desk: Desk) -> None:
    long = "e" * 256
    action = desk.action(degraded(long))
    assert len(action.action_id) <= 256
    assert desk.outcome(final(action)).event_id == long


def test_a_state_that_is_gone_is_no_base_for_a_decision(desk: Desk) -> None:
    desk.hear(Cleared(ResourceState, {"node": "hpc-1", "workload_id": "nav"}))
    assert desk.outcome(degraded("e-1")).reason is Reason.NO_DATA


def test_after_a_start_an_event_waits_for_the_retained_state_behind_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path, connect=False)
    desk.manager.connected(desk.instant)
    assert desk.hear(degraded("e-1")) == []
    assert desk.hear(degraded("e-1")) == []
    assert desk.outcome(recovered("e-2")).outcome is EventOutcome.NOT_REQUIRED
    desk.hear(state())
    (action,) = desk.wait(0.5)
    assert isinstance(action, ScalingAction)
    assert action.cause.event_id == "e-1"


def test_but_not_for_ever(tmp_path: Path) -> None:
    desk = Desk(tmp_path, connect=False)
    desk.manager.connected(desk.instant)
    assert desk.hear(degraded("e-1")) == []
    (said,) = desk.wait(STATE_GRACE_S)
    assert isinstance(said, PerfOutcome)
    assert said.reason is Reason.NO_DATA
    assert desk.outcome(degraded("e-1")) == said


def test_policies_apply_by_name_and_glob(tmp_path: Path) -> None:
    policies = (PolicySettings(workload="nav_*", factor=3), PolicySettings(workload="radio", factor=4))
    desk = Desk(tmp_path, *policies)
    targets = []
    for workload in ("nav_map", "radio", "other"):
        desk.hear(state(workload=workload))
        targets.append(desk.action(degraded(f"e-{workload}", workload=workload)).target.cpu_limit)
    assert targets == [3000, 4000, 2000]


def test_decisions_are_counted_for_prometheus(desk: Desk) -> None:
    desk.action(degraded("e-1"))
    desk.hear(degraded("e-2"))
    desk.hear(recovered("e-3"))
    desk.pause(node="hpc-9")
    shown = {(s.name, *s.labels.values()): s.value for family in desk.manager.samples() for s in family.samples}
    assert shown["piriscale_policy_decisions_total", "SCALE"] == 1
    assert shown["piriscale_policy_decisions_total", "COOLDOWN"] == 1
    assert shown["piriscale_policy_decisions_total", "NONE"] == 1
    assert shown["piriscale_policy_open_actions",] == 1
    assert shown["piriscale_policy_pauses",] == 1


def test_it_is_built_as_configured_and_hears_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    built = build(Settings(policy_manager=PolicyManagerSettings(database=path)), lambda item: None)
    assert [s.filter for s in built.subscriptions()] == [
        "perf/degraded",
        "perf/recovered",
        "scaling/status",
        "resources/state/+/+",
        "control/scaling",
    ]
    assert all(s.qos == 1 for s in built.subscriptions())
    assert (built.role, built.instance, built.persistent, built.problem) == ("policy_manager", "main", True, None)
    built.close()
    assert path.exists()


def test_what_it_does_not_know_is_nothing_to_it(desk: Desk) -> None:
    stray = PerfOutcome(event_id="e", node="hpc-1", workload_id="nav", outcome=EventOutcome.FAILED)
    assert desk.hear(stray) == []
    assert desk.manager.failed(stray, ValueError(), desk.instant) is None
