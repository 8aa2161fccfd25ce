"""The machines of a run, started when the first test asks for one."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.requirements import require
from tests.vm.fleet import Fleet, Job


@pytest.fixture(scope="session")
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Machines for the jobs of the tests that were selected, and no others."""
    require(os.geteuid() == 0, "root, to build a machine's image")
    require(shutil.which("apt-get") is not None, "apt-get, to build a machine's image from Debian's packages")
    selected = [getattr(item, "callspec", None) for item in request.session.items]
    asked = [spec.params.get("job") for spec in selected if spec is not None]
    fleet = Fleet(job for job in asked if isinstance(job, Job))
    fleet.start()
    yield fleet
    fleet.close()
