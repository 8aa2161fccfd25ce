"""Fixtures: an ActionController with the settings that come by default."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.action_controller.bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    """3 retries, 5 s apart; an agent has 10 s."""
    bench = Bench()
    yield bench
    bench.controller.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Bench]:
    """The same, with a journal that survives."""
    bench = Bench(tmp_path / "journal.sqlite3")
    yield bench
    bench.controller.close()
