"""Fixtures for all tests of this folder."""

from collections.abc import Iterator

import pytest

from components.node_agent.podman.private import PrivatePodman
from tests.fixtures.podman import box, own_podman, private_podman
from tests.node_agent.pods import Pod
from tests.node_agent.updater import Updater

__all__ = ["box", "own_podman", "pod", "private_podman", "update"]


@pytest.fixture
def update(private_podman: PrivatePodman) -> Iterator[Updater]:
    """Updates containers of the Podman that all tests share."""
    updater = Updater(private_podman.url)
    yield updater
    updater.runtime.close()


@pytest.fixture
def pod(private_podman: PrivatePodman) -> Iterator[Pod]:
    """A pod with its infra container."""
    with Pod(private_podman) as pod:
        yield pod
