"""Every operation of the table, on real Podmans: it does what the node agent's README says it does.

With PIRISCALE_VM_RECORD=1 in the environment, what is found is written down instead of compared.
"""

import os

import pytest

from tests.vm import results
from tests.vm.columns import COLUMNS, Column
from tests.vm.fleet import Fleet, Job
from tests.vm.guest.operations import OPERATIONS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

RECORDING = os.environ.get("PIRISCALE_VM_RECORD") == "1"


def try_all(column: Column) -> Job:
    return Job(column, "try_all", tuple(column.command))


JOBS = [pytest.param(try_all(column), id=column.name) for column in COLUMNS]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("job", JOBS)
def test_an_operation_does_what_the_table_says(fleet: Fleet, job: Job, operation: str) -> None:
    found = fleet.result(job)
    if RECORDING:
        results.save(job.column, found)
    expected = results.load(job.column)
    assert expected is not None, "nothing was recorded for this column"
    cell = found["cells"][operation]
    assert cell["result"] == expected["cells"].get(operation), cell["detail"]


@pytest.mark.parametrize("job", JOBS)
def test_a_column_is_of_the_podman_that_its_head_names(fleet: Fleet, job: Job) -> None:
    found, column = fleet.result(job), job.column
    version, cgroup, *_ = column.name.removeprefix("podman").split("-")
    assert found["podman"].startswith(f"{version[0]}.{version[1]}.")
    assert (f"v{found['cgroup']}", found["rootless"]) == (cgroup, column.rootless)
    assert found["manager"] == column.manager
