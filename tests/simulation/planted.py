"""Bugs planted on purpose, to show that the simulation finds them."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def plant(name: str | None) -> Iterator[None]:
    """Plant a bug by name while the block runs; None: none."""
    yield
