"""One browser for all tests of this folder that need one."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.dashboard.browser import chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running
