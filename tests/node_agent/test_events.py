"""Events of the runtime only say when to look; after a broken stream everything is looked at afresh."""

import queue
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.node_agent import events
from components.node_agent.events import (
    ContainersChanged,
    EventWatcher,
    Notice,
    RuntimeFound,
    RuntimeLost,
    Seen,
)
from components.node_agent.podman import rest
from components.node_agent.podman.adapter import PodmanRuntime
from components.node_agent.podman.private import PrivatePodman
from components.node_agent.runtime import RuntimeEvent
from components.node_agent.simulated import SimulatedRuntime
from schemas.limits import Limits
from tests.fixtures.podman import MakeBox
from tests.node_agent.newer import NewerPodman
from tests.node_agent.updater import Updater, wait_for


def test_an_event_that_comes_again_is_recognized() -> None:
    seen = Seen()
    first = RuntimeEvent("id", "start", 1)
    assert seen.first_time(first)
    assert not seen.first_time(RuntimeEvent("id", "start", 1))
    assert seen.first_time(RuntimeEvent("id", "died", 1))
    assert seen.first_time(RuntimeEvent("id", "start", 2))


def test_memory_of_events_is_bounded() -> None:
    seen = Seen()
    for number in range(5000):
        seen.first_time(RuntimeEvent("id", "start", number))
    assert len(seen._known) == len(seen._order) == events.REMEMBERED


class Watched:
    """A watcher, and what it told."""

    def __init__(self, runtime: object) -> None:
        self.told: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        self.watcher = EventWatcher(runtime, self.told.put)  # type: ignore[arg-type]  # whichever runtime
        self.watcher.start()

    def next(self) -> Notice:
        return self.told.get(timeout=10)

    def until(self, kind: type[Notice]) -> Notice:
        while not isinstance(notice := self.next(), kind):
            pass
        return notice


@pytest.fixture
def simulated() -> Iterator[tuple[SimulatedRuntime, Watched]]:
    runtime = SimulatedRuntime()
    watched = Watched(runtime)
    assert watched.next() == RuntimeFound()
    yield runtime, watched
    watched.watcher.stop()
    assert not watched.watcher._thread.is_alive()


def test_starts_stops_and_removals_are_told(simulated: tuple[SimulatedRuntime, Watched]) -> None:
    runtime, watched = simulated
    runtime.world.add("app", Limits())
    runtime.world.stop("app")
    runtime.world.remove("app")
    assert [watched.next() for _ in range(3)] == [ContainersChanged()] * 3


def test_the_same_event_again_is_not_told_again(simulated: tuple[SimulatedRuntime, Watched]) -> None:
    runtime, watched = simulated
    for event in (RuntimeEvent("id", "start", 7), RuntimeEvent("id", "start", 7), RuntimeEvent("id", "update", 8)):
        runtime._streams[0].put(event)
    assert [watched.next(), watched.next()] == [ContainersChanged(), ContainersChanged(limits_only=True)]


def test_a_lost_runtime_is_told_and_found_again(simulated: tuple[SimulatedRuntime, Watched]) -> None:
    runtime, watched = simulated
    runtime.set_down(down=True)
    assert isinstance(watched.next(), RuntimeLost)
    runtime.set_down(down=False)
    watched.until(RuntimeFound)


def test_stopping_does_not_wait_for_the_back_off() -> None:
    runtime = SimulatedRuntime()
    runtime.set_down(down=True)
    watched = Watched(runtime)
    watched.until(RuntimeLost)
    began = time.monotonic()
    watched.watcher.stop()
    assert time.monotonic() - began < 1
    assert not watched.watcher._thread.is_alive()


def test_a_stream_that_is_long_silent_is_opened_anew_and_nothing_is_called_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet node is no lost one; yet a stream that broke unseen would blind the agent for good."""
    monkeypatch.setattr(rest, "EVENTS_IDLE_S", 0.2)
    podman = NewerPodman(tmp_path, "5.4.2")
    runtime = PodmanRuntime(f"unix://{podman.socket}", 10.0, root=tmp_path)
    watched = Watched(runtime)
    told = [watched.next() for _ in range(3)]
    watched.watcher.stop()
    runtime.close()
    podman.close()
    assert told == [RuntimeFound(), ContainersChanged(), RuntimeFound()], "its events come again, and are known"
    assert not watched.watcher._thread.is_alive()
    assert [("since=" in path) for path in podman.streams[:2]] == [False, True], "what came between is not missed"


class TestPodman:
    """Events of a real Podman."""

    @pytest.fixture
    def watched(self, update: Updater) -> Iterator[Watched]:
        watched = Watched(update.runtime)
        assert watched.next() == RuntimeFound()
        yield watched
        watched.watcher.stop()
        assert not watched.watcher._thread.is_alive()

    def test_start_restart_and_removal_are_told(
        self, watched: Watched, box: MakeBox, private_podman: PrivatePodman
    ) -> None:
        container = box()
        watched.until(ContainersChanged)
        private_podman.command("restart", "--time", "0", container.name)
        watched.until(ContainersChanged)
        private_podman.command("rm", "--force", "--time", "0", container.name)
        watched.until(ContainersChanged)

    def test_the_list_is_kept_until_an_event_says_that_it_is_old(
        self, watched: Watched, update: Updater, box: MakeBox
    ) -> None:
        """So that snapshots after updates, and metrics, cost no call."""
        first = box()
        wait_for(lambda: first.name in names(update, fresh=True), "it is listed")
        wait_for(
            lambda: update.runtime._catalog.complete or not names(update, fresh=False), "the list is complete"
        )
        second = box()
        wait_for(lambda: second.name in names(update, fresh=False), "the event made the list old")

    def test_a_service_that_dies_and_returns_is_lost_and_found(self, own_podman: PrivatePodman) -> None:
        update = Updater(own_podman.url)
        watched = Watched(update.runtime)
        watched.until(RuntimeFound)
        own_podman.stop_service()
        lost = watched.until(RuntimeLost)
        assert isinstance(lost, RuntimeLost)
        own_podman.run("meanwhile")
        own_podman.start_service()
        watched.until(RuntimeFound)
        assert "meanwhile" in names(update, fresh=False), "what was missed is seen"
        watched.watcher.stop()
        update.runtime.close()


def names(update: Updater, *, fresh: bool) -> list[str]:
    return [container.name for container in update.runtime.containers(fresh=fresh)]
