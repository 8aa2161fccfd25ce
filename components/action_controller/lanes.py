"""One running action per workload; a newer one waits, and takes the place of older waiting ones.

An action that names its container by its id enters a second time, when the name is known; till then others may
have come. One of which ResourceManager may hold something never loses its place: its ending is not ours to decide.
"""

from dataclasses import dataclass, field

from components.action_controller.task import Task
from schemas.enums import Phase

Key = tuple[str, str]


@dataclass
class Lane:
    """What runs on one workload, and what comes next, oldest first."""

    running: Task | None = None
    waiting: list[Task] = field(default_factory=list)

    def wait(self, task: Task) -> tuple[Task, ...]:
        """Have a task wait for its turn; returns those that end, because a newer one is here."""
        here = sorted([*self.waiting, task], key=lambda one: one.number)
        newest = max(here[-1].number, self.running.number if self.running else 0)
        ended = tuple(one for one in here if one.number < newest and not one.begun)
        self.waiting = [one for one in here if one not in ended]
        return ended


@dataclass(frozen=True)
class Place:
    """What came of entering a lane."""

    starts: bool
    superseded: tuple[Task, ...] = ()
    """Whose place was taken by a newer one; the one that entered may be among them."""
    set_back: Task | None = None
    """What may have been asking, and has to wait now."""


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
        return lane is not None and bool(lane.waiting)

    def enter(self, task: Task, *, granted: bool = False) -> Place:
        """Give a task its place; `granted`: it holds room already, so that who only asks cannot go before it.

        What only waits for room does not run, so a newer action takes its place at once.
        """
        lane = self._lanes.setdefault(task.key, Lane())
        first = lane.running
        if first is None:
            lane.running = task
            return Place(True)
        if first.phase is Phase.WAITING and task.number > first.number:
            lane.running = task
            return Place(True, (first,))
        if granted and first.phase in (Phase.VALIDATING, Phase.WAITING):
            lane.running = task
            return Place(True, lane.wait(first), first)
        return Place(False, lane.wait(task), task)

    def leave(self, task: Task) -> Task | None:
        """Take a task out; returns the one that may start now."""
        lane = self._lanes.get(task.key)
        if lane is None:
            return None
        if task in lane.waiting:
            lane.waiting.remove(task)
        if lane.running is task:
            lane.running = lane.waiting.pop(0) if lane.waiting else None
            if lane.running is not None:
                return lane.running
        if lane.running is None and not lane.waiting:
            del self._lanes[task.key]
        return None
