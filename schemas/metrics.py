"""What is measured: nodes, containers and applications."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from schemas.limits import Amount, Limits
from schemas.message import Count, Message, Name

Measure = Annotated[float, Field(allow_inf_nan=False, ge=0)]


class NodeMetrics(Message):
    """Use of one node as a whole."""

    node: Name
    cpu_usage: Measure = Field(description="CPU in use, % of the node")
    cpu_count: Count = Field(description="CPUs of the node")
    used_memory: Count = Field(description="bytes")
    total_memory: Count = Field(description="bytes")
    rx_bytes: Count = Field(0, description="received since boot, bytes")
    tx_bytes: Count = Field(0, description="sent since boot, bytes")
    read_bytes: Count = Field(0, description="read from disks since boot, bytes")
    write_bytes: Count = Field(0, description="written to disks since boot, bytes")


class ContainerUse(BaseModel):
    """Use and limits of one container."""

    model_config = ConfigDict(frozen=True)

    workload_id: Name
    runtime_id: str = Field("", max_length=256, description="full container id")
    usage: Amount
    limits: Limits = Limits()


class ContainerMetrics(Message):
    """Use of all containers of a node, one batch a period."""

    node: Name
    containers: tuple[ContainerUse, ...]


class AppMetrics(Message):
    """What an application, or an ECU that watches it, measures of itself."""

    node: Name
    workload_id: Name
    latency_ms: Measure | None = Field(None, description="response time, ms")
    throughput: Measure | None = Field(None, description="work done, per second")
    fps: Measure | None = Field(None, description="frames per second")
    values: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(
        default_factory=dict, max_length=64, description="free numbers by name"
    )
