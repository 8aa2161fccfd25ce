"""What ResourceManager is asked and says: validation, desired and actual state, capacity."""

from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.asked import refuse_unknown_limits
from schemas.enums import DesiredOperation, Reason, ReconcileCause, SyncState, UpdateResult, Verdict
from schemas.limits import Amount, Limits, MiB, Millicores
from schemas.message import LARGEST_INTEGER, Count, Id, Message, Name, Reply, Request, Text

ATTEMPT_MAX: Final = 1_000_000
CREDIBLE_MAX: Final = LARGEST_INTEGER // 2
"""Our generations and boot ids begin in epoch seconds and grow by one. A larger one is not ours, and would leave
no room above it."""

Attempt = Annotated[int, Field(strict=True, ge=1, le=ATTEMPT_MAX, description="grows with each retry, not repeat")]


class Fence(BaseModel):
    """The highest command an agent was sent for a container name."""

    model_config = ConfigDict(frozen=True)

    generation: Count
    attempt: Count

    @property
    def key(self) -> tuple[int, int]:
        """For ordering."""
        return (self.generation, self.attempt)


class ValidateRequest(Request):
    """May these limits be given (ValidateResourceUpdate)? With `reserve`, a yes is a reservation."""

    identity: ClassVar[tuple[str, ...]] = ("id", "node", "workload_id")

    node: Name
    workload_id: Name
    action_id: Id | None = None
    attempt: Attempt = 1
    requested_cpu: Millicores | None = Field(None, description="absolute CPU limit, millicores")
    requested_memory: MiB | None = Field(None, description="absolute memory limit, MiB")
    base_generation: Count | None = None
    reserve: bool = False

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_limits(cls, body: Any) -> Any:
        return refuse_unknown_limits(body, frozenset(cls.model_fields), ("requested_cpu", "requested_memory"))


class ValidateReply(Reply):
    """Whether the limits may be given, and why not."""

    allowed: bool
    reason: Reason | None = None
    message: Text = ""
    node: str
    workload_id: str = Field(description="the container's name")
    available: Amount | None = None
    generation: Count = 0
    verdict: Verdict | None = Field(None, description="how the action ended, if it did")


class DesiredRequest(Request):
    """Record the target of a granted action as desired, or abandon the action."""

    identity: ClassVar[tuple[str, ...]] = ("id", "node", "workload_id")

    action_id: Id
    attempt: Attempt = 1
    node: Name
    workload_id: Name
    operation: DesiredOperation
    target: Limits = Limits()


class DesiredReply(Reply):
    """The whole desired state, its generation, and the container and agent it is meant for."""

    success: bool
    generation: Count = 0
    desired: Limits | None = None
    runtime_id: str = ""
    boot_id: Count = 0
    reason: Reason | None = None
    message: Text = ""
    verdict: Verdict | None = None


class ActualReport(Request):
    """What an update led to, reported for judgement."""

    identity: ClassVar[tuple[str, ...]] = ("id", "node", "workload_id")

    action_id: Id
    attempt: Attempt = 1
    node: Name
    workload_id: Name
    generation: Count
    result: UpdateResult
    actual: Limits | None = Field(None, description="limits in force; absent: not known")
    reason: Reason | None = None
    message: Text = ""
    boot_id: Count = 0
    seq: Count = 0
    fence: Fence | None = None


class ActualReply(Reply):
    """The judgement of a report."""

    verdict: Verdict
    sync_state: SyncState
    generation: Count = 0
    desired: Limits | None = None
    reason: Reason | None = None
    message: Text = ""


class Reconcile(Message):
    """Restore a desired state; repeated until a report of that generation comes."""

    action_id: Id
    node: Name
    workload_id: Name
    desired: Limits
    generation: Count
    attempt: Attempt
    boot_id: Count
    runtime_id: str
    cause: ReconcileCause


class LastFailure(BaseModel):
    """The last action on a workload that failed."""

    model_config = ConfigDict(frozen=True)

    reason: Reason
    action_id: str
    ts: Count = Field(description="UTC epoch ms")


class ResourceState(Message):
    """Desired and actual state of one container; unmanaged ones are UNKNOWN with generation 0."""

    node: Name
    workload_id: Name
    desired: Limits | None = None
    actual: Limits | None = None
    sync_state: SyncState
    generation: Count = 0
    reason: Reason | None = None
    message: Text | None = None
    last_failure: LastFailure | None = None
    since: Count = Field(0, description="when sync_state was entered, UTC epoch ms")
    revision: Count = Field(0, description="grows with each change")


class NodeCapacity(Message):
    """Capacity of one node: available = total - allocated - reserved, never below 0."""

    node: Name
    total: Amount
    allocated: Amount
    reserved: Amount
    available: Amount
    unlimited: tuple[str, ...] = Field((), description="containers without a limit, counted by measured use")
