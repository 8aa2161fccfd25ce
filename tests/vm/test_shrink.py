"""On cgroup v2 the kernel kills what does not fit into a lowered memory limit; we must never bring that about."""

import pytest

from tests.vm.columns import COLUMNS
from tests.vm.fleet import Fleet, Job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

ATTEMPTS = 500
COLUMN = next(column for column in COLUMNS if column.name == "podman54-v2-rootful-systemd")
SHRINK = Job(COLUMN, "shrink", (str(ATTEMPTS), "1"))


@pytest.mark.parametrize("job", [pytest.param(SHRINK, id=COLUMN.name)])
def test_lowering_the_limit_of_a_container_whose_use_moves_kills_nothing(fleet: Fleet, job: Job) -> None:
    found = fleet.result(job)
    print(found)
    assert found["kills"] == []


@pytest.mark.parametrize("job", [pytest.param(SHRINK, id=COLUMN.name)])
def test_the_attempts_are_worth_something(fleet: Fleet, job: Job) -> None:
    outcomes = fleet.result(job)["outcomes"]
    assert sum(outcomes.values()) == ATTEMPTS
    assert outcomes.keys() == {"lowered", "BELOW_USAGE"}
    assert min(outcomes.values()) >= ATTEMPTS // 10
