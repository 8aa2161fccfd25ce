"""A ResourceManager on a table: a clock set by hand, a real ledger, and every message through the codec."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from components.component import Instant, Output
from components.repeater import request_id
from components.resource_manager.ledger import Ledger
from components.resource_manager.manager import ResourceManager
from components.settings import Settings
from schemas.codec import BadRequest, Cleared, clear, decode, encode, pack
from schemas.enums import ConnectionState, DesiredOperation, Reason, SnapshotTrigger, UpdateResult
from schemas.limits import Amount, Limits
from schemas.message import Message, Wire
from schemas.node import ContainerReport, NodeInfo, NodeSnapshot, StatusReply
from schemas.operations import ComponentStatus
from schemas.resources import (
    ActualReply,
    ActualReport,
    DesiredReply,
    DesiredRequest,
    Fence,
    NodeCapacity,
    Reconcile,
    ResourceState,
    ValidateReply,
    ValidateRequest,
)
from schemas.topics import address_of

EPOCH_S = 1_700_000_000
NODE = "hpc-1"
M = TypeVar("M", bound=Message)


def settings(**changes: Any) -> Settings:
    """8 CPUs are 8000m, of which 1000m and 1024 MiB are kept for the system; other keys as given."""
    section = {"reserved": {"cpu": "1000m", "memory": "1Gi"}, **changes}
    top = {name: section.pop(name) for name in ("policy", "action_controller") if name in section}
    return Settings.model_validate({"resource_manager": section, **top})


def container(
    name: str = "cam",
    cpu: int | None = 2000,
    memory: int | None = 1024,
    *,
    usage: tuple[int, int] = (500, 300),
    readable: bool = True,
    fence: tuple[int, int] | None = None,
    **other: Any,
) -> ContainerReport:
    """A running container with these limits; None is unlimited."""
    fields: dict[str, Any] = {"runtime_id": f"{name}-id-1", "image_id": "image-1", "started_at": 1, **other}
    return ContainerReport(
        workload_id=name,
        actual=Limits(cpu_limit=cpu, memory_limit=memory) if readable else None,
        usage=Amount(cpu=usage[0], memory=usage[1]),
        fence=Fence(generation=fence[0], attempt=fence[1]) if fence else None,
        **fields,
    )


class Bench:
    """One ResourceManager, the broker's retained topics, and one node's agent as far as it speaks."""

    def __init__(self, path: Path | None = None, rules: Settings | None = None, *, epoch_s: int = EPOCH_S) -> None:
        self.path = path
        self.rules = rules or settings()
        self.seconds = 0.0
        self.epoch_s = epoch_s
        self.boot_id = 100
        self.seq = 0
        self.said: list[Message | Cleared] = []
        """What came of the last input."""
        self.retained: dict[str, Message] = {}
        self.restarts = False
        """Whether ResourceManager is killed and started anew before each request."""
        self.manager = self._open()

    @property
    def now(self) -> Instant:
        return Instant(self.seconds, self.epoch_s * 1000 + int(self.seconds * 1000))

    def _open(self) -> ResourceManager:
        ledger = Ledger(self.path, self.now.epoch_ms // 1000, durable=False)
        self.manager = ResourceManager(ledger, self.rules, self.now)
        self.said = self._carried([*self.manager.start(self.now), *self.manager.connected(self.now)])
        return self.manager

    def reopen(self) -> None:
        """Start ResourceManager anew from its file; the broker still has what agents retained."""
        self.manager.close()
        self._open()
        said = list(self.said)
        for message in list(self.retained.values()):
            if not isinstance(message, NodeCapacity):
                said += self.hear(message)
        self.said = said

    def hear(self, item: Message | Cleared) -> list[Message | Cleared]:
        """Let a message come from the bus, and return what is said to it."""
        frame = clear(item) if isinstance(item, Cleared) else encode(item)
        return self.hear_bytes(frame.topic, frame.payload)

    def hear_bytes(self, topic: str, payload: bytes) -> list[Message | Cleared]:
        item = decode(topic, payload)
        assert isinstance(item, Message | Cleared | BadRequest), item
        self.said = self._carried(self.manager.handle(item, self.now))
        return self.said

    def hear_json(self, topic: str, **body: Any) -> list[Message | Cleared]:
        return self.hear_bytes(topic, pack(body, Wire.JSON))

    def after(self, seconds: float = 0.25) -> list[Message | Cleared]:
        """Let time pass, looked at every 250 ms as the shell would, and return all that was said meanwhile."""
        said: list[Message | Cleared] = []
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds = min(end, self.seconds + 0.25)
            said += self._carried(self.manager.tick(self.now))
        self.said = said
        return said

    def _carried(self, outputs: Iterable[Output]) -> list[Message | Cleared]:
        carried: list[Message | Cleared] = []
        for output in outputs:
            assert isinstance(output, Message | Cleared), output
            if isinstance(output, Cleared):
                self.retained.pop(output.address, None)
                carried.append(output)
                continue
            stamped = output if output.id else output.model_copy(update={"id": "stamped-by-the-shell"})
            frame = encode(stamped)
            arrived = decode(frame.topic, frame.payload)
            assert isinstance(arrived, Message), arrived
            if frame.retain:
                self.retained[frame.topic] = arrived
            carried.append(arrived)
        return carried

    def heard(self, kind: type[M]) -> list[M]:
        """What was said last, of one type."""
        return [message for message in self.said if isinstance(message, kind)]

    def only(self, kind: type[M]) -> M:
        (message,) = self.heard(kind)
        return message

    # What agents say

    def info(self, cpu: int = 8000, memory: int = 16_384, *, node: str = NODE, **other: Any) -> None:
        told = NodeInfo(id="i", node=node, boot_id=self.boot_id, total=Amount(cpu=cpu, memory=memory), **other)
        self.retained[address_of(told)] = told
        self.hear(told)

    def snapshot(
        self,
        *containers: ContainerReport,
        trigger: SnapshotTrigger = SnapshotTrigger.PERIODIC,
        node: str = NODE,
        truncated: bool = False,
        seq: int | None = None,
    ) -> None:
        if seq is None:
            self.seq = seq = self.seq + 1
        told = NodeSnapshot(
            id=f"s{self.boot_id}.{seq}",
            node=node,
            boot_id=self.boot_id,
            seq=seq,
            trigger=trigger,
            truncated=truncated,
            containers=containers,
        )
        self.retained[address_of(told)] = told
        self.hear(told)

    def agent_says(self, question: str, *containers: ContainerReport, **other: Any) -> None:
        """Answer a question of ResourceManager."""
        self.seq += 1
        fields: dict[str, Any] = {"success": True, "boot_id": self.boot_id, "seq": self.seq, **other}
        self.hear(StatusReply(id="r", in_reply_to=question, node=NODE, containers=containers, **fields))

    def agent_is(self, state: ConnectionState, *, boot_id: int | None = None, node: str = NODE) -> None:
        told = ComponentStatus(
            id="c", component="node_agent", instance=node, state=state, boot_id=boot_id or self.boot_id
        )
        self.retained[address_of(told)] = told
        self.hear(told)

    def agent_restarts(self, *containers: ContainerReport) -> None:
        """A new life of the agent: it says what it is and what it sees."""
        self.boot_id += 1
        self.seq = 0
        self.info()
        self.snapshot(*containers, trigger=SnapshotTrigger.START)

    # What ActionController asks

    def _about_to_ask(self) -> None:
        if self.restarts:
            self.reopen()

    def validate(
        self,
        action_id: str | None = "a-1",
        workload: str = "cam",
        *,
        cpu: int | None = None,
        memory: int | None = None,
        attempt: int = 1,
        reserve: bool = True,
        base_generation: int | None = None,
        node: str = NODE,
        wire: Wire = Wire.MSGPACK,
    ) -> ValidateReply:
        self._about_to_ask()
        request = ValidateRequest(
            id=request_id(action_id, "validate", attempt),
            node=node,
            workload_id=workload,
            action_id=action_id,
            attempt=attempt,
            requested_cpu=cpu,
            requested_memory=memory,
            base_generation=base_generation,
            reserve=reserve,
            wire=wire,
        )
        self.hear(request)
        reply = self.only(ValidateReply)
        assert reply.in_reply_to == request.id
        return reply

    def decide(
        self,
        operation: DesiredOperation,
        action_id: str,
        workload: str,
        *,
        attempt: int = 1,
        target: Limits | None = None,
    ) -> DesiredReply:
        self._about_to_ask()
        request = DesiredRequest(
            id=request_id(action_id, operation, attempt),
            action_id=action_id,
            attempt=attempt,
            node=NODE,
            workload_id=workload,
            operation=operation,
            target=target or Limits(),
        )
        self.hear(request)
        reply = self.only(DesiredReply)
        assert reply.in_reply_to == request.id
        return reply

    def record(
        self, action_id: str = "a-1", workload: str = "cam", *, attempt: int = 1, **target: Any
    ) -> DesiredReply:
        limits = Limits(**target)
        return self.decide(DesiredOperation.RECORD, action_id, workload, attempt=attempt, target=limits)

    def abandon(self, action_id: str = "a-1", workload: str = "cam", *, attempt: int = 1) -> DesiredReply:
        return self.decide(DesiredOperation.ABANDON, action_id, workload, attempt=attempt)

    def report(
        self,
        action_id: str = "a-1",
        workload: str = "cam",
        *,
        generation: int,
        actual: Limits | None = None,
        result: UpdateResult = UpdateResult.SUCCESS,
        reason: Reason | None = None,
        message: str = "",
        attempt: int = 1,
        boot_id: int | None = None,
        seq: int | None = None,
        fence: Fence | None = None,
    ) -> ActualReply:
        """Report an update; its observation is the newest of all unless `seq` says otherwise."""
        self._about_to_ask()
        if seq is None:
            self.seq = seq = self.seq + 1
        report = ActualReport(
            id=request_id(action_id, "report", attempt),
            action_id=action_id,
            attempt=attempt,
            node=NODE,
            workload_id=workload,
            generation=generation,
            result=result,
            actual=actual,
            reason=reason,
            message=message,
            boot_id=self.boot_id if boot_id is None else boot_id,
            seq=seq,
            fence=fence,
        )
        self.hear(report)
        reply = self.only(ActualReply)
        assert reply.in_reply_to == report.id
        return reply

    def fails(self, action_id: str = "a-1", workload: str = "cam", **told: Any) -> ActualReply:
        """Report a failure."""
        told.setdefault("reason", Reason.RUNTIME_ERROR)
        return self.report(action_id, workload, **{"result": UpdateResult.FAILED, **told})

    # Whole steps

    def recorded(self, action_id: str = "a-1", workload: str = "cam", **target: int) -> DesiredReply:
        """Validate with a reservation, and record."""
        cpu, memory = target.get("cpu_limit"), target.get("memory_limit")
        granted = self.validate(action_id, workload, cpu=cpu, memory=memory)
        assert granted.allowed, granted
        reply = self.record(action_id, workload, **target)
        assert reply.success, reply
        return reply

    def scaled(self, action_id: str = "a-1", workload: str = "cam", **target: int) -> DesiredReply:
        """A whole successful action."""
        recorded = self.recorded(action_id, workload, **target)
        present = self.state(workload).actual or Limits()
        desired = recorded.desired or Limits()
        done = self.report(action_id, workload, generation=recorded.generation, actual=present.merged(desired))
        assert done.verdict == "SYNCHRONIZED", done
        return recorded

    def reconciled(self, sent: Reconcile, **told: Any) -> ActualReply:
        """Report a reconcile as done, or as `told`."""
        fields = {"generation": sent.generation, "attempt": sent.attempt, "actual": sent.desired, **told}
        return self.report(sent.action_id, sent.workload_id, **fields)

    # What people see

    def state(self, workload: str = "cam") -> ResourceState:
        state = self.retained[f"resources/state/{NODE}/{workload}"]
        assert isinstance(state, ResourceState)
        return state

    def capacity(self, node: str = NODE) -> NodeCapacity:
        capacity = self.retained[f"resources/capacity/{node}"]
        assert isinstance(capacity, NodeCapacity)
        return capacity
