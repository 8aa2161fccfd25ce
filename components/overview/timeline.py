"""The time line of one scaling: from the metric that degraded, over every message of the chain, to verified.

Messages belong together by event_id, by action_id, and an answer by the request it answers. What ResourceManager
says of the workload meanwhile belongs to the action under way on it.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from components.overview.events import LEVEL_OF_OUTCOME, Level
from components.overview.steps import CHAIN, ChainMessage, Told, ids_of, tell
from schemas.codec import Decoded
from schemas.enums import EventOutcome, Phase, Reason
from schemas.limits import Limits
from schemas.performance import PerfDegraded, PerfOutcome, PerfRecovered
from schemas.resources import Reconcile, ResourceState
from schemas.scaling import ScalingAction, ScalingStatus

TIMELINES_MAX: Final = 200
STEPS_MAX: Final = 100
"""Of one time line; what comes later is counted, and the end is always kept."""

IDS_MAX: Final = 300
"""Ids of messages that a time line is found by."""


@dataclass(frozen=True)
class Step:
    """One message of the chain."""

    at_ms: float
    """When it was heard first, UTC epoch ms of the listener's clock, with fractions."""
    topic: str
    """Its topic as in the registry: "node/{node}/update/reply"."""
    who: str
    """Who says such messages: "node_agent"."""
    title: str
    """What it is, in two or three words: "limits applied"."""
    text: str
    """The particulars: values, reasons."""
    level: Level
    since_start_ms: float
    since_last_ms: float


@dataclass
class Timeline:
    """What was heard of one scaling, or of one performance event that led to none."""

    key: str
    """What it is found by: the event_id where there is one, else the action_id. Opaque."""
    node: str
    workload: str
    began_ms: float
    cause: str
    """PERF, CLI, EXTERNAL, RECONCILE, RESTORE, or RECOVERED for the end of a degradation."""
    event_id: str | None = None
    action_id: str | None = None
    target: Limits | None = None
    before: Limits | None = None
    """Limits in force when it began, as its first message says."""
    actual: Limits | None = None
    """Limits in force at its end."""
    dry_run: bool = False
    outcome: str | None = None
    """COMPLETED, REJECTED, FAILED, INCONSISTENT or NOT_REQUIRED; None: not ended."""
    reason: Reason | None = None
    message: str = ""
    ended_ms: float | None = None
    timings_ms: dict[Phase, float] = field(default_factory=dict)
    """Time spent in each phase by ActionController's own measure."""
    steps: list[Step] = field(default_factory=list)
    left_out: int = 0
    """Steps that there was no room for."""
    repeats: int = 0
    """Messages that were said again, and are not steps of their own."""

    @property
    def level(self) -> Level:
        """What its end means."""
        return Level.BUSY if self.outcome is None else LEVEL_OF_OUTCOME[EventOutcome(self.outcome)]

    @property
    def took_ms(self) -> float | None:
        """From its first message to its end; None: not ended."""
        return None if self.ended_ms is None else self.ended_ms - self.began_ms

    def add(self, told: Told, at_ms: float) -> None:
        """Append a step."""
        if len(self.steps) >= STEPS_MAX and self.outcome is None:
            self.left_out += 1
            return
        if len(self.steps) >= STEPS_MAX + 10:
            self.left_out += 1
            return
        last_ms = self.steps[-1].at_ms if self.steps else at_ms
        self.steps.append(
            Step(
                at_ms,
                told.topic,
                told.who,
                told.title,
                told.text,
                told.level,
                since_start_ms=at_ms - self.began_ms,
                since_last_ms=max(0.0, at_ms - last_ms),
            )
        )


