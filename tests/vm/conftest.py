"""The machines of a run, started when the first test asks for one."""

from collections.abc import Iterator

import pytest

from tests.requirements import require
from tests.vm.fleet import Fleet, Job, can_build


@pytest.fixture(scope="session")
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Machines for the jobs of the tests that were selected, and no others."""
    require(can_build() is None, can_build() or "")
    selected = [getattr(item, "callspec", None) for item in request.session.items]
    asked = [spec.params.get("job") for spec in selected if spec is not None]
    fleet = Fleet(job for job in asked if isinstance(job, Job))
    fleet.start()
    yield fleet
    fleet.close()
