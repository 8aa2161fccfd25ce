"""NodeAgent: owner of the actual state of one node. Logic only; what blocks is handed out as calls."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from broker.bus import Subscription
from components.component import CallFailed, Instant, Output
from components.node_agent.commands import Commands
from components.node_agent.events import ContainersChanged, RuntimeFound, RuntimeLost
from components.node_agent.inventory import Inventory
from components.node_agent.node_metrics import NodeSampler
from components.node_agent.observe import Observation, Observer
from components.node_agent.reporter import Reporter
from components.node_agent.runtime import ContainerRuntime
from components.node_agent.snapshots import DEBOUNCE_S, Snapshots
from components.node_agent.stamps import Stamps
from components.node_agent.statuses import Statuses
from components.node_agent.store import IntentStore
from components.node_agent.telemetry import Info, Metrics
from components.node_agent.update import UpdateProcedure
from components.node_agent.work import (
    InfoRead,
    InfoWork,
    MetricsRead,
    MetricsWork,
    SnapshotRead,
    SnapshotWork,
    StatusRead,
    StatusWork,
    UpdateDone,
    UpdateWork,
)
from components.node_agent.writes import ACTIVE_MAX
from components.settings import Settings
from schemas.codec import BadRequest
from schemas.enums import SnapshotTrigger
from schemas.node import StatusRequest, UpdateRequest
from schemas.resources import CREDIBLE_MAX
from schemas.topics import Role, topic_of

OTHER_CALLS: Final = 4
"""Calls at once besides writes: a snapshot, metrics, info, and at least one status."""


class Watcher(Protocol):
    """Tells the agent of events in the runtime, from a thread of its own."""

    def start(self) -> None:
        """Begin to watch."""

    def stop(self) -> None:
        """End."""


class NodeAgent:
    """The component. Keeps the protocol `Component`."""

    role = Role.NODE_AGENT
    persistent = False
    """A command that was sent while the agent was away must not be carried out later."""
    calls_at_once = ACTIVE_MAX + OTHER_CALLS

    def __init__(
        self,
        settings: Settings,
        runtime: ContainerRuntime,
        intents: IntentStore,
        boot_id: int,
        *,
        sampler: NodeSampler,
        watcher: Watcher | None,
        clock: Callable[[], float],
        release: Callable[[], None] = lambda: None,
        outlive: Callable[[int], bool] = lambda _boot_id: False,
    ) -> None:
        """`clock` gives the seconds of `Instant.monotonic`, to the calls; `release` closes what the agent uses.

        `outlive` lets the next boot_id be above the given one; False: it could not be written down.
        """
        mine = settings.node_agent
        self.instance = mine.node
        self.boot_id = boot_id
        self._watcher = watcher
        self._release = release
        self._outlive = outlive
        self.renewal: str | None = None
        self._lost: str | None = None
        stamps = Stamps()
        procedure = UpdateProcedure(runtime, intents, stamps, margin_mib=mine.memory_margin_mib, clock=clock)
        observer = Observer(runtime, stamps, clock)
        inventory = Inventory()
        self._commands = Commands(mine.node, boot_id, procedure, intents, inventory, mine.settle_s)
        reporter = Reporter(self._commands.fence_of, self._commands.was_busy, settings.broker.wire)
        self._snapshots = Snapshots(mine.node, boot_id, observer, reporter, inventory, mine.sync_interval_s)
        self._statuses = Statuses(mine.node, boot_id, observer, reporter)
        self._metrics = Metrics(mine.node, observer, reporter, sampler, mine.metrics_interval_s)
        self._info = Info(mine.node, boot_id, runtime, mine.sync_interval_s)

    @property
    def problem(self) -> str | None:
        """What keeps it from knowing or changing what runs."""
        return self._lost or self._snapshots.problem or self._info.problem

    def subscriptions(self) -> Sequence[Subscription]:
        """Commands and questions for this node."""
        return [Subscription(topic_of(kind).filter(node=self.instance)) for kind in (UpdateRequest, StatusRequest)]

    def start(self, now: Instant) -> list[Output]:
        """Look at everything, and watch."""
        self._commands.start(now)
        if self._watcher is not None:
            self._watcher.start()
        return [*self._snapshots.start(now), *self._info.tick(now), *self._metrics.tick(now)]

    def connected(self, now: Instant) -> list[Output]:
        """What is retained, again."""
        return [said for said in (self._info.last, self._snapshots.last) if said is not None]

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """React to a request, to what a call brought back, or to news from the runtime."""
        if isinstance(item, UpdateRequest | StatusRequest):
            self._heed(item.boot_id)
        match item:
            case UpdateRequest():
                return self._commands.request(item, now)
            case StatusRequest():
                return self._statuses.request(item, now)
            case BadRequest():
                return [self._commands.bad(item) if item.request is UpdateRequest else self._statuses.bad(item)]
            case CallFailed():
                return self._crashed(item, now)
            case ContainersChanged() | RuntimeFound() | RuntimeLost():
                return self._noticed(item, now)
        return self._read(item, now)

    def _heed(self, known: int | None) -> None:
        """A later boot of ours is known: our state directory was lost, and the clock went back. Begin above it."""
        later = known is not None and self.boot_id < known <= CREDIBLE_MAX
        if known is not None and later and self.renewal is None and self._outlive(known):
            self.renewal = f"boot {known} of this agent is known, this one is only {self.boot_id}"

    def _read(self, item: Any, now: Instant) -> list[Output]:
        match item:
            case UpdateDone():
                reply_first = self._commands.done(item, now)
                if not item.result.wrote:
                    return reply_first
                return reply_first + self._snapshots.want(SnapshotTrigger.UPDATE, now, fresh=False)
            case SnapshotRead():
                return self._snapshot_read(item, now)
            case StatusRead():
                return self._statuses.read(item, now)
            case MetricsRead():
                return self._metrics.read(item, now)
            case InfoRead():
                return self._info.read(item, now)
        return []

    def _snapshot_read(self, read: SnapshotRead, now: Instant) -> list[Output]:
        outputs = self._snapshots.read(read, now)
        if isinstance(read.seen, Observation):
            return [*outputs, *self._info.seen_total(read.seen.total, now)]
        return [*outputs, *self._commands.unreachable(read.seen.text)]

    def _noticed(self, notice: ContainersChanged | RuntimeFound | RuntimeLost, now: Instant) -> list[Output]:
        match notice:
            case RuntimeLost():
                self._lost = notice.text
                return []
            case RuntimeFound():
                self._lost = None
                looked = self._snapshots.want(SnapshotTrigger.CONTAINER, now, after_s=DEBOUNCE_S)
                return [*looked, *self._info.want(now)]
            case ContainersChanged(limits_only=True):
                return self._snapshots.want(SnapshotTrigger.UPDATE, now, after_s=DEBOUNCE_S, fresh=False)
            case ContainersChanged():
                return self._snapshots.want(SnapshotTrigger.CONTAINER, now, after_s=DEBOUNCE_S)

    def _crashed(self, failed: CallFailed, now: Instant) -> list[Output]:
        work = failed.call.run
        match work:
            case UpdateWork():
                return self._commands.crashed(work, failed, now)
            case SnapshotWork():
                return self._snapshots.crashed(work, failed.error, now)
            case StatusWork():
                return [self._statuses.crashed(work, failed.error)]
            case MetricsWork():
                self._metrics.crashed()
            case InfoWork():
                self._info.crashed(failed.error, now)
        return []

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """Answer a request whose handling keeps failing."""
        match item:
            case UpdateRequest():
                return [self._commands.failed(item, error)]
            case StatusRequest():
                return [self._statuses.failed(item, error)]
        return None

    def tick(self, now: Instant) -> list[Output]:
        """Deadlines, settling, and what is said every period."""
        outputs, settled = self._commands.tick(now)
        if settled:
            outputs = outputs + self._snapshots.want(SnapshotTrigger.UPDATE, now)
        return [*outputs, *self._snapshots.tick(now), *self._info.tick(now), *self._metrics.tick(now)]

    def close(self) -> None:
        """End watching, close connections and files."""
        if self._watcher is not None:
            self._watcher.stop()
        self._release()
