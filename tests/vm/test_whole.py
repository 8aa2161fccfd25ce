"""The whole of piriscale where people run it: systemd, crun, cgroup v2, Podman 5.4; as root and as a user."""

import pytest

from tests.vm.columns import COLUMNS
from tests.vm.fleet import Fleet, Job
from tests.vm.guest.whole import STEPS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

WHERE = ("podman54-v2-rootful-systemd", "podman54-v2-rootless-systemd")
JOBS = [
    pytest.param(Job(column, "whole", tuple(column.command)), id=column.name)
    for column in COLUMNS
    if column.name in WHERE
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("job", JOBS)
def test_a_vehicle_gets_what_was_promised(fleet: Fleet, job: Job, step: str) -> None:
    found = fleet.result(job)
    _, expected = STEPS[step]
    assert found["steps"][step] == expected, found["log"]
