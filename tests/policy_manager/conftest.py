"""Every desk is tidied up when its test is over."""

from collections.abc import Iterator

import pytest

from tests.policy_manager.desk import Desk


@pytest.fixture(autouse=True)
def _desks_are_closed() -> Iterator[None]:
    yield
    for desk in Desk.in_use:
        desk.manager.close()
    Desk.in_use.clear()
