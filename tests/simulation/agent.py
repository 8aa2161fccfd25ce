"""A small NodeAgent that keeps the protocol's rules in their plainest form."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from broker.bus import Subscription
from components.component import Call, Instant, Output
from components.node_agent.runtime import ContainerRuntime, ContainerRuntimeError, NotRunningError
from components.node_agent.stamps import Stamps
from components.node_agent.store import MemoryStore
from components.node_agent.update import UpdateProcedure
from components.node_agent.verdict import UpdateOrder, UpdateResult
from schemas.codec import BadRequest
from schemas.enums import Reason, SnapshotTrigger, UpdateState
from schemas.message import Message
from schemas.node import (
    ContainerReport,
    NodeInfo,
    NodeSnapshot,
    StatusReply,
    StatusRequest,
    UpdateReply,
    UpdateRequest,
    UpdateStatus,
)
from schemas.resources import Fence
from schemas.topics import Role, topic_of
from tests.simulation.kernel import Kernel


@dataclass
class Lane:
    """What the agent knows of one container name."""

    fence: Fence | None = None
    owner: str | None = None
    answer: UpdateReply | None = None
    waiting: list[tuple[UpdateRequest, float]] = field(default_factory=list)
    running: UpdateRequest | None = None
    busy_until: float = 0.0


@dataclass(frozen=True)
class Updated:
    """An update came to its end."""

    request: UpdateRequest
    result: UpdateResult


@dataclass(frozen=True)
class Seen:
    """All containers were read."""

    reply_to: StatusRequest | None
    trigger: SnapshotTrigger
    seq: int
    containers: tuple[ContainerReport, ...] | None
    error: ContainerRuntimeError | None = None


@dataclass(frozen=True)
class Happened:
    """The runtime told of a container."""

    name: str


class ScriptedAgent:
    """The agent of one node."""

    role = Role.NODE_AGENT
    persistent = False
    healthy = None

    def __init__(self, kernel: Kernel, store: MemoryStore, now: Instant, settle_s: float, sync_s: float) -> None:
        self.instance = kernel.node
        self.boot_id = store.next_boot(now.epoch_ms // 1000)
        self._kernel = kernel
        self._runtime: ContainerRuntime = kernel
        self._now = now
        self._stamps = Stamps()
        self._store = store
        self._settle_s = settle_s
        self._sync_s = sync_s
        self._next_sync = now.monotonic
        self._lanes: dict[str, Lane] = {}
        self._settling = {identity: now.monotonic + settle_s for identity in store.pending()}
        self._procedure = UpdateProcedure(
            kernel, store, self._stamps, margin_mib=0, clock=lambda: self._kernel.process_now()
        )

    def subscriptions(self) -> Sequence[Subscription]:
        """Commands and questions to this node."""
        heard: tuple[type[Message], ...] = (UpdateRequest, StatusRequest)
        return [Subscription(topic_of(one).filter(node=self.instance)) for one in heard]

    def start(self, now: Instant) -> list[Output]:
        """Nothing before the bus stands."""
        return []

    def connected(self, now: Instant) -> list[Output]:
        """What it is, and what runs."""
        info = NodeInfo(node=self.instance, boot_id=self.boot_id, total=self._runtime.info().total, simulated=True)
        return [info, self._look(SnapshotTrigger.START)]

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """React."""
        self._now = now
        match item:
            case UpdateRequest():
                return self._update(item)
            case StatusRequest():
                return [self._look(SnapshotTrigger.PERIODIC, item)]
            case Updated():
                return self._updated(item)
            case Seen():
                return self._seen(item)
            case Happened():
                return [self._look(SnapshotTrigger.CONTAINER)]
            case BadRequest():
                return []
        return []

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """Nothing to add."""
        return None

    def tick(self, now: Instant) -> list[Output]:
        """Snapshots, and what waited for a busy container."""
        self._now = now
        out: list[Output] = []
        for identity, until in list(self._settling.items()):
            if now.monotonic >= until:
                del self._settling[identity]
                self._store.end(identity)
        for lane in self._lanes.values():
            out += self._next(lane)
        if now.monotonic >= self._next_sync:
            out.append(self._look(SnapshotTrigger.PERIODIC))
        return out

    def close(self) -> None:
        """Nothing."""

    def busy(self, name: str, identity: str) -> bool:
        """Whether a call for this container may be at work."""
        lane = self._lanes.get(name)
        return identity in self._settling or identity in self._store.pending() or bool(lane and lane.running)

    def _update(self, request: UpdateRequest) -> list[Output]:
        lane = self._lanes.setdefault(request.workload_id, Lane())
        if request.generation is not None:
            if request.boot_id is not None and request.boot_id != self.boot_id:
                return [self._refuse(request, Reason.EXPIRED, "meant for another boot")]
            key = (request.generation, request.attempt)
            present = lane.fence.key if lane.fence else (0, 0)
            if key < present or (key == present and request.action_id != lane.owner):
                return [self._refuse(request, Reason.SUPERSEDED, "an overtaken command")]
            if key == present:
                return [lane.answer.model_copy(update={"in_reply_to": request.id})] if lane.answer else []
            lane.fence = Fence(generation=request.generation, attempt=request.attempt)
            lane.owner, lane.answer = request.action_id, None
        lane.waiting.append((request, self._now.monotonic + (request.deadline_ms or 10_000) / 1000))
        return self._next(lane)

    def _next(self, lane: Lane) -> list[Output]:
        """Begin what waits, if its container is not busy; answer what is too late or overtaken."""
        out: list[Output] = []
        for request, deadline in list(lane.waiting):
            if lane.running is not None:
                break
            overtaken = (
                request.generation is not None
                and lane.fence is not None
                and (request.generation, request.attempt) < lane.fence.key
            )
            truth = self._kernel.containers_by_name.get(request.workload_id)
            settling = truth is not None and truth.id in self._settling
            if overtaken or self._now.monotonic > deadline:
                lane.waiting.remove((request, deadline))
                reason = Reason.SUPERSEDED if overtaken else Reason.RUNTIME_TIMEOUT
                answer = self._refuse(request, reason, "waited too long or overtaken")
                out.append(self._keep(lane, request, answer))
            elif not settling:
                lane.waiting.remove((request, deadline))
                lane.running = request
                out.append(Call("update", partial(self._run, request, deadline)))
        return out

    def _run(self, request: UpdateRequest, deadline: float) -> Updated:
        order = UpdateOrder(request.workload_id, request.limits, deadline, request.runtime_id)
        return Updated(request, self._procedure.run(order))

    def _updated(self, done: Updated) -> list[Output]:
        request, result = done.request, done.result
        lane = self._lanes[request.workload_id]
        lane.running = None
        if result.broken and result.container is not None:
            self._settling[result.container.id] = self._now.monotonic + self._settle_s
        state = UpdateState.SUCCESS if result.success else UpdateState.FAILED
        actual = result.actual
        reply = UpdateReply(
            in_reply_to=request.id,
            node=self.instance,
            action_id=request.action_id,
            attempt=request.attempt,
            success=result.success,
            partial=result.partial,
            reason=result.reason,
            message=result.message,
            workload_id=request.workload_id,
            runtime_id=result.container.id if result.container else "",
            generation=request.generation,
            actual=actual,
            boot_id=self.boot_id,
            seq=result.seq,
            fence=lane.fence,
            status=UpdateStatus(update_state=state),
            wire=request.wire,
        )
        out: list[Output] = [self._keep(lane, request, reply)]
        if result.wrote:
            out.append(self._look(SnapshotTrigger.UPDATE))
        return [*out, *self._next(lane)]

    def _keep(self, lane: Lane, request: UpdateRequest, reply: UpdateReply) -> UpdateReply:
        key = (request.generation, request.attempt)
        if lane.fence is not None and key == lane.fence.key and request.action_id == lane.owner:
            lane.answer = reply
        return reply

    def _refuse(self, request: UpdateRequest, reason: Reason, text: str) -> UpdateReply:
        lane = self._lanes.get(request.workload_id, Lane())
        return UpdateReply(
            in_reply_to=request.id,
            node=self.instance,
            action_id=request.action_id,
            attempt=request.attempt,
            success=False,
            reason=reason,
            message=text,
            workload_id=request.workload_id,
            generation=request.generation,
            boot_id=self.boot_id,
            fence=lane.fence,
            wire=request.wire,
        )

    def _look(self, trigger: SnapshotTrigger, question: StatusRequest | None = None) -> Call:
        if question is None:
            self._next_sync = self._now.monotonic + self._sync_s
        return Call("look", partial(self._read_all, trigger, question))

    def _read_all(self, trigger: SnapshotTrigger, question: StatusRequest | None) -> Seen:
        seq = self._stamps.next()
        found = []
        try:
            containers = self._runtime.containers(fresh=True)
            for container in containers:
                before = self.busy(container.name, container.id)
                try:
                    enforced = self._runtime.read(container) if container.alive else None
                except NotRunningError:
                    continue
                except ContainerRuntimeError:
                    enforced = None
                truth = self._kernel.containers_by_name.get(container.name)
                lane = self._lanes.get(container.name)
                found.append(
                    ContainerReport(
                        workload_id=container.name,
                        runtime_id=container.id,
                        image_id=container.image_id,
                        started_at=container.started_at,
                        running=container.alive,
                        actual=enforced.limits if enforced else None,
                        usage=truth.usage if truth else {"cpu": 0, "memory": 0},
                        fence=lane.fence if lane else None,
                        busy=before or self.busy(container.name, container.id),
                    )
                )
        except ContainerRuntimeError as error:
            return Seen(question, trigger, seq, None, error)
        return Seen(question, trigger, seq, tuple(found))

    def _seen(self, seen: Seen) -> list[Output]:
        question = seen.reply_to
        stamp = {"node": self.instance, "boot_id": self.boot_id, "seq": seen.seq}
        if question is not None:
            wanted = question.workload_id
            containers = tuple(c for c in seen.containers or () if wanted in (None, c.workload_id))
            failed = seen.containers is None
            reason = Reason.QUERY_FAILED if failed else None
            if wanted is not None and not containers and not failed:
                failed, reason = True, Reason.UNKNOWN_WORKLOAD
            reply = StatusReply(
                in_reply_to=question.id, success=not failed, reason=reason, containers=containers, **stamp
            )
            return [reply]
        if seen.containers is None:
            return []
        return [NodeSnapshot(trigger=seen.trigger, containers=seen.containers, **stamp)]
