"""Performance events and what came of them."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.enums import EventOutcome, PerfStatus, Reason
from schemas.limits import Amount, Limits
from schemas.message import Id, Message, Name, Text


class Indicator(BaseModel):
    """A metric beside the threshold that it is judged by."""

    model_config = ConfigDict(frozen=True)

    metric: Annotated[str, Field(min_length=1, max_length=128)]
    value: Annotated[float, Field(allow_inf_nan=False)]
    threshold: Annotated[float, Field(allow_inf_nan=False)]


class PerfEvent(Message):
    """Fields of both performance events; repeated until its outcome comes."""

    identity: ClassVar[tuple[str, ...]] = ("event_id", "node", "workload_id")

    event_id: Id
    episode_id: Id = Field(description="one from the first sign of degradation to recovery")
    node: Name
    workload_id: Name
    indicators: Annotated[tuple[Indicator, ...], Field(max_length=64)] = ()
    usage: Amount | None = Field(None, description="what the container uses; absent: not known")
    limits: Limits | None = Field(None, description="limits in force as last sampled; absent: not known")


class PerfDegraded(PerfEvent):
    """A workload performs worse than its thresholds allow."""

    status: Literal[PerfStatus.DEGRADED] = PerfStatus.DEGRADED


class PerfRecovered(PerfEvent):
    """A degraded workload performs well again."""

    status: Literal[PerfStatus.RECOVERED] = PerfStatus.RECOVERED


class PerfOutcome(Message):
    """What came of a performance event: exactly one distinct outcome each."""

    event_id: Id
    node: Name
    workload_id: Name
    action_id: Id | None = None
    outcome: EventOutcome
    reason: Reason | None = None
    message: Text = ""
