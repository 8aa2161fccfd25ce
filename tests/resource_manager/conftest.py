"""Fixtures: a ResourceManager beside a node of 8 CPUs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.resource_manager.bench import Bench, container


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A node of 8000m and 16384 MiB on which cam has 2000m and 1024 MiB, and nav 3000m and 2048 MiB."""
    yield from _ready(None)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Bench]:
    """The same, with a ledger that survives."""
    yield from _ready(tmp_path / "ledger.sqlite3")


def _ready(path: Path | None) -> Iterator[Bench]:
    bench = Bench(path)
    bench.info()
    bench.snapshot(container("cam"), container("nav", 3000, 2048))
    yield bench
    bench.manager.close()
