"""What the tests of the bus live in; each test has a broker of its own."""

from collections.abc import Iterator

import pytest

from tests.broker.started import Started
from tests.broker.worlds import MemoryWorld, RealWorld, World
from tests.fixtures.broker import RunningBroker, running_broker


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


@pytest.fixture
def real_world(broker: RunningBroker) -> Iterator[RealWorld]:
    world = RealWorld(broker)
    yield world
    world.close()


@pytest.fixture(params=["mosquitto", "memory"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = MemoryWorld() if request.param == "memory" else request.getfixturevalue("real_world")
    return found


@pytest.fixture
def started() -> Iterator[Started]:
    all_started = Started()
    yield all_started
    for client in all_started.clients:
        client.bus.stop(drain_s=0)
