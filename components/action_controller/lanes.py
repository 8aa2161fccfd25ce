"""One running action per workload; a newer one waits, and takes the place of an older waiting one."""

from dataclasses import dataclass

from components.action_controller.task import Task
from schemas.enums import Phase

Key = tuple[str, str]


@dataclass
class Lane:
    """What runs on one workload, and what comes next."""

    running: Task | None = None
    following: Task | None = None


class Lanes:
    """A lane for each workload with something to do. Bounded by the tasks that are open."""

    def __init__(self) -> None:
        self._lanes: dict[Key, Lane] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def running(self, key: Key) -> Task | None:
        """What runs on a workload."""
        lane = self._lanes.get(key)
        return lane.running if lane else None

    def awaited(self, key: Key) -> bool:
        """Whether somebody waits for the end of what runs on a workload."""
        lane = self._lanes.get(key)
        return lane is not None and lane.following is not None

    def enter(self, task: Task) -> tuple[bool, Task | None]:
        """Give a task its place: whether it may start now, and a task that it supersedes.

        What only waits for room does not run, so a newer action takes its place at once.
        """
        lane = self._lanes.setdefault(task.key, Lane())
        if lane.running is None:
            lane.running = task
            return True, None
        if lane.running.phase is Phase.WAITING:
            waiting, lane.running = lane.running, task
            return True, waiting
        superseded, lane.following = lane.following, task
        return False, superseded

    def leave(self, task: Task) -> Task | None:
        """Take an ended task out; returns the one that may start now."""
        lane = self._lanes.get(task.key)
        if lane is None:
            return None
        if lane.following is task:
            lane.following = None
        if lane.running is task:
            lane.running, lane.following = lane.following, None
            if lane.running is not None:
                return lane.running
        if lane.running is None and lane.following is None:
            del self._lanes[task.key]
        return None
