"""Podman 5.1 and later stores limits before it applies them: what it refused must not come with the next start."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.node_agent.podman.adapter import PodmanRuntime
from components.node_agent.runtime import (
    QueryFailedError,
    RuntimeRefusedError,
    RuntimeTimeoutError,
    RuntimeUnavailableError,
    UnknownContainerError,
)
from components.node_agent.stamps import Stamps
from components.node_agent.store import MemoryStore
from components.node_agent.update import UpdateProcedure
from components.node_agent.verdict import UpdateOrder
from schemas.enums import Reason
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


def test_a_take_back_without_an_answer_has_an_unknown_outcome(make: Make) -> None:
    podman, runtime = make("5.4.2")
    podman.refuse_all, podman.silent_at = 1, {2}
    with pytest.raises(RuntimeTimeoutError, match=r"outcome unknown.*a restart may bring them") as raised:
        runtime.update(runtime.resolve("app"), CHANGES)
    assert str(raised.value).count("exit status 1") == 1, "the first failed so, not the second"
    assert len(podman.bodies) == 2


def test_a_container_stays_busy_while_a_take_back_may_still_be_at_work(make: Make) -> None:
    """The old values might come into force after a newer write was said to be done."""
    podman, runtime = make("5.4.2")
    podman.refuse_all, podman.silent_at = 1, {2}
    intents = MemoryStore()
    procedure = UpdateProcedure(runtime, intents, Stamps(), margin_mib=32, clock=lambda: 0.0)
    result = procedure.run(UpdateOrder("app", CHANGES, deadline=10.0))
    assert result.broken
    assert intents.pending() == [ID]
    assert result.reason is Reason.RUNTIME_TIMEOUT
    assert "exit status 1" in result.message, "why it was refused is told, too"


def test_a_take_back_that_is_answered_leaves_nobody_busy(make: Make) -> None:
    podman, runtime = make("5.4.2")
    podman.refuse_all = 2
    intents = MemoryStore()
    procedure = UpdateProcedure(runtime, intents, Stamps(), margin_mib=32, clock=lambda: 0.0)
    result = procedure.run(UpdateOrder("app", CHANGES, deadline=10.0))
    assert (result.broken, intents.pending(), result.reason) == (False, [], Reason.RUNTIME_ERROR)


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


class TestConnection:
    """What becomes of a call when the connection does not hold."""

    def test_a_question_is_asked_again_when_a_kept_connection_was_dead(self, make: Make) -> None:
        podman, runtime = make("5.4.2")
        runtime.resolve("app")
        podman.drop = 1
        podman.gets = 0
        assert runtime.resolve("app").id == ID, "known, so not asked"
        assert runtime._rest.get("/containers/app/json")["Id"] == ID
        assert podman.gets == 2

    def test_but_not_for_ever(self, make: Make) -> None:
        podman, runtime = make("5.4.2")
        podman.drop = 2
        with pytest.raises(RuntimeTimeoutError):
            runtime.resolve("app")

    def test_an_update_is_never_sent_twice(self, make: Make) -> None:
        """Nobody knows whether the first was carried out, and a second might overtake a newer one."""
        podman, runtime = make("5.4.2")
        container = runtime.resolve("app")
        runtime.update(container, Limits(cpu_limit=600))
        podman.drop = 1
        with pytest.raises(RuntimeTimeoutError, match="outcome unknown"):
            runtime.update(container, Limits(cpu_limit=700))
        assert len(podman.bodies) == 2

    def test_an_answer_that_is_no_json(self, make: Make) -> None:
        podman, runtime = make("5.4.2")
        podman.nonsense = True
        with pytest.raises(QueryFailedError, match="no JSON"):
            runtime.resolve("app")

    def test_a_lost_scope_is_explained(self, make: Make) -> None:
        """Every update fails then, so there is no use in trying again soon."""
        podman, runtime = make("5.0.0")
        podman.refuse_all, podman.complaint = 1, "Unit libpod-0123.scope not found"
        with pytest.raises(RuntimeRefusedError, match="until it is restarted: Unit libpod-0123"):
            runtime.update(runtime.resolve("app"), CHANGES)

    def test_an_error_says_where_to_look(self, make: Make) -> None:
        podman, runtime = make("5.0.0")
        podman.refuse_all = 1
        with pytest.raises(RuntimeRefusedError, match=r"exit status 1.*log of the Podman service"):
            runtime.update(runtime.resolve("app"), CHANGES)

    def test_nobody_there_is_told_from_nobody_answering(self, make: Make) -> None:
        podman, runtime = make("5.4.2")
        container = runtime.resolve("app")
        podman.close()
        podman.socket.unlink()
        runtime.close()
        with pytest.raises(RuntimeUnavailableError, match=r"podman\.socket"):
            runtime.update(container, CHANGES)
