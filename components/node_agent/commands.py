"""Update requests: which are carried out, when, and what is answered. Logic only; the writing is `update.py`'s."""

from collections import OrderedDict
from typing import Final

from components.component import Call, CallFailed, Instant, Output
from components.node_agent.fences import Admission, Fences
from components.node_agent.inventory import Inventory
from components.node_agent.store import IntentStore
from components.node_agent.update import UpdateProcedure
from components.node_agent.verdict import UpdateOrder, UpdateResult
from components.node_agent.work import UpdateDone, UpdateWork
from components.node_agent.writes import Write, Writes
from schemas.codec import BadRequest
from schemas.enums import Reason, UpdateState
from schemas.node import UpdateReply, UpdateRequest, UpdateStatus
from schemas.resources import CREDIBLE_MAX, Fence

DEADLINE_DEFAULT_S: Final = 10.0
OBSERVATION_S: Final = 120.0
"""No look at containers takes so long: its calls have time-outs."""
ANSWERS_KEPT: Final = 512
"""Answers to changes by hand, kept for repeats; those to commands are kept with their fence."""

_HandKey = tuple[str, str, str]


class Commands:
    """Keeps the fences and the queue of writes of one agent."""

    def __init__(
        self,
        node: str,
        boot_id: int,
        procedure: UpdateProcedure,
        intents: IntentStore,
        inventory: Inventory,
        settle_s: float,
    ) -> None:
        self._node = node
        self._boot_id = boot_id
        self._procedure = procedure
        self._intents = intents
        self._inventory = inventory
        self._settle_s = settle_s
        self._fences = Fences()
        self._writes = Writes(settle_s, (), 0.0)
        self._by_hand: OrderedDict[_HandKey, UpdateReply | None] = OrderedDict()

    def start(self, now: Instant) -> None:
        """Containers an earlier agent died writing to are busy from now on."""
        self._writes = Writes(self._settle_s, self._intents.pending(), now.monotonic)

    def fence_of(self, name: str) -> Fence | None:
        """The highest command sent for a container name."""
        return self._fences.of(name)

    def was_busy(self, name: str, container_id: str, since: float) -> bool:
        """Whether a write was or may have been at work on a container from `since` on."""
        return self._writes.was_busy(name, container_id, since)

    def request(self, request: UpdateRequest, now: Instant) -> list[Output]:
        """Answer at once what can be answered; let the rest wait its turn."""
        if request.boot_id is not None and request.boot_id != self._boot_id:
            text = f"meant for boot {request.boot_id} of this agent, present is {self._boot_id}"
            return [self._reply(request, _refused(Reason.EXPIRED, text))]
        if (request.generation or 0) > CREDIBLE_MAX:
            text = f"generation {request.generation} is none of ours, and nothing could come after it"
            return [self._reply(request, _refused(Reason.INVALID_TARGET, text))]
        name = self._inventory.name_of(request.workload_id)
        deadline_s = DEADLINE_DEFAULT_S if request.deadline_ms is None else request.deadline_ms / 1000
        order = UpdateOrder(request.workload_id, request.limits, now.monotonic + deadline_s, request.runtime_id)
        write = Write(name, request, order)
        known = self._known_by_hand(write) if write.by_hand else self._known_command(write)
        if known is not None:
            return known
        if request.limits.empty:
            text = "no limit is named; give cpu_limit, memory_limit, cpu_shares or cpuset_cpus"
            return [self._answer(write, _refused(Reason.INVALID_TARGET, text))]
        queued = self._writes.queue(write)
        outputs: list[Output] = []
        if not queued.accepted:
            text = "too many updates, or a command for this container, wait already; send a new request later"
            return [self._answer(write, _refused(Reason.OVERLOADED, text))]
        if queued.displaced is not None:
            text = "a newer request for this container came before this one had its turn"
            outputs.append(self._answer(queued.displaced, _refused(Reason.SUPERSEDED, text)))
        return outputs + self._begin()

    def _known_command(self, write: Write) -> list[Output] | None:
        """What is to be said to a command that is not carried out now; None: it is new."""
        request = write.request
        match self._fences.admit(write.name, _fence(request), request.action_id or ""):
            case Admission.NEW:
                return None
            case Admission.RUNNING:
                self._writes.renew(write)
                return []
            case Admission.ANSWERED:
                answer = self._fences.answer(write.name)
                return [] if answer is None else [_again(answer, request)]
            case Admission.FULL:
                text = "too many container names were commanded since this agent started; restart it"
                return [self._reply(request, _refused(Reason.OVERLOADED, text))]
            case Admission.SUPERSEDED:
                fence = self._fences.of(write.name)
                height = "" if fence is None else f" (generation {fence.generation}, attempt {fence.attempt})"
                text = f"a newer command for {write.name} came before{height}"
                return [self._reply(request, _refused(Reason.SUPERSEDED, text), write.name)]

    def _known_by_hand(self, write: Write) -> list[Output] | None:
        key = _hand_key(write)
        if key in self._by_hand:
            answer = self._by_hand[key]
            return [] if answer is None else [_again(answer, write.request)]
        self._by_hand[key] = None
        if len(self._by_hand) > ANSWERS_KEPT:
            self._by_hand.popitem(last=False)
        return None

    def bad(self, bad: BadRequest) -> UpdateReply:
        """The answer to a request that makes no sense."""
        return UpdateReply(
            in_reply_to=bad.identity["id"],
            node=self._node,
            action_id=bad.identity.get("action_id"),
            success=False,
            reason=bad.reason,
            message=bad.text[:4096],
            workload_id=bad.identity["workload_id"],
            boot_id=self._boot_id,
            fence=self._fences.of(self._inventory.name_of(bad.identity["workload_id"])),
            status=UpdateStatus(update_state=UpdateState.FAILED),
            wire=bad.wire,
        )

    def done(self, done: UpdateDone, now: Instant) -> list[Output]:
        """Answer a write that ended, and begin those that waited for it."""
        write = self._writes.finished(done.write.name, now.monotonic) or done.write
        container = done.result.container
        if container is not None:
            self._inventory.note(container)
            if done.result.broken:
                self._writes.settle(container.id, now.monotonic)
        return [self._answer(write, done.result), *self._begin()]

    def crashed(self, work: UpdateWork, failed: CallFailed, now: Instant) -> list[Output]:
        """A write ended by a bug: nobody knows how far it came, so its container stays busy for a while."""
        write = self._writes.finished(work.write.name, now.monotonic) or work.write
        container_id = self._inventory.id_of(write.name)
        if container_id is not None:
            self._writes.settle(container_id, now.monotonic)
        text = f"the agent failed at it: {type(failed.error).__name__}: {failed.error}; see its log"
        return [self._answer(write, _refused(Reason.RUNTIME_ERROR, text)), *self._begin()]

    def failed(self, request: UpdateRequest, error: Exception) -> UpdateReply:
        """The answer to a request whose handling keeps failing."""
        text = f"the agent cannot handle it: {type(error).__name__}: {error}; see its log"
        return self._reply(request, _refused(Reason.RUNTIME_ERROR, text))

    def unreachable(self, text: str) -> list[Output]:
        """The runtime cannot tell its containers. Before it ever did, unsettled writes forbid to begin others."""
        if self._inventory.complete or not self._writes.unsettled:
            return []
        return [self._answer(write, _refused(Reason.RUNTIME_ERROR, text)) for write in self._writes.drop_waiting()]

    def tick(self, now: Instant) -> tuple[list[Output], bool]:
        """Refuse what came too late, begin what waited; also, whether a container has just settled."""
        self._writes.forget_before(now.monotonic - OBSERVATION_S)
        settled = self._writes.settled(now.monotonic)
        for container_id in settled:
            self._intents.end(container_id)
        outputs: list[Output] = []
        for write in self._writes.expired(now.monotonic):
            text = f"{write.name} was busy until the deadline; nothing was begun"
            outputs.append(self._answer(write, _refused(Reason.RUNTIME_TIMEOUT, text)))
        return outputs + self._begin(), bool(settled)

    def _begin(self) -> list[Output]:
        if self._writes.unsettled and not self._inventory.complete:
            return []  # which name the unsettled containers have is not known yet
        return [
            Call(f"update {write.name}", UpdateWork(write, self._procedure))
            for write in self._writes.begin(self._inventory.id_of)
        ]

    def _answer(self, write: Write, result: UpdateResult) -> UpdateReply:
        """The reply to a request, kept for when it comes again."""
        reply = self._reply(write.request, result, write.name)
        if write.by_hand:
            self._by_hand[_hand_key(write)] = reply
        else:
            self._fences.answered(write.name, _fence(write.request), reply)
        return reply

    def _reply(self, request: UpdateRequest, result: UpdateResult, name: str | None = None) -> UpdateReply:
        container, actual = result.container, result.actual
        if name is None:
            name = self._inventory.name_of(request.workload_id)
        return UpdateReply(
            in_reply_to=request.id,
            node=self._node,
            action_id=request.action_id,
            attempt=request.attempt,
            success=result.success,
            partial=result.partial,
            reason=result.reason,
            message=result.message[:4096],
            workload_id=name if container is None else container.name,
            runtime_id="" if container is None else container.id,
            generation=request.generation,
            actual=actual,
            boot_id=self._boot_id,
            seq=result.seq,
            fence=self._fences.of(name),
            status=UpdateStatus(
                actual_cpu_limit=None if actual is None else actual.cpu_limit,
                actual_memory_limit=None if actual is None else actual.memory_limit,
                update_state=UpdateState.SUCCESS if result.success else UpdateState.FAILED,
            ),
            wire=request.wire,
        )


def _refused(reason: Reason, text: str) -> UpdateResult:
    return UpdateResult(reason=reason, message=text)


def _fence(request: UpdateRequest) -> Fence:
    return Fence(generation=request.generation or 0, attempt=request.attempt)


def _hand_key(write: Write) -> _HandKey:
    """The same id with another wish is another request: people reuse ids."""
    return write.request.id, write.name, write.request.limits.model_dump_json(exclude_none=True)


def _again(answer: UpdateReply, request: UpdateRequest) -> UpdateReply:
    return answer.model_copy(update={"in_reply_to": request.id, "wire": request.wire})
