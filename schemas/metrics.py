"""What is measured: nodes, containers and applications."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.limits import Amount, Limits
from schemas.message import Count, Message, Name

VALUES_MAX: Final = 64

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
    """What an application, or an ECU that watches it, measures of itself.

    A stress metric of Pullpiri is read as it is: its `latency` is ms, its `cpu_loads` become numbers in `values`.
    """

    node: Name
    workload_id: Name
    latency_ms: Measure | None = Field(None, description="response time, ms")
    throughput: Measure | None = Field(None, description="work done, per second")
    fps: Measure | None = Field(None, description="frames per second")
    values: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(
        default_factory=dict, max_length=VALUES_MAX, description="free numbers by name"
    )

    @model_validator(mode="before")
    @classmethod
    def _read_stress_metric(cls, body: Any) -> Any:
        """Pullpiri's words in ours, where its `process_name` is: nobody else's `latency` is known to be ms."""
        if not isinstance(body, dict) or not isinstance(body.get("process_name"), str):
            return body
        theirs = {"latency_ms": body.get("latency"), "values": _loads_by_core(body.get("cpu_loads"))}
        return {**theirs, **body}


def _loads_by_core(told: Any) -> dict[str, Any]:
    """The load of each core, as cpu_load_0 and so on; what is no such list is an unknown field, and ignored."""
    loads = told if isinstance(told, list) else []
    cores = [load for load in loads if isinstance(load, dict) and isinstance(load.get("core_id"), int)]
    return {f"cpu_load_{load['core_id']}": load["load"] for load in cores[:VALUES_MAX] if "load" in load}
