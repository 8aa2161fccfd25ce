"""What the tests of the command line share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.system import Configuration, configuration, running_system
from tests.fixtures.broker import RunningBroker, running_broker
from tests.fixtures.podman import own_podman, private_podman

__all__ = ["alone", "broker", "own_podman", "private_podman", "system"]


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configuration]:
    """The whole of piriscale, with three simulated containers on one node; shared, so put back what you change."""
    with running_system(tmp_path_factory.mktemp("system")) as settings:
        yield settings


@pytest.fixture(scope="session")
def broker() -> Iterator[RunningBroker]:
    """A broker without components; shared, so leave nothing retained."""
    with running_broker() as running:
        yield running


@pytest.fixture
def alone(broker: RunningBroker, tmp_path: Path) -> Configuration:
    """A configuration for the broker without components."""
    return configuration(tmp_path, url=f"mqtt://127.0.0.1:{broker.port}")
