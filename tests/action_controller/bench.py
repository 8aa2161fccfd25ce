"""An ActionController on a table: a clock set by hand, a real journal, and every message through the codec."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from components.action_controller.controller import ActionController
from components.action_controller.journal import Journal
from components.component import Instant, Output
from components.settings import ActionControllerSettings
from schemas.codec import BadRequest, Cleared, clear, decode, encode, pack
from schemas.enums import OnShortage, Phase, Reason, ReconcileCause, SyncState, Verdict
from schemas.limits import Amount, Limits
from schemas.message import Message, Request, Wire
from schemas.node import UpdateReply, UpdateRequest
from schemas.resources import (
    ActualReply,
    ActualReport,
    DesiredReply,
    DesiredRequest,
    Fence,
    NodeCapacity,
    Reconcile,
    ValidateReply,
    ValidateRequest,
)
from schemas.scaling import ScalingAction, ScalingStatus

NODE = "hpc-1"
BOOT = 100
M = TypeVar("M", bound=Message)
STAMPED = "stamped-by-the-shell"


def amount(cpu: int = 0, memory: int = 0) -> Amount:
    return Amount(cpu=cpu, memory=memory)


class Bench:
    """One ActionController, and whoever it talks to as far as a test lets them speak.

    Whatever a test does, an action may have one final status only, and no status after it.
    """

    def __init__(self, path: Path | None = None, **keys: Any) -> None:
        self.path = path
        self.rules = ActionControllerSettings(**keys)
        self.seconds = 0.0
        self.said: list[Message] = []
        """What came of the last input."""
        self.finals: dict[str, ScalingStatus] = {}
        self.asked: dict[tuple[type[Message], str], Any] = {}
        """The latest request of each type and action."""
        self.controller = self.open()

    @property
    def now(self) -> Instant:
        return Instant(self.seconds, 1_700_000_000_000 + int(self.seconds * 1000))

    def open(self) -> ActionController:
        self.controller = ActionController(Journal(self.path, durable=False), self.rules, self.now)
        self.said = self._carried([*self.controller.start(self.now), *self.controller.connected(self.now)])
        return self.controller

    def restart(self) -> list[Message]:
        """Kill it and start it anew from its journal; returns what it says at its start."""
        self.controller.close()
        self.open()
        return self.said

    def hear(self, item: Message | Cleared) -> list[Message]:
        frame = clear(item) if isinstance(item, Cleared) else encode(item)
        return self.hear_bytes(frame.topic, frame.payload)

    def hear_bytes(self, topic: str, payload: bytes) -> list[Message]:
        item = decode(topic, payload)
        assert isinstance(item, Message | Cleared | BadRequest), item
        self.said = self._carried(self.controller.handle(item, self.now))
        return self.said

    def hear_json(self, topic: str, **body: Any) -> list[Message]:
        return self.hear_bytes(topic, pack(body, Wire.JSON))

    def after(self, seconds: float) -> list[Message]:
        """Let time pass, looked at every 250 ms, and return all that was said meanwhile."""
        said: list[Message] = []
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds = min(end, self.seconds + 0.25)
            said += self._carried(self.controller.tick(self.now))
        self.said = said
        return said

    def _carried(self, outputs: Iterable[Output]) -> list[Message]:
        carried: list[Message] = []
        for output in outputs:
            assert isinstance(output, Message), output
            stamped = output if output.id else output.model_copy(update={"id": STAMPED})
            frame = encode(stamped)
            arrived = decode(frame.topic, frame.payload)
            assert isinstance(arrived, Message), arrived
            if isinstance(arrived, ScalingStatus):
                self._check(arrived)
            action_id = getattr(arrived, "action_id", None)
            if isinstance(arrived, Request) and action_id is not None:
                self.asked[type(arrived), action_id] = arrived
            carried.append(arrived)
        return carried

    def _check(self, status: ScalingStatus) -> None:
        first = self.finals.get(status.action_id)
        if first is not None:
            assert status.model_copy(update={"wire": first.wire}) == first, "a status after the final one"
        elif status.final:
            self.finals[status.action_id] = status

    def heard(self, kind: type[M]) -> list[M]:
        return [message for message in self.said if isinstance(message, kind)]

    def only(self, kind: type[M]) -> M:
        (message,) = self.heard(kind)
        return message

    def phases(self) -> list[tuple[str, str]]:
        """Action and phase of the statuses said last."""
        return [(status.action_id, status.phase.value) for status in self.heard(ScalingStatus)]

    # Who asks

    def act(
        self, action_id: str = "a-1", workload: str = "cam", *, cpu: int | None = 4000, **other: Any
    ) -> list[Message]:
        target = other.pop("target", Limits(cpu_limit=cpu))
        fields: dict[str, Any] = {"id": "m", "node": NODE, **other}
        return self.hear(ScalingAction(action_id=action_id, workload_id=workload, target=target, **fields))

    def waits(self, action_id: str = "a-1", workload: str = "cam", *, wait_s: float = 60.0, **other: Any) -> None:
        """An action that is told there is no room, and waits."""
        self.act(action_id, workload, on_shortage=OnShortage.WAIT, wait_s=wait_s, **other)
        self.refused(action_id)

    def reconcile(self, action_id: str = "r-1", workload: str = "cam", **other: Any) -> list[Message]:
        fields: dict[str, Any] = {
            "desired": Limits(cpu_limit=2500),
            "generation": 7,
            "attempt": 3,
            "boot_id": BOOT,
            "runtime_id": "cam-id-1",
            "cause": ReconcileCause.PERIODIC,
            **other,
        }
        return self.hear(Reconcile(id="m", action_id=action_id, node=NODE, workload_id=workload, **fields))

    # What ResourceManager and the agent answer

    def question(self, kind: type[M], action_id: str = "a-1") -> M:
        """The latest request of this type for an action."""
        request: M = self.asked[kind, action_id]
        return request

    def granted(self, action_id: str = "a-1", **other: Any) -> list[Message]:
        return self._validated(action_id, allowed=True, **other)

    def refused(
        self, action_id: str = "a-1", reason: Reason | None = Reason.INSUFFICIENT_CPU, **other: Any
    ) -> list[Message]:
        return self._validated(action_id, **{"allowed": False, "reason": reason, "message": "why", **other})

    def _validated(self, action_id: str, **body: Any) -> list[Message]:
        asked = self.question(ValidateRequest, action_id)
        fields = {"node": NODE, "workload_id": asked.workload_id, "available": amount(2000, 4096), **body}
        return self.hear(ValidateReply(id="v", in_reply_to=asked.id, **fields))

    def recorded(self, action_id: str = "a-1", **other: Any) -> list[Message]:
        asked = self.question(DesiredRequest, action_id)
        fields: dict[str, Any] = {
            "success": True,
            "generation": 8,
            "desired": asked.target,
            "runtime_id": "cam-id-1",
            "boot_id": BOOT,
            **other,
        }
        return self.hear(DesiredReply(id="d", in_reply_to=asked.id, **fields))

    def not_recorded(self, action_id: str = "a-1", **other: Any) -> list[Message]:
        fields: dict[str, Any] = {"success": False, "desired": None, "reason": Reason.EXPIRED, **other}
        return self.recorded(action_id, **fields)

    def updated(self, action_id: str = "a-1", **other: Any) -> list[Message]:
        asked = self.question(UpdateRequest, action_id)
        fields: dict[str, Any] = {
            "success": True,
            "actual": asked.limits,
            "boot_id": BOOT,
            "seq": 17,
            "fence": Fence(generation=asked.generation or 0, attempt=asked.attempt),
            **other,
        }
        reply = UpdateReply(
            id="u",
            in_reply_to=asked.id,
            node=asked.node,
            action_id=action_id,
            attempt=asked.attempt,
            workload_id=asked.workload_id,
            runtime_id=asked.runtime_id or "",
            generation=asked.generation,
            **fields,
        )
        return self.hear(reply)

    def not_updated(
        self, action_id: str = "a-1", reason: Reason = Reason.RUNTIME_ERROR, **other: Any
    ) -> list[Message]:
        fields: dict[str, Any] = {"success": False, "actual": None, "reason": reason, "message": "why", **other}
        return self.updated(action_id, **fields)

    def judged(self, verdict: Verdict, action_id: str = "a-1", **other: Any) -> list[Message]:
        asked = self.question(ActualReport, action_id)
        done = verdict is Verdict.SYNCHRONIZED
        fields: dict[str, Any] = {
            "sync_state": SyncState.SYNCHRONIZED if done else SyncState.FAILED,
            "generation": asked.generation,
            **other,
        }
        return self.hear(ActualReply(id="j", in_reply_to=asked.id, verdict=verdict, **fields))

    def capacity(self, cpu: int, memory: int = 4096, *, node: str = NODE) -> list[Message]:
        return self.hear(
            NodeCapacity(
                id="c",
                node=node,
                total=amount(8000, 8192),
                allocated=amount(8000 - cpu, 8192 - memory),
                reserved=amount(),
                available=amount(cpu, memory),
            )
        )

    def up_to(self, phase: Phase, action_id: str = "a-1", **other: Any) -> "Bench":
        """Bring an action as far as a phase, everything going well until there."""
        self.act(action_id, **other)
        steps: dict[Phase, Callable[[], object]] = {
            Phase.RECORDING: lambda: self.granted(action_id),
            Phase.UPDATING: lambda: self.recorded(action_id),
            Phase.CONFIRMING: lambda: self.updated(action_id),
            Phase.DONE: lambda: self.judged(Verdict.SYNCHRONIZED, action_id),
        }
        if phase is not Phase.VALIDATING:
            for step, go in steps.items():
                go()
                if step is phase:
                    break
        return self
