"""A PolicyManager on a desk: its clock, its journal in a file, and what it says, all through the real codec."""

import itertools
from pathlib import Path
from typing import Any, ClassVar

from components.component import Instant
from components.policy_manager.journal import Journal
from components.policy_manager.manager import STATE_GRACE_S, PolicyManager
from components.quantities import LimitSettings
from components.settings import PolicySettings, Settings
from schemas.codec import Cleared, Decoded, decode, encode
from schemas.enums import ActionOutcome, CauseType, Phase, Reason, SyncState, TaskState
from schemas.limits import Amount, Limits
from schemas.message import Message, Wire
from schemas.performance import PerfDegraded, PerfEvent, PerfOutcome, PerfRecovered
from schemas.resources import ResourceState
from schemas.scaling import Cause, ScalingAction, ScalingControl, ScalingStatus

EPOCH_MS = 1_750_000_000_000
NAV = PolicySettings(workload="nav", max=LimitSettings(cpu=4000, memory=4096), cooldown_s=10)
LIMITS = Limits(cpu_limit=1000, memory_limit=512)
BUSY = Amount(cpu=950, memory=100)
IDLE = Amount(cpu=100, memory=100)


def degraded(event_id: str, workload: str = "nav", usage: Amount | None = BUSY, **fields: Any) -> PerfDegraded:
    """An event of a workload that needs CPU."""
    known = {"episode_id": "episode", "node": "hpc-1", "limits": LIMITS, **fields}
    return PerfDegraded(event_id=event_id, workload_id=workload, usage=usage, **known)


def recovered(event_id: str, workload: str = "nav") -> PerfRecovered:
    """The event that the workload does well again."""
    return PerfRecovered(event_id=event_id, episode_id="episode", node="hpc-1", workload_id=workload)


def state(
    generation: int = 7, actual: Limits | None = LIMITS, workload: str = "nav", **fields: Any
) -> ResourceState:
    """What ResourceManager says of a managed, synchronized workload."""
    known = {"node": "hpc-1", "sync_state": SyncState.SYNCHRONIZED, "desired": actual, **fields}
    return ResourceState(workload_id=workload, actual=actual, generation=generation, **known)


class Desk:
    """One PolicyManager; `restart` is a crash: only the journal survives."""

    in_use: ClassVar[list["Desk"]] = []
    """To be closed when the test is over."""

    def __init__(self, folder: Path, *policies: PolicySettings, connect: bool = True) -> None:
        self.settings = Settings(policy=policies or (NAV,))
        self.path = folder / "policy_manager.sqlite3"
        self.numbers = itertools.count(1)
        self.monotonic = 100.0
        self.epoch_ms = EPOCH_MS
        self.manager = self._new()
        self.in_use.append(self)
        if connect:
            self.manager.connected(self.instant)
            self.wait(STATE_GRACE_S)

    def _new(self) -> PolicyManager:
        manager = PolicyManager(
            self.settings, Journal(self.path, durable=False), new_id=lambda: f"id-{next(self.numbers)}"
        )
        assert manager.start(self.instant) == []
        return manager

    @property
    def instant(self) -> Instant:
        return Instant(self.monotonic, self.epoch_ms)

    def restart(self, away_s: float = 0.0) -> list[Message]:
        """What is said on the first connection after a crash; the monotonic clock begins anew."""
        self.manager.close()
        self.epoch_ms += round(away_s * 1000)
        self.monotonic = 5.0
        self.manager = self._new()
        return self.spoken(self.manager.connected(self.instant))

    def hear(self, message: Message | Cleared, wire: Wire = Wire.MSGPACK) -> list[Message]:
        """What is said to a message as it comes from the bus."""
        return self.spoken(self.manager.handle(self.arrived(message, wire), self.instant))

    def arrived(self, message: Message | Cleared, wire: Wire = Wire.MSGPACK) -> Decoded:
        if isinstance(message, Cleared):
            return message
        frame = encode(message, wire)
        return decode(frame.topic, frame.payload)

    def spoken(self, said: list[Any]) -> list[Message]:
        """What it says, as others read it."""
        frames = [encode(message) for message in said]
        read = [decode(frame.topic, frame.payload) for frame in frames]
        assert all(isinstance(message, Message) for message in read), read
        return [message for message in read if isinstance(message, Message)]

    def wait(self, seconds: float, step_s: float = 0.5) -> list[Message]:
        """What is said in this time by itself."""
        said, end = [], self.monotonic + seconds
        while self.monotonic < end:
            step = min(step_s, end - self.monotonic)
            self.monotonic += step
            self.epoch_ms += round(step * 1000)
            said += self.spoken(self.manager.tick(self.instant))
        return said

    def outcome(self, message: Message | Cleared, wire: Wire = Wire.MSGPACK) -> PerfOutcome:
        """The outcome that is the only answer to a message."""
        (said,) = self.hear(message, wire)
        assert isinstance(said, PerfOutcome), said
        return said

    def action(self, event: PerfEvent, wire: Wire = Wire.MSGPACK) -> ScalingAction:
        """The action that is the only answer to an event."""
        (said,) = self.hear(event, wire)
        assert isinstance(said, ScalingAction), said
        return said

    def pause(self, *, paused: bool = True, node: str | None = None, workload: str | None = None) -> None:
        assert self.hear(ScalingControl(paused=paused, node=node, workload=workload)) == []

    def break_journal(self, *, broken: bool = True) -> None:
        """Make SQLite refuse every write, as on a read-only disk."""
        connection = self.manager._journal._database._connection
        connection.execute(f"PRAGMA query_only = {'ON' if broken else 'OFF'}")


def final(
    action: ScalingAction, outcome: ActionOutcome = ActionOutcome.COMPLETED, reason: Reason | None = None
) -> ScalingStatus:
    """ActionController's last word on an action."""
    done = outcome is ActionOutcome.COMPLETED
    return ScalingStatus(
        action_id=action.action_id,
        node=action.node,
        workload_id=action.workload_id,
        state=TaskState.SUCCEEDED if done else TaskState.FAILED,
        phase=Phase.DONE,
        outcome=outcome,
        reason=reason,
        message="as the kernel shows" if done else "needs 3000m more CPU",
        cause=action.cause,
        dry_run=action.dry_run,
    )


def by_hand(target: Limits, **fields: Any) -> ScalingAction:
    """Somebody else's action."""
    known = {"node": "hpc-1", "workload_id": "nav", "cause": Cause(type=CauseType.CLI), **fields}
    return ScalingAction(action_id="cli-1", target=target, **known)
