"""MonitoringServer: samples in, performance events out, each said again until its outcome is known."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from prometheus_client import Metric

from broker.bus import Subscription
from components.component import Instant, Output
from components.monitoring_server.exposition import families
from components.monitoring_server.fleet import NODES_MAX, SILENT_S, Fleet
from components.monitoring_server.share import Share
from components.monitoring_server.workload import Episode, Workload
from components.presence import away, supersedes
from components.repeater import Repeater
from components.settings import Settings
from schemas.codec import Cleared
from schemas.enums import EventOutcome, PerfStatus
from schemas.metrics import AppMetrics, ContainerMetrics, NodeMetrics
from schemas.node import NodeInfo, NodeSnapshot
from schemas.operations import ComponentStatus
from schemas.performance import PerfDegraded, PerfEvent, PerfOutcome, PerfRecovered
from schemas.topics import Role, topic_of

OUTSTANDING_PER_WORKLOAD: Final = 8
OUTSTANDING_MAX: Final = 20_000
HOLD_S: Final = 1.0
"""How long an event waits when it cannot be raised now."""
SWEEP_S: Final = 10.0


class MonitoringServer:
    """Watches every workload, raises events for those with thresholds.

    No event is given up before its outcome came, so events are raised only while there is room: at most 8
    without outcome per workload and 20,000 in all. Beyond, a new episode or a follow-up waits (and is counted);
    the degradation persists, so that nothing is lost by it. The end of an episode never waits.
    """

    role = Role.MONITORING_SERVER
    persistent = False

    def __init__(self, settings: Settings, new_id: Callable[[], str]) -> None:
        self.events_total: Counter[PerfStatus] = Counter()
        self.outcomes_total: Counter[EventOutcome] = Counter()
        self.events_deferred = 0
        """Times that an event had to wait for outcomes of earlier ones."""
        monitoring = settings.monitoring
        self._share = Share(*monitoring.part)
        self.instance = self._share.name
        self.fleet = Fleet(
            lambda node, name: Workload(node, name, monitoring, settings.thresholds_of(name)),
            silent_s=max(SILENT_S, 2 * monitoring.stale_s),
        )
        self._repeat_s = monitoring.repeat_s
        self._stale_s = monitoring.stale_s
        self._new_id = new_id
        self._agents: dict[str, ComponentStatus] = {}
        self._repeater = Repeater()
        self._events: dict[str, Workload] = {}
        """Workloads by the events that have no outcome yet."""
        self._follow_ups: list[tuple[float, int, Workload, Episode]] = []
        self._pushed = 0
        self._sweep_at = 0.0
        self._handlers: dict[type, Callable[[Any, Instant], list[Output]]] = {
            ContainerMetrics: self._containers,
            AppMetrics: self._app,
            NodeMetrics: self._node,
            NodeInfo: self._info,
            NodeSnapshot: self._snapshot,
            PerfOutcome: self._outcome,
            ComponentStatus: self._agent,
            Cleared: self._cleared,
        }

    @property
    def problem(self) -> str | None:
        """Always well: what it knows is in memory, and comes anew with every sample."""
        return None

    def subscriptions(self) -> Sequence[Subscription]:
        """All metrics, outcomes of its events, and who is there."""
        return [
            Subscription(topic_of(NodeMetrics).filter(), 0),
            Subscription(topic_of(ContainerMetrics).filter(), 0),
            Subscription(topic_of(AppMetrics).filter(), 1),
            Subscription(topic_of(PerfOutcome).filter()),
            Subscription(topic_of(ComponentStatus).filter(component=Role.NODE_AGENT)),
            Subscription(topic_of(NodeInfo).filter()),
            Subscription(topic_of(NodeSnapshot).filter()),
        ]

    def concerns(self, topic: str) -> bool:
        """Whether a message is of a node that this instance watches; what is of no node is for all."""
        return self._share.whole or self._share.has(topic)

    def start(self, now: Instant) -> list[Output]:
        """Begin with nothing known."""
        self._sweep_at = now.monotonic + SWEEP_S
        return []

    def connected(self, now: Instant) -> list[Output]:
        """Events without outcome again: they, or their outcomes, may have been lost with the connection."""
        return list(self._repeater.repeat_all(now.monotonic))

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """Take a sample, an outcome, or news of a node."""
        handler = self._handlers.get(type(item))
        return handler(item, now) if handler else []

    def failed(self, _item: Any, _error: Exception, _now: Instant) -> list[Output] | None:
        """Nothing here has an answer: what cannot be handled goes to the dead letters."""
        return None

    def tick(self, now: Instant) -> list[Output]:
        """Raise follow-ups that are due, repeat events without outcome, forget what fell silent."""
        at = now.monotonic
        said: list[Output] = list(self._repeater.due(at))
        while self._follow_ups and self._follow_ups[0][0] <= at:
            _, _, workload, episode = heapq.heappop(self._follow_ups)
            if workload.episode is episode and self.fleet.find(workload.node, workload.name) is workload:
                said += self._follow_up(workload, episode, now)
        if at >= self._sweep_at:
            self._sweep_at = at + SWEEP_S
            self.fleet.forget_silent(at)
        return said

    def close(self) -> None:
        """Nothing to release."""

    def samples(self) -> Iterable[Metric]:
        """Counts of events and outcomes, and the newest measures of nodes and workloads."""
        return families(self)

    @property
    def outstanding(self) -> int:
        """Events without outcome."""
        return len(self._repeater)

    # Samples. The loop over containers runs 20,000 times a second on one core, so it stays plain.

    def _containers(self, message: ContainerMetrics, now: Instant) -> list[Output]:
        node = self.fleet.node(message.node)
        if node is None:
            return []
        at = now.monotonic
        workloads = node.workloads
        said: list[Output] = []
        for use in message.containers:
            workload = workloads.get(use.workload_id) or self.fleet.admit(node, message.node, use.workload_id)
            if workload is None:
                continue
            if workload.runtime_id != use.runtime_id:
                stray = self.fleet.identify(node, workload, use.runtime_id)
                said += self._end(stray, now) if stray else []
            if workload.take_use(use, at):
                said += self._judge(workload, now)
        return said

    def _app(self, message: AppMetrics, now: Instant) -> list[Output]:
        node = self.fleet.node(message.node)
        if node is None:
            return []
        given = message.workload_id
        name = node.names.get(given) or node.aliases.name_of(given)
        workload = node.workloads.get(name) or self.fleet.admit(node, message.node, name)
        if workload is None:
            return []
        workload.take_app(message, now.monotonic)
        return self._judge(workload, now)

    def _node(self, message: NodeMetrics, now: Instant) -> list[Output]:
        node = self.fleet.node(message.node)
        if node is not None:
            node.metrics, node.metrics_at = message, now.monotonic
        return []

    # Episodes and their events

    def _judge(self, workload: Workload, now: Instant) -> list[Output]:
        change = workload.change(now.monotonic)
        if change is PerfStatus.DEGRADED:
            return self._begin(workload, now)
        if change is PerfStatus.RECOVERED:
            return self._end(workload, now)
        return []

    def _begin(self, workload: Workload, now: Instant) -> list[Output]:
        if self._no_room(workload):
            return []
        workload.episode = episode = Episode(self._new_id())
        workload.change(now.monotonic)  # notes which metrics it began with
        self._schedule(workload, episode, now.monotonic + self._repeat_s)
        return self._raise(PerfDegraded, workload, episode, now)

    def _end(self, workload: Workload, now: Instant) -> list[Output]:
        if workload.episode is None:
            return []
        ended = self._raise(PerfRecovered, workload, workload.episode, now)
        workload.episode = None
        return ended

    def _follow_up(self, workload: Workload, episode: Episode, now: Instant) -> list[Output]:
        if not workload.known(now.monotonic) or self._no_room(workload):
            self._schedule(workload, episode, now.monotonic + HOLD_S)
            return []
        self._schedule(workload, episode, now.monotonic + self._repeat_s)
        return self._raise(PerfDegraded, workload, episode, now)

    def _no_room(self, workload: Workload) -> bool:
        full = workload.outstanding >= OUTSTANDING_PER_WORKLOAD or len(self._repeater) >= OUTSTANDING_MAX
        self.events_deferred += full
        return full

    def _schedule(self, workload: Workload, episode: Episode, due: float) -> None:
        self._pushed += 1
        heapq.heappush(self._follow_ups, (due, self._pushed, workload, episode))

    def _raise(self, kind: type[PerfEvent], workload: Workload, episode: Episode, now: Instant) -> list[Output]:
        """A new event about an episode, to be repeated until its outcome comes."""
        at = now.monotonic
        event_id = self._new_id()
        use = workload.use if at - workload.used_at <= self._stale_s else None
        event = kind(
            id=event_id,
            ts=now.epoch_ms,
            event_id=event_id,
            episode_id=episode.episode_id,
            node=workload.node,
            workload_id=workload.name,
            indicators=workload.indicators(at),
            usage=use.usage if use else None,
            limits=use.limits if use else None,
        )
        self.events_total[PerfStatus.DEGRADED if kind is PerfDegraded else PerfStatus.RECOVERED] += 1
        self._events[event_id] = workload
        workload.outstanding += 1
        return [self._repeater.send(event_id, event, at)]

    def _outcome(self, message: PerfOutcome, _now: Instant) -> list[Output]:
        if self._repeater.answered(message.event_id):
            self.outcomes_total[message.outcome] += 1
            self._events.pop(message.event_id).outstanding -= 1
        return []

    # Nodes

    def _info(self, message: NodeInfo, _now: Instant) -> list[Output]:
        node = self.fleet.node(message.node)
        if node is not None:
            node.info = message
        return []

    def _snapshot(self, message: NodeSnapshot, _now: Instant) -> list[Output]:
        node = self.fleet.node(message.node)
        if node is not None:
            node.aliases.learn(message)
        return []

    def _agent(self, message: ComponentStatus, _now: Instant) -> list[Output]:
        known = self._agents.get(message.instance)
        if message.component != Role.NODE_AGENT or (known is None and len(self._agents) >= NODES_MAX):
            return []
        if supersedes(known, message):
            self._agents[message.instance] = message
            if away(message):
                self.fleet.drop(message.instance)
        return []

    def _cleared(self, item: Cleared, _now: Instant) -> list[Output]:
        if item.message is NodeInfo:
            self.fleet.drop(item.values["node"])
        elif item.message is ComponentStatus and item.values["component"] == Role.NODE_AGENT:
            self._agents.pop(item.values["instance"], None)
            self.fleet.drop(item.values["instance"])
        return []
