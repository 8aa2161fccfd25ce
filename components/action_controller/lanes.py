"""One running action per workload; a newer one waits, and takes the place of an older waiting one.

An action that names its container by its id enters a second time, when the name is known; till then others may
have come.
"""

from dataclasses import dataclass

from components.action_controller.task import Task
from schemas.enums import Phase

Key = tuple[str, str]


@dataclass
class Lane:
    """What runs on one workload, and what comes next."""

    running: Task | None = None
    following: Task | None = None


@dataclass(frozen=True)
class Place:
    """What came of entering a lane."""

    starts: bool
    superseded: Task | None = None
    """Whose place was taken by a newer one; it may be the one that entered."""
    set_back: Task | None = None
    """What was asking, and has to wait now."""


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

    def enter(self, task: Task, *, granted: bool = False) -> Place:
        """Give a task its place; `granted`: it holds room already, so that who only asks cannot go before it.

        What only waits for room does not run, so a newer action takes its place at once.
        """
        lane = self._lanes.setdefault(task.key, Lane())
        first = lane.running
        if first is None:
            lane.running = task
            return Place(True)
        newer = task.number > first.number
        if granted and first.phase is Phase.VALIDATING:
            lane.running = task
            return Place(True, first) if newer else Place(True, _follow(lane, first), first)
        if not newer:
            return Place(False, task)
        if first.phase is Phase.WAITING:
            lane.running = task
            return Place(True, first)
        return Place(False, _follow(lane, task), task)

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


def _follow(lane: Lane, task: Task) -> Task | None:
    """Have a task wait for its turn, or end the older of two; returns the one that ends."""
    if lane.following is not None and lane.following.number > task.number:
        return task
    superseded, lane.following = lane.following, task
    return superseded
