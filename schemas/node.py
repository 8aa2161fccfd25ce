"""What a NodeAgent is told and says."""

from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.asked import refuse_unknown_limits
from schemas.enums import Reason, SnapshotTrigger, UpdateState
from schemas.limits import Amount, Limits, MiB
from schemas.message import Count, Id, Message, Name, Reply, Request, Text
from schemas.resources import Attempt, Fence

MODEL_LABEL: Final = "io.pullpiri.annotations.model"
"""Pullpiri's label with the name of the model that a container belongs to."""


class UpdateRequest(Request, Limits):
    """Give a running container these limits (UpdateResourcesRequest): any of them, the others stay.

    ActionController always names generation, boot_id and runtime_id; without them it is a change by hand.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    identity: ClassVar[tuple[str, ...]] = ("id", "node", "workload_id")

    node: Name
    workload_id: Name
    action_id: Id | None = None
    attempt: Attempt = 1
    runtime_id: Annotated[str, Field(max_length=256)] | None = None
    generation: Count | None = None
    boot_id: Count | None = None
    deadline_ms: Annotated[int, Field(strict=True, ge=1, le=3_600_000)] | None = Field(
        None, description="do not start later than this after arrival, ms"
    )

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_limits(cls, body: Any) -> Any:
        return refuse_unknown_limits(body, frozenset(cls.model_fields), supported=tuple(Limits.model_fields))

    @property
    def limits(self) -> Limits:
        """The limits asked for."""
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})


class UpdateStatus(BaseModel):
    """Limits in force after an update (ResourceStatus)."""

    model_config = ConfigDict(frozen=True)

    actual_cpu_limit: Count | None = Field(None, description="millicores; absent: unlimited or not known")
    actual_memory_limit: Count | None = Field(None, description="MiB; absent: unlimited or not known")
    update_state: UpdateState = UpdateState.UNKNOWN


class UpdateReply(Reply):
    """How an update went, judged by what the kernel enforces (UpdateResourcesResponse)."""

    node: Name
    action_id: str | None = None
    attempt: Count = 0
    success: bool
    partial: bool = False
    reason: Reason | None = None
    message: Text = ""
    workload_id: str
    runtime_id: str = ""
    generation: Count | None = None
    actual: Limits | None = None
    boot_id: Count
    seq: Count = 0
    fence: Fence | None = None
    status: UpdateStatus = UpdateStatus()


class StatusRequest(Request):
    """What is in force (GetResourceStatus), for one container or all."""

    identity: ClassVar[tuple[str, ...]] = ("id", "node")

    node: Name
    workload_id: Name | None = None
    boot_id: Count | None = Field(None, description="the latest boot of the agent that the asker knows of")


class RuntimeStatus(BaseModel):
    """Limits in force (ResourceRuntimeStatus)."""

    model_config = ConfigDict(frozen=True)

    cpu_limit: Count | None = Field(None, description="millicores; absent: unlimited")
    memory_limit: MiB | None = Field(None, description="MiB; absent: unlimited")
    runtime_id: str = ""


class ContainerReport(BaseModel):
    """One container as its NodeAgent sees it. No `actual`: not known."""

    model_config = ConfigDict(frozen=True)

    workload_id: Name
    runtime_id: str = Field("", max_length=256)
    image_id: str = Field("", max_length=256)
    started_at: Count = Field(0, description="UTC epoch ms; 0: never started")
    running: bool = True
    actual: Limits | None = None
    usage: Amount = Amount()
    fence: Fence | None = None
    busy: bool = False
    labels: dict[str, str] | None = None

    @property
    def model(self) -> str:
        """Pullpiri's model that it belongs to; empty: none."""
        return (self.labels or {}).get(MODEL_LABEL, "")


class StatusReply(Reply):
    """Limits in force, with the stamp of the kernel read."""

    node: Name
    success: bool
    reason: Reason | None = None
    message: Text = ""
    boot_id: Count
    seq: Count = 0
    containers: tuple[ContainerReport, ...] = ()
    status: RuntimeStatus | None = None


class NodeSnapshot(Message):
    """All containers of a node. Truncated: absence of a container proves nothing."""

    node: Name
    boot_id: Count
    seq: Count
    trigger: SnapshotTrigger
    truncated: bool = False
    containers: tuple[ContainerReport, ...] = ()


class Capability(BaseModel):
    """Whether a limit can be changed on this node, and why not."""

    model_config = ConfigDict(frozen=True)

    supported: bool
    reason: Text | None = None


class NodeInfo(Message):
    """What a node is and can do."""

    node: Name
    boot_id: Count
    total: Amount
    podman_version: str = ""
    cgroup_version: Annotated[int, Field(ge=0, le=2)] = 0
    rootless: bool = False
    simulated: bool = False
    capabilities: dict[str, Capability] = Field(default_factory=dict)
