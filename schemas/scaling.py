"""Scaling actions, their status, and the switch that pauses automatic scaling."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from schemas.enums import ActionOutcome, CauseType, OnShortage, Phase, Reason, TaskState
from schemas.limits import Limits
from schemas.message import Count, Id, Message, Name, Text


class Cause(BaseModel):
    """Who or what asked for an action."""

    model_config = ConfigDict(frozen=True)

    type: CauseType = CauseType.EXTERNAL
    event_id: Id | None = None


class ScalingAction(Message):
    """Change the limits of a running container (ResourceScalingAction).

    Repeated by its sender until the final status of its `action_id` comes.
    """

    identity: ClassVar[tuple[str, ...]] = ("action_id",)

    action_id: Id
    node: Name
    workload_id: Name
    current: Limits | None = Field(None, description="limits the sender saw; informative")
    target: Limits
    base_generation: Count | None = Field(None, description="refuse unless this is the present generation")
    dry_run: bool = Field(False, description="only say what would happen")
    on_shortage: OnShortage = Field(OnShortage.REJECT, description="what to do when there is no room now")
    wait_s: Annotated[float, Field(ge=0, le=86_400)] = Field(
        60.0, description="longest wait for room with on_shortage=wait, seconds"
    )
    cause: Cause = Cause()


class ScalingStatus(Message):
    """How far an action is. `outcome` is present in the final status only."""

    action_id: Id
    node: Name
    workload_id: Name
    state: TaskState
    phase: Phase
    outcome: ActionOutcome | None = None
    reason: Reason | None = None
    message: Text = ""
    desired: Limits | None = None
    actual: Limits | None = None
    generation: Count | None = None
    dry_run: bool = False
    cause: Cause = Cause()
    timings_ms: dict[Phase, float] = Field(default_factory=dict, description="time spent in each phase, ms")

    @property
    def final(self) -> bool:
        """Whether the action has ended."""
        return self.outcome is not None


class ScalingControl(Message):
    """Automatic scaling paused or resumed; for one node or workload if named. Actions by hand still run."""

    paused: bool
    node: Name | None = None
    workload: Name | None = None
