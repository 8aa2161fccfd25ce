"""When an agent looks at all its containers, and publishes what it saw."""

import logging
from typing import Final

from components.component import Call, Instant, Output
from components.node_agent.inventory import Inventory
from components.node_agent.observe import Observation, Observer, Unseen
from components.node_agent.reporter import Reporter
from components.node_agent.work import SnapshotRead, SnapshotWork
from schemas.enums import SnapshotTrigger
from schemas.node import NodeSnapshot

_log = logging.getLogger(__name__)

DEBOUNCE_S: Final = 0.05
"""Events of a restart come in a row; one snapshot serves them all."""
RETRY_S: Final = 2.0
"""After a look that failed."""

_WEIGHT: Final = {
    SnapshotTrigger.PERIODIC: 0,
    SnapshotTrigger.UPDATE: 1,
    SnapshotTrigger.CONTAINER: 2,
    SnapshotTrigger.START: 3,
}


class Snapshots:
    """At most one is being read at a time; what is asked meanwhile becomes one more."""

    def __init__(
        self,
        node: str,
        boot_id: int,
        observer: Observer,
        reporter: Reporter,
        inventory: Inventory,
        interval_s: float,
    ) -> None:
        self.last: NodeSnapshot | None = None
        self.problem: str | None = None
        """Why the last look failed, or saw too little."""
        self._node = node
        self._boot_id = boot_id
        self._observer = observer
        self._reporter = reporter
        self._inventory = inventory
        self._interval_s = interval_s
        self._wanted: SnapshotTrigger | None = None
        self._wanted_fresh = False
        self._due_at = 0.0
        self._periodic_at = 0.0
        self._running: SnapshotWork | None = None

    def start(self, now: Instant) -> list[Output]:
        """The first one."""
        self._periodic_at = now.monotonic + self._interval_s
        return self.want(SnapshotTrigger.START, now)

    def want(
        self, trigger: SnapshotTrigger, now: Instant, *, after_s: float = 0.0, fresh: bool = True
    ) -> list[Output]:
        """Ask for one; the weightiest trigger is told. Not `fresh`: the runtime need not be asked what runs."""
        if self._wanted is None:
            self._due_at = now.monotonic + after_s
        else:
            self._due_at = min(self._due_at, now.monotonic + after_s)
        if self._wanted is None or _WEIGHT[trigger] > _WEIGHT[self._wanted]:
            self._wanted = trigger
        self._wanted_fresh = self._wanted_fresh or fresh
        return self._begin(now)

    def tick(self, now: Instant) -> list[Output]:
        """Begin what is due."""
        if now.monotonic >= self._periodic_at:
            self._periodic_at = now.monotonic + self._interval_s
            return self.want(SnapshotTrigger.PERIODIC, now)
        return self._begin(now)

    def _begin(self, now: Instant) -> list[Output]:
        if self._running is not None or self._wanted is None or now.monotonic < self._due_at:
            return []
        self._running = SnapshotWork(self._wanted, self._wanted_fresh, now.monotonic, self._observer)
        self._wanted, self._wanted_fresh = None, False
        return [Call(f"snapshot {self._running.trigger}", self._running)]

    def read(self, read: SnapshotRead, now: Instant) -> list[Output]:
        """Publish what was seen, and begin the next if one was asked for meanwhile."""
        self._running = None
        if isinstance(read.seen, Unseen):
            return self._failed(read.work, read.seen.text, now)
        if read.seen.problem is not None and read.seen.problem != self.problem:
            _log.warning("%s", read.seen.problem)
        self.problem = read.seen.problem
        self.last = self._snapshot(read.work, read.seen, now)
        if read.seen.complete:
            self._inventory.replace(look.container for look in read.seen.looks)
            self._reporter.keep_only(read.seen)
            return [self.last, *self._begin(now)]
        return [self.last, *self.want(read.work.trigger, now, after_s=RETRY_S)]

    def _snapshot(self, work: SnapshotWork, seen: Observation, now: Instant) -> NodeSnapshot:
        reports = self._reporter.reports(seen, work.asked_at, now.epoch_ms)
        fitting = self._reporter.fitting(reports)
        if len(fitting) < len(reports):
            _log.warning("snapshot cut to %d of %d containers", len(fitting), len(reports))
        return NodeSnapshot(
            node=self._node,
            boot_id=self._boot_id,
            seq=seen.seq,
            # One that is not complete does not fulfil what was asked for, so it does not claim to.
            trigger=work.trigger if seen.complete else SnapshotTrigger.PERIODIC,
            truncated=len(fitting) < len(reports) or not seen.complete,
            containers=tuple(fitting),
        )

    def crashed(self, work: SnapshotWork, error: Exception, now: Instant) -> list[Output]:
        """A look ended by a bug."""
        self._running = None
        return self._failed(work, f"the agent failed to look at its containers: {error}; see its log", now)

    def _failed(self, work: SnapshotWork, text: str, now: Instant) -> list[Output]:
        """Say nothing, since an empty snapshot would say that all containers are gone; look again soon."""
        if self.problem != text:
            _log.warning("no snapshot: %s", text)
        self.problem = text
        return self.want(work.trigger, now, after_s=RETRY_S, fresh=True)
