"""What the ledger holds: nodes, workloads and action rows. Frozen; a change is a new record."""

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from schemas.enums import Reason, ReconcileCause, SyncState, Verdict
from schemas.limits import Amount, Limits
from schemas.message import LARGEST_INTEGER
from schemas.resources import ATTEMPT_MAX, CREDIBLE_MAX, Fence, LastFailure, ResourceState

Key = tuple[str, str]
"""Node and workload name."""

Stamp = tuple[int, int]
"""(boot_id, seq) of an observation; only a newer one replaces an older."""

NEVER: Stamp = (0, 0)

REVISION_CREDIBLE_MAX: Final = LARGEST_INTEGER // 2
"""Ours grow by one with each change. After a larger one we could not say anything of the workload any more."""

ATTEMPT_CREDIBLE_MAX: Final = ATTEMPT_MAX // 2
"""After a higher attempt a new generation is begun, since the next attempts might not fit into a message."""

NO_START: tuple[str, int] = ("", 0)
"""Of no container."""


def credible(fence: Fence | None) -> Fence | None:
    """The fence, unless no desired state of ours can have raised it so high."""
    return fence if fence is not None and fence.generation <= CREDIBLE_MAX else None


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class NodeRecord(_Record):
    """One node, as its agent told."""

    node: str
    total: Amount | None = None
    boot_id: int = 0
    heard: bool = False
    """Whether its agent ever told this ledger what runs there."""
    unsupported: dict[str, str] = Field(default_factory=dict)
    """Limits that cannot be changed on this node, with the remedy."""


class ReconcileRecord(_Record):
    """A reconcile that was sent and not yet reported."""

    action_id: str
    attempt: int
    cause: ReconcileCause
    boot_id: int
    runtime_id: str
    failures: int = 0


class WorkloadRecord(_Record):
    """Desired and actual state of one container, by name."""

    node: str
    name: str
    runtime_id: str = ""
    image_id: str = ""
    model: str = ""
    """Pullpiri's model that it belongs to; empty: none."""
    started_at: int = 0
    running: bool = False
    busy: bool = False

    desired: Limits | None = None
    generation: int = 0
    """Of the desired state; stays remembered after a release or removal."""
    unlimited: frozenset[str] = frozenset()
    """Limits of `desired` that stand for "unlimited": written as the node's total, counted by measured use."""
    synchronized: Limits | None = None
    """The last desired state that was confirmed."""
    confirmed_generation: int = 0
    confirmed_stamp: Stamp = NEVER
    confirmed_start: tuple[str, int] = NO_START
    """runtime_id and started_at of the container in which the present generation was confirmed and still held."""

    actual: Limits | None = None
    """Last known; counted even while it is not known to be still so."""
    actual_known: bool = False
    stamp: Stamp = NEVER
    usage: Amount = Amount()
    fence: Fence | None = None
    attempt: int = 0
    """Highest attempt known for the present generation."""

    sync_state: SyncState = SyncState.UNKNOWN
    reason: Reason | None = None
    message: str | None = None
    last_failure: LastFailure | None = None
    since: int = 0
    revision: int = 0

    reconcile: ReconcileRecord | None = None
    reconciles: int = 0
    """How many were begun; makes their ids unique."""
    dormant: bool = False
    """Absent for longer than the hold: remembered, but its room is free and its topic gone."""
    withheld: bool = False
    """Came back when its desired limits no longer fitted: they are neither counted nor applied until they do."""

    @property
    def key(self) -> Key:
        """Node and name."""
        return (self.node, self.name)

    @property
    def managed(self) -> bool:
        """Whether somebody asked for limits."""
        return self.desired is not None

    @property
    def shown(self) -> dict[str, object]:
        """What is published of it."""
        return {
            "desired": self.desired,
            "actual": self.actual if self.actual_known else None,
            "sync_state": self.sync_state,
            "generation": self.generation if self.managed else 0,
            "reason": self.reason,
            "message": self.message,
            "last_failure": self.last_failure,
            "since": self.since,
            "revision": self.revision,
        }

    def view(self) -> ResourceState:
        """The message that publishes it."""
        return ResourceState.model_validate({"node": self.node, "workload_id": self.name, **self.shown})


class Stage(StrEnum):
    """How far an action is in the ledger."""

    RESERVED = "reserved"
    RECORDED = "recorded"
    HELD = "held"
    """Failed; target and rollback stay allocated until the rollback is confirmed."""
    CLOSED = "closed"


class Answer(_Record):
    """A reply that was given, to be given again."""

    step: str
    attempt: int
    body: dict[str, object]


class ActionRow(_Record):
    """One action, or one reconcile that ended."""

    action_id: str
    node: str
    workload: str
    stage: Stage
    attempt: int = 1
    target: Limits = Limits()
    generation: int = 0
    rollback: Limits = Limits()
    rollback_unlimited: frozenset[str] = frozenset()
    rollback_generation: int = 0
    runtime_id: str = ""
    failures: int = 0
    answers: tuple[Answer, ...] = ()
    verdict: Verdict | None = None
    reason: Reason | None = None
    message: str = ""
    closed_ms: int = 0

    @property
    def key(self) -> Key:
        """Node and name of its workload."""
        return (self.node, self.workload)

    @property
    def open(self) -> bool:
        """Whether it may still lead to a change."""
        return self.stage in (Stage.RESERVED, Stage.RECORDED)

    @property
    def counts(self) -> bool:
        """Whether its target is part of what is allocated."""
        return self.stage is not Stage.CLOSED