class Timelines:
    """The latest time lines, folded from messages. The oldest that have ended go first when there are too many."""

    def __init__(self, most: int = TIMELINES_MAX) -> None:
        self._most = most
        self._lines: OrderedDict[str, Timeline] = OrderedDict()
        self._by_id: dict[tuple[str, str], str] = {}
        self._ids_of: dict[str, list[tuple[str, str]]] = {}
        self._running: dict[tuple[str, str], str] = {}
        """The action under way on each workload."""

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[Timeline]:
        """The latest first."""
        return reversed(self._lines.values())

    def get(self, key: str) -> Timeline | None:
        """The time line under its `key`, an event_id or an action_id; None when it is not known (any more)."""
        found = self._lines.get(key)
        for kind in ("event", "action"):
            if found is None and (kind, key) in self._by_id:
                found = self._lines[self._by_id[kind, key]]
        return found

    def of(self, node: str, workload: str) -> list[Timeline]:
        """Those of one workload, the latest first."""
        return [line for line in self if (line.node, line.workload) == (node, workload)]

    def hear(self, message: Decoded, now_ms: float, *, retained: bool = False) -> Timeline | None:
        """Take one message in. Returns the time line that it changed; None: none.

        `now_ms`: when it came, UTC epoch ms, best with fractions. Retained messages tell no step.
        """
        if retained or not isinstance(message, CHAIN):
            return None
        if isinstance(message, ResourceState):
            return self._hear_state(message, now_ms)
        ids = ids_of(message)
        line = next((self._lines[self._by_id[one]] for one in ids if one in self._by_id), None)
        if line is None:
            line = self._begin(message, now_ms)
        if line is None:
            return None
        for one in ids:
            self._know(line, one)
        if self._said_before(line, message):
            line.repeats += 1
            return line
        self._apply(line, message, now_ms)
        line.add(tell(message), now_ms)
        return line

    def _hear_state(self, state: ResourceState, now_ms: float) -> Timeline | None:
        key = self._running.get((state.node, state.workload_id))
        line = self._lines.get(key) if key is not None else None
        if line is None or self._said_before(line, state):
            return None
        line.add(tell(state), now_ms)
        return line

    def _begin(self, message: ChainMessage, now_ms: float) -> Timeline | None:
        """A new time line, if this is what one begins with."""
        match message:
            case PerfDegraded() | PerfRecovered():
                key, cause = message.event_id, "PERF" if isinstance(message, PerfDegraded) else "RECOVERED"
                line = Timeline(key, message.node, message.workload_id, now_ms, cause, before=message.limits)
            case ScalingAction() | ScalingStatus():
                event_id = next((one for kind, one in ids_of(message) if kind == "event"), None)
                key = event_id or message.action_id
                line = Timeline(key, message.node, message.workload_id, now_ms, message.cause.type)
            case Reconcile():
                line = Timeline(message.action_id, message.node, message.workload_id, now_ms, "RECONCILE")
            case _:
                return None
        if line.key in self._lines:  # an event and an action, not of each other, that strangers named the same
            self._forget(line.key)
        self._lines[line.key] = line
        self._ids_of[line.key] = []
        while len(self._lines) > self._most:
            self._drop()
        return line

    def _drop(self) -> None:
        newest = next(reversed(self._lines))
        ended = (key for key, line in self._lines.items() if line.outcome is not None and key != newest)
        self._forget(next(ended, next(iter(self._lines))))

    def _forget(self, key: str) -> None:
        line = self._lines.pop(key)
        for one in self._ids_of.pop(key):
            self._by_id.pop(one, None)
        if self._running.get((line.node, line.workload)) == key:
            del self._running[line.node, line.workload]

    def _know(self, line: Timeline, one: tuple[str, str]) -> None:
        known = self._ids_of[line.key]
        if one not in self._by_id and len(known) < IDS_MAX:
            self._by_id[one] = line.key
            known.append(one)

    def _said_before(self, line: Timeline, message: ChainMessage) -> bool:
        """Whether the line has this step already: requests and answers are repeated under the same ids."""
        told = tell(message)
        if isinstance(message, ScalingStatus | ResourceState):  # each differs from the one before, or is no news
            same = (step for step in reversed(line.steps) if step.topic == told.topic)
            last = next(same, None)
            return last is not None and (last.title, last.text) == (told.title, told.text)
        mark = ("said", f"{told.topic}|{told.mark}")
        known = self._ids_of[line.key]
        if self._by_id.get(mark) == line.key:
            return True
        if len(known) < IDS_MAX:
            self._by_id[mark] = line.key
            known.append(mark)
        return False

    def _apply(self, line: Timeline, message: ChainMessage, now_ms: float) -> None:
        match message:
            case PerfDegraded() | PerfRecovered():
                line.event_id = message.event_id
            case ScalingAction():
                line.action_id, line.target, line.dry_run = message.action_id, message.target, message.dry_run
                line.event_id = message.cause.event_id or line.event_id
                line.before = line.before or message.current
            case Reconcile():
                line.action_id, line.target = message.action_id, message.desired
            case ScalingStatus():
                self._apply_status(line, message, now_ms)
            case PerfOutcome():
                if line.outcome is None:
                    self._end(line, str(message.outcome), message, now_ms)

    def _apply_status(self, line: Timeline, status: ScalingStatus, now_ms: float) -> None:
        line.action_id, line.dry_run = status.action_id, status.dry_run
        line.cause = status.cause.type
        line.timings_ms = dict(status.timings_ms) or line.timings_ms
        line.target = line.target or status.desired
        if status.phase not in (Phase.ACCEPTED, Phase.WAITING, Phase.DONE):
            self._running[line.node, line.workload] = line.key
        if status.outcome is not None and line.outcome is None:
            line.actual = status.actual
            self._end(line, str(status.outcome), status, now_ms)

    def _end(self, line: Timeline, outcome: str, said: ScalingStatus | PerfOutcome, now_ms: float) -> None:
        line.outcome, line.reason, line.message, line.ended_ms = outcome, said.reason, said.message, now_ms
        if self._running.get((line.node, line.workload)) == line.key:
            del self._running[line.node, line.workload]
