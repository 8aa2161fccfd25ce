"""Podman 5.1 and later stores limits before it applies them: what it refused must not come with the next start."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.node_agent.podman.adapter import PodmanRuntime
from components.node_agent.runtime import RuntimeRefusedError, UnknownContainerError
from schemas.limits import Limits
from tests.node_agent.newer import MIB, NewerPodman
from tests.node_agent.test_cgroups import ID

Make = Callable[[str], tuple[NewerPodman, PodmanRuntime]]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[tuple[NewerPodman, PodmanRuntime]] = []

    def make(version: str) -> tuple[NewerPodman, PodmanRuntime]:
        podman = NewerPodman(tmp_path, version)
        runtime = PodmanRuntime(f"unix://{podman.socket}", 5.0, root=tmp_path)
        made.append((podman, runtime))
        return podman, runtime

    yield make
    for podman, runtime in made:
        runtime.close()
        podman.close()


CHANGES = Limits(cpu_limit=2000, memory_limit=128)
ASKED = {"cpu": {"quota": 200_000, "period": 100_000}, "memory": {"limit": 128 * MIB, "swap": 128 * MIB}}
OLD_CPU = {"quota": 50_000, "period": 100_000}
OLD_MEMORY = {"limit": 64 * MIB, "swap": 64 * MIB}


def test_the_body_is_bare_and_without_what_is_stored_where_podman_merges(make: Make) -> None:
    podman, runtime = make("5.4.2")
    runtime.update(runtime.resolve("app"), CHANGES)
    assert podman.bodies == [ASKED]


def test_memory_in_force_is_said_beside_the_cpu_or_it_would_fall_back_to_what_is_stored(make: Make) -> None:
    podman, runtime = make("5.4.2")
    podman.force({"memory": {"limit": 100 * MIB}})  # somebody changed it in the kernel
    runtime.update(runtime.resolve("app"), Limits(cpu_limit=2000))
    assert podman.bodies[0]["memory"]["limit"] == 100 * MIB


@pytest.mark.parametrize("version", ["5.1.0", "5.2.5", "5.3.1"])
def test_the_full_set_is_said_where_podman_replaces(make: Make, version: str) -> None:
    podman, runtime = make(version)
    runtime.update(runtime.resolve("app"), Limits(cpu_limit=2000))
    assert podman.bodies == [
        {
            "cpu": {"quota": 200_000, "period": 100_000, "shares": 512},
            "memory": OLD_MEMORY,
            "pids": {"limit": 2048},
        }
    ]


def test_refused_values_are_taken_back_with_the_old_ones(make: Make) -> None:
    podman, runtime = make("5.4.2")
    podman.refuse_all = 1
    with pytest.raises(RuntimeRefusedError):
        runtime.update(runtime.resolve("app"), CHANGES)
    assert podman.bodies == [ASKED, {"cpu": OLD_CPU, "memory": OLD_MEMORY}]


def test_what_came_into_force_is_not_taken_back(make: Make) -> None:
    podman, runtime = make("5.4.2")
    podman.refuse_cpu = True
    with pytest.raises(RuntimeRefusedError):
        runtime.update(runtime.resolve("app"), CHANGES)
    new_memory = {"limit": 128 * MIB, "swap": 128 * MIB}
    assert podman.bodies == [ASKED, {"cpu": OLD_CPU, "memory": new_memory}]


def test_where_it_cannot_be_taken_back_it_is_said(make: Make) -> None:
    podman, runtime = make("5.4.2")
    podman.refuse_all = 2
    with pytest.raises(RuntimeRefusedError, match="a restart may bring them"):
        runtime.update(runtime.resolve("app"), CHANGES)


def test_older_versions_store_nothing_so_nothing_is_taken_back(make: Make) -> None:
    podman, runtime = make("5.0.3")
    podman.refuse_all = 1
    with pytest.raises(RuntimeRefusedError):
        runtime.update(runtime.resolve("app"), CHANGES)
    assert podman.bodies == [ASKED]


def test_the_start_of_a_container_is_read_to_the_millisecond(make: Make) -> None:
    _, runtime = make("5.4.2")
    container = runtime.resolve(ID)
    assert container.started_at == 1_767_290_645_678


def test_another_name_than_asked_for_is_refused(make: Make) -> None:
    """Podman finds containers by the beginning of their id, too."""
    _, runtime = make("5.4.2")
    with pytest.raises(UnknownContainerError):
        runtime.resolve(ID[:12])
