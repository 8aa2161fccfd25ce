"""Bounds, bad values, and where ActionController stands among the others."""

import os
from pathlib import Path
from typing import Any

import pytest

from components.action_controller import build
from components.action_controller.controller import OPEN_ACTIONS_MAX, ActionController
from components.component import Component
from components.settings import Settings
from schemas.codec import Cleared, pack
from schemas.enums import ActionOutcome, OnShortage, Phase, Reason, Verdict
from schemas.limits import Limits
from schemas.message import Wire
from schemas.resources import ActualReport, NodeCapacity, ValidateRequest
from schemas.scaling import ScalingAction, ScalingStatus
from schemas.topics import TOPICS, Role
from tests.action_controller.bench import NODE, Bench

OPEN_PHASES = [Phase.VALIDATING, Phase.RECORDING, Phase.UPDATING, Phase.CONFIRMING]


@pytest.fixture
def bench(kept: Bench) -> Bench:
    """All of this is about what survives."""
    return kept


def test_ten_thousand_actions_may_be_open_and_the_next_is_refused_for_good() -> None:
    bench = Bench(retries=0)
    for number in range(OPEN_ACTIONS_MAX):
        action = ScalingAction(
            id="m",
            action_id=f"a-{number}",
            node=NODE,
            workload_id=f"w-{number}",
            target=Limits(cpu_limit=4000),
            on_shortage=OnShortage.WAIT,
        )
        bench.controller.handle(action, bench.now)
    assert OPEN_ACTIONS_MAX == 10_000

    bench.act("late")
    (status,) = bench.heard(ScalingStatus)
    assert bench.said == [status]
    assert (status.outcome, status.reason) == (ActionOutcome.REJECTED, Reason.OVERLOADED)
    assert bench.reconcile() == [], "ResourceManager repeats it"
    ended = next(f for f in bench.controller.samples() if f.name == "piriscale_scaling_actions")
    assert [one.value for one in ended.samples if one.labels["reason"] == "OVERLOADED"] == [1]

    bench.asked[ValidateRequest, "a-0"] = ValidateRequest(
        id="a-0:validate:1", node=NODE, workload_id="w-0", action_id="a-0"
    )
    bench.refused("a-0", reason=Reason.INFEASIBLE)
    assert bench.act("late") == [status], "a copy of it gets the same end, though there would be room"
    bench.act("later")
    assert bench.phases() == [("later", "accepted"), ("later", "validating")]


@pytest.mark.parametrize("wire", [Wire.JSON, Wire.MSGPACK])
@pytest.mark.parametrize(
    ("case", "body", "reason"),
    [
        ("a limit that is no number", {"target": {"cpu_limit": "much"}}, Reason.INVALID_TARGET),
        ("a limit of nothing", {"target": {"memory_limit": 0}}, Reason.INVALID_TARGET),
        ("a limit nobody can set", {"target": {"hugepages": 2}}, Reason.UNSUPPORTED),
        ("no target", {}, Reason.INVALID_TARGET),
        ("a wait without end", {"target": {"cpu_limit": 1}, "wait_s": 1e9}, Reason.INVALID_TARGET),
    ],
)
def test_an_action_with_a_bad_value_is_refused_in_words(
    bench: Bench, case: str, body: dict[str, Any], reason: Reason, wire: Wire
) -> None:
    sound = {"action_id": "a-1", "node": NODE, "workload_id": "cam"}
    bench.hear_bytes("scaling/action", pack({**sound, **body}, wire))

    status = bench.only(ScalingStatus)
    assert bench.said == [status], case
    assert (status.outcome, status.reason, status.wire) == (ActionOutcome.REJECTED, reason, wire)
    assert (status.action_id, status.node, status.workload_id) == ("a-1", NODE, "cam")
    assert status.message


@pytest.mark.parametrize("field", ["node", "workload_id"])
@pytest.mark.parametrize("value", ["", "front camera", "x" * 129, None])
def test_an_action_for_what_is_no_name_ends_too_so_that_its_sender_does_not_repeat_it_for_ever(
    bench: Bench, field: str, value: object
) -> None:
    names = {"node": NODE, "workload_id": "cam"}
    bench.hear_json("scaling/action", action_id="a-1", target={"cpu_limit": 4000}, **{**names, field: value})

    status = bench.only(ScalingStatus)
    assert (status.outcome, status.reason) == (ActionOutcome.REJECTED, Reason.INVALID_TARGET)
    assert {"node": status.node, "workload_id": status.workload_id} == {**names, field: "-"}
    assert field in status.message


def test_a_bad_copy_of_an_action_changes_nothing_of_the_good_one(bench: Bench) -> None:
    bad = {"action_id": "a-1", "node": NODE, "workload_id": "cam", "target": {"cpu_limit": "much"}}
    bench.act()
    assert bench.hear_json("scaling/action", **bad) == []
    bench.refused()
    ended = bench.only(ScalingStatus)
    assert bench.hear_json("scaling/action", **bad) == [ended.model_copy(update={"wire": Wire.JSON})]


def test_the_longest_id_goes_all_the_way(bench: Bench) -> None:
    longest, twin = "a" * 256, "a" * 255 + "b"
    bench.act(twin, workload="nav")
    bench.up_to(Phase.CONFIRMING, longest)
    assert bench.question(ValidateRequest, twin).id != bench.question(ValidateRequest, longest).id
    bench.judged(Verdict.SYNCHRONIZED, longest)
    assert bench.finals[longest].outcome is ActionOutcome.COMPLETED
    bench.restart()
    bench.reconcile("r" * 256)
    bench.updated("r" * 256)
    bench.judged(Verdict.SYNCHRONIZED, "r" * 256)
    bench.reconcile("r" * 256)
    assert bench.only(ActualReport).action_id == "r" * 256


def test_it_hears_what_the_registry_says_it_reads(bench: Bench) -> None:
    component: Component = bench.controller
    expected = {topic.filter() for topic in TOPICS if Role.ACTION_CONTROLLER in topic.readers}
    expected.discard("component/+/+")

    assert {one.filter for one in component.subscriptions()} == expected
    assert (component.role, component.instance, component.persistent) == (Role.ACTION_CONTROLLER, "main", True)
    assert component.problem is None


def test_a_deleted_capacity_is_no_news(bench: Bench) -> None:
    bench.waits()
    assert bench.hear(Cleared(NodeCapacity, {"node": NODE})) == []


def test_the_journal_lies_where_it_is_configured_and_is_written_through(tmp_path: Path) -> None:
    path = tmp_path / "ac" / "journal.sqlite3"
    component = build(Settings.model_validate({"action_controller": {"database": str(path)}}), lambda _item: None)
    assert isinstance(component, ActionController)
    assert path.exists()
    assert component._journal._database.query("PRAGMA synchronous") == [(2,)]
    component.close()


def test_without_a_place_configured_it_lies_in_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    build(Settings(), lambda _item: None).close()

    assert (tmp_path / "piriscale" / "action_controller.sqlite3").exists()


def test_an_action_that_could_not_be_read_has_its_one_ending_whatever_comes_under_its_id() -> None:
    bench = Bench()
    bench.hear_json("scaling/action", action_id="a-1", node=NODE, workload_id="cam", target={"cpu_limit": -5})
    first = bench.only(ScalingStatus)
    assert first.reason is Reason.INVALID_TARGET

    for limit in (-7, 700):
        bench.hear_json(
            "scaling/action", action_id="a-1", node=NODE, workload_id="cam", target={"cpu_limit": limit}
        )
        assert bench.only(ScalingStatus).message == first.message
    assert list(bench.controller.tasks) == []
