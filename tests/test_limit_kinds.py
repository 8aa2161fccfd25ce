"""Every kind of limit is known wherever kinds are spelled out: one that is forgotten would be lost unsaid."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from components.node_agent.podman.kernel import CONTROLLER_OF
from components.resource_manager.records import NodeRecord, WorkloadRecord
from components.resource_manager.rollback import rollback_of
from components.resource_manager.turn import Turn
from schemas.limits import Amount, Limits

SOME_VALUE: dict[str, Any] = {"cpu_limit": 500, "memory_limit": 64, "cpu_shares": 512, "cpuset_cpus": "0"}
KINDS = list(Limits.model_fields)


def test_the_agent_knows_the_controller_of_each_kind() -> None:
    assert set(CONTROLLER_OF) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_had_no_limit_can_be_taken_back(kind: str) -> None:
    node = NodeRecord(node="hpc-1", total=Amount(cpu=8000, memory=8192))
    work = SimpleNamespace(node=lambda _name: node, active_rows=lambda _key: [])
    turn = cast("Turn", SimpleNamespace(work=work))
    record = WorkloadRecord(node="hpc-1", name="cam", actual=Limits())

    back, _ = rollback_of(turn, record, Limits(**{kind: SOME_VALUE[kind]}))

    assert getattr(back, kind) is not None
