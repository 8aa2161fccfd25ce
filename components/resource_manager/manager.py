"""ResourceManager: the component. Each handler is one turn over the ledger; the rules are in modules beside."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from prometheus_client.core import Metric

from broker.bus import Subscription
from components.component import Instant, Output
from components.presence import away, supersedes
from components.resource_manager import admission, drift, echoes, judgement, leases, observation, silence
from components.resource_manager.exposition import families
from components.resource_manager.ledger import Ledger
from components.resource_manager.records import NodeRecord
from components.resource_manager.turn import Live, Turn
from components.settings import Settings
from components.storage import StorageError
from schemas.codec import BadRequest, Cleared
from schemas.enums import DesiredOperation, Reason, ReconcileCause, SyncState, Verdict
from schemas.message import Message
from schemas.node import NodeInfo, NodeSnapshot, StatusReply
from schemas.operations import ComponentStatus
from schemas.resources import (
    ActualReply,
    ActualReport,
    DesiredReply,
    DesiredRequest,
    NodeCapacity,
    ResourceState,
    ValidateReply,
    ValidateRequest,
)
from schemas.topics import Role, address_of, topic_of

HOUSEKEEPING_S: Final = 0.25
"""How often leases, holds and withheld workloads are looked at."""
PRUNE_S: Final = 600.0
REFRESH_S: Final = 30.0
"""How often capacities are said again, unasked: somebody may have deleted one."""
ECHO_S: Final = 60.0
"""For so long after we deleted a retained state its deletion may be our own, and may come twice."""
LATER_MAX: Final = 10_000
"""Topics of which the last word could not be taken in, since the disk was full."""
PROBE_S: Final = 5.0
"""How often a ledger that could not be written is tried."""

Retained = ResourceState | ComponentStatus | Cleared
"""What is said once."""


class ResourceManager:
    """Owner of the desired state and of the room on every node."""

    role = Role.RESOURCE_MANAGER
    instance = "main"
    persistent = True

    def __init__(self, ledger: Ledger, settings: Settings, now: Instant) -> None:
        self._ledger = ledger
        self._settings = settings
        self._live = Live(started=now.monotonic)
        self._trouble: str | None = None
        self._later: dict[str, Retained] = {}
        """By topic: what could not be written down when it came, and does not come again by itself."""
        self._next_housekeeping = now.monotonic
        self._next_prune = now.monotonic + PRUNE_S
        self._next_probe = now.monotonic
        self._next_refresh = now.monotonic + REFRESH_S
        self._handlers: dict[type, Callable[[Turn, Any], None]] = {
            ValidateRequest: admission.validate,
            DesiredRequest: admission.decide,
            ActualReport: judgement.report,
            NodeInfo: observation.info,
            NodeSnapshot: observation.snapshot,
            StatusReply: self._status_reply,
            ComponentStatus: self._agent_status,
            ResourceState: echoes.heard,
            Cleared: self._cleared,
            BadRequest: _refuse,
        }

    @property
    def problem(self) -> str | None:
        """None, or why nothing can be granted."""
        return self._trouble

    @property
    def ledger(self) -> Ledger:
        """The durable state, for inspection."""
        return self._ledger

    @property
    def live(self) -> Live:
        """What only this process knows, for inspection."""
        return self._live

    def samples(self) -> Iterable[Metric]:
        """States, limits, capacity and drift, for Prometheus."""
        return families(self._ledger, self._live)

    def subscriptions(self) -> Sequence[Subscription]:
        """Requests, what agents see, who is there, and its own retained states (to heal and to find ghosts)."""
        heard: tuple[type[Message], ...] = (
            ValidateRequest,
            DesiredRequest,
            ActualReport,
            NodeInfo,
            NodeSnapshot,
            StatusReply,
            ResourceState,
        )
        agents = topic_of(ComponentStatus).filter(component=Role.NODE_AGENT)
        return [*(Subscription(topic_of(message).filter()) for message in heard), Subscription(agents)]

    def start(self, now: Instant) -> list[Output]:
        """Nothing to say before the bus stands."""
        return []

    def connected(self, now: Instant) -> list[Output]:
        """Say everything retained again, repeat what is open, and ask every agent what runs."""
        out: list[Output] = [r.view() for r in self._ledger.workloads.values() if not r.dormant]
        gone = (r.key for r in self._ledger.workloads.values() if r.dormant)
        self._live.cleared |= dict.fromkeys(gone, now.monotonic)  # the echo may have waited for this connection
        with self._turn(now) as turn:
            self._live.capacities.clear()
            self._live.echoed.clear()
            for node in self._ledger.nodes:
                turn.touch(node)
            out += turn.finish()
        for record in self._ledger.workloads.values():
            if record.reconcile is not None:
                message = judgement.reconcile_message(record)
                self._live.repeater.send(("reconcile", record.key), message, now.monotonic)
        out += self._live.repeater.repeat_all(now.monotonic)
        for known in self._ledger.nodes.values():
            agent = self._live.agents.get(known.node)
            if agent is None or not away(agent):
                out.append(observation.ask(self._live, known, now))
        return out

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """Do one turn. Raises StorageError when its changes could not be written; then nothing changed."""
        with self._turn(now) as turn:
            self._handlers[type(item)](turn, item)
            out = turn.finish()
        if self._later and isinstance(item, Retained):
            self._later.pop(_address(item), None)
        return out

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """Answer what could not be recorded; nothing was granted."""
        if not isinstance(error, StorageError):
            return None
        self._trouble = str(error)
        wrong = {"reason": Reason.STORAGE_ERROR, "message": str(error)}
        if isinstance(item, ValidateRequest):
            with self._turn(now) as turn:  # which writes nothing
                known = {"node": item.node, "workload_id": item.workload_id, **admission.free(turn, item.node)}
            return [ValidateReply(in_reply_to=item.id, wire=item.wire, allowed=False, **known, **wrong)]
        if isinstance(item, DesiredRequest) and item.operation is DesiredOperation.RECORD:
            return [DesiredReply(in_reply_to=item.id, wire=item.wire, success=False, **wrong)]
        if isinstance(item, Retained) and len(self._later) < LATER_MAX:
            self._later[_address(item)] = item
        return []  # the sender repeats a report until it could be recorded; observations come again

    def tick(self, now: Instant) -> list[Output]:
        """Repeat unanswered requests; end leases and holds; look for room for whoever waits."""
        out: list[Output] = list(self._live.repeater.due(now.monotonic))
        if now.monotonic < self._next_housekeeping:
            return out
        self._next_housekeeping = now.monotonic + HOUSEKEEPING_S
        try:
            with self._turn(now) as turn:
                leases.trust(turn)
                leases.expire(turn)
                silence.look(turn)
                observation.expire_absent(turn)
                drift.judge_withheld(turn)
                echoes.restate(turn)
                self._try_again(turn)
                self._probe(turn)
                self._forget_echoes(now)
                due = turn.finish()
            out += due
            for item in list(self._later.values()):
                out += self.handle(item, now)
            if now.monotonic >= self._next_refresh:
                self._next_refresh = now.monotonic + REFRESH_S
                out += self._live.capacities.values()
            if now.monotonic >= self._next_prune:
                self._next_prune = now.monotonic + PRUNE_S
                self._ledger.prune(now.epoch_ms)
        except StorageError as error:
            self._trouble = str(error)
        return out

    @contextlib.contextmanager
    def _turn(self, now: Instant) -> Iterator[Turn]:
        """Change ledger and process state together, or neither. Raises StorageError."""
        before = self._live.copy()
        try:
            with self._ledger.work() as work:
                yield Turn(work, self._live, self._settings, now)
        except BaseException:
            self._live = before
            raise
        if work.written:
            self._trouble = None

    def _probe(self, turn: Turn) -> None:
        """While the ledger cannot be written, try now and then whether it can."""
        if self._trouble is not None and turn.now.monotonic >= self._next_probe:
            self._next_probe = turn.now.monotonic + PROBE_S
            turn.work.meta["probed_ms"] = str(turn.now.epoch_ms)

    def _forget_echoes(self, now: Instant) -> None:
        """Forget deletions whose echo can come no more, since names come and go without end."""
        past = [key for key, at in self._live.cleared.items() if now.monotonic >= at + ECHO_S]
        for key in past:
            del self._live.cleared[key]

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def _try_again(self, turn: Turn) -> None:
        """Reconcile once more what failed before, when its time has come."""
        due = [key for key, at in self._live.retry_at.items() if at <= turn.now.monotonic]
        for key in due:
            del self._live.retry_at[key]
            record = turn.work.workload(key)
            if record is not None:
                drift.consider(turn, record, ReconcileCause.PERIODIC)
        for key, ids in list(self._ledger.active.items()):
            record = turn.work.workload(key)
            if ids and record is not None:
                drift.consider(turn, record, ReconcileCause.ROLLBACK)

    def _status_reply(self, turn: Turn, told: StatusReply) -> None:
        observation.status(turn, told)
        leases.answered(turn, told)

    def _agent_status(self, turn: Turn, told: ComponentStatus) -> None:
        node = told.instance
        before = self._live.agents.get(node)
        if not supersedes(before, told):
            return
        self._live.agents[node] = told
        if away(told) and (before is None or not away(before)):
            drift.lost(turn, node, f"the agent of {node} is {told.state}; what is in force there is not known")
            observation.ask_no_more(self._live, node)
        elif before is not None and away(before) and not away(told):
            known = turn.work.node(node) or NodeRecord(node=node)
            turn.say(observation.ask(self._live, known, turn.now))

    def _cleared(self, turn: Turn, cleared: Cleared) -> None:
        """A person deleted a retained topic: a state is released, a node without an agent is forgotten."""
        node = cleared.values.get("node", cleared.values.get("instance", ""))
        if cleared.message is ResourceState:
            key = (node, cleared.values["workload_id"])
            record = turn.work.workload(key)
            if record is None or record.dormant:
                return
            if record.managed and key not in self._live.cleared and not turn.work.active_rows(record.key):
                record = observation.forget_desired(turn, record)
            turn.publish(record)
        elif cleared.message is NodeInfo and (node not in self._live.agents or away(self._live.agents[node])):
            self._forget_node(turn, node)

    def _forget_node(self, turn: Turn, node: str) -> None:
        for record in turn.work.workloads_of(node):
            observation.container_gone(turn, record, f"node {node} was forgotten")
            turn.work.remove(record.key)
            self._live.repeater.answered(("reconcile", record.key))
            turn.clear(record.key)
        turn.work.remove_node(node)
        self._live.answered.discard(node)
        self._live.counted.pop(node, None)
        self._live.agents.pop(node, None)
        observation.ask_no_more(self._live, node)
        silence.forget(turn, node)
        self._live.capacities.pop(node, None)
        turn.out.append(Cleared(NodeCapacity, {"node": node}))


def _refuse(turn: Turn, bad: BadRequest) -> None:
    """Answer a request with a bad value."""
    wrong = {"in_reply_to": bad.identity["id"], "reason": bad.reason, "message": bad.text, "wire": bad.wire}
    names = {"node": bad.identity["node"], "workload_id": bad.identity["workload_id"]}
    if bad.request is ValidateRequest:
        turn.say(ValidateReply(allowed=False, **names, **admission.free(turn, names["node"]), **wrong))
    elif bad.request is DesiredRequest:
        turn.say(DesiredReply(success=False, **wrong))
    elif bad.request is ActualReport:
        turn.say(ActualReply(verdict=Verdict.FAILED, sync_state=SyncState.UNKNOWN, **wrong))


def _address(item: Retained) -> str:
    return item.address if isinstance(item, Cleared) else address_of(item)
