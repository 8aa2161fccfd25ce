"""One example of every message, from one scaling of one workload: for documents, and for whoever writes a client.

The story: `navigation` on `hpc-1` answers in 450 ms instead of 300, gets 2 CPUs instead of 1, and is well again.
"""

from types import MappingProxyType
from typing import Final

from schemas.enums import (
    ActionOutcome,
    CauseType,
    ConnectionState,
    DesiredOperation,
    EventOutcome,
    Phase,
    ReconcileCause,
    SnapshotTrigger,
    SyncState,
    TaskState,
    UpdateResult,
    UpdateState,
    Verdict,
)
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse, NodeMetrics
from schemas.node import (
    Capability,
    ContainerReport,
    NodeInfo,
    NodeSnapshot,
    RuntimeStatus,
    StatusReply,
    StatusRequest,
    UpdateReply,
    UpdateRequest,
    UpdateStatus,
)
from schemas.operations import ComponentStatus, DeadLetter, RejectReason
from schemas.performance import Indicator, PerfDegraded, PerfOutcome, PerfRecovered
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
from schemas.scaling import Cause, ScalingAction, ScalingControl, ScalingStatus
from schemas.topics import Role, topic_of

_NODE: Final = "hpc-1"
_WORKLOAD: Final = "navigation"
_ACTION: Final = "act-e-7f3a"
_EVENT: Final = "e-7f3a"
_EPISODE: Final = "ep-51c0"
_BEGUN: Final = 1_780_000_000_000
"""Epoch ms."""
_BOOT: Final = 1_779_990_000
_GENERATION: Final = 1_779_000_002
_RUNTIME_ID: Final = "4f1c" * 16
_IMAGE_ID: Final = "9a2e" * 16
_ONE_CPU: Final = Limits(cpu_limit=1000, memory_limit=1024)
_TARGET: Final = Limits(cpu_limit=2000)
_TWO_CPUS: Final = Limits(cpu_limit=2000, memory_limit=1024)
_USAGE: Final = Amount(cpu=990, memory=610)
_TOTAL: Final = Amount(cpu=8000, memory=16_384)
_RESERVED: Final = Amount(cpu=800, memory=1638)
_CAUSE: Final = Cause(type=CauseType.PERF, event_id=_EVENT)
_FENCE: Final = Fence(generation=_GENERATION, attempt=1)
_REPORT: Final = ContainerReport(
    workload_id=_WORKLOAD,
    runtime_id=_RUNTIME_ID,
    image_id=_IMAGE_ID,
    started_at=_BEGUN - 600_000,
    actual=_TWO_CPUS,
    usage=_USAGE,
    fence=_FENCE,
    labels={"io.pullpiri.annotations.model": "navigation"},
)

_METRICS: Final[tuple[Message, ...]] = (
    NodeMetrics(
        node=_NODE,
        cpu_usage=37.5,
        cpu_count=8,
        used_memory=6_442_450_944,
        total_memory=17_179_869_184,
        rx_bytes=81_920,
        tx_bytes=40_960,
        read_bytes=1_048_576,
        write_bytes=524_288,
    ),
    ContainerMetrics(
        node=_NODE,
        containers=(ContainerUse(workload_id=_WORKLOAD, runtime_id=_RUNTIME_ID, usage=_USAGE, limits=_ONE_CPU),),
    ),
    AppMetrics(
        node=_NODE, workload_id=_WORKLOAD, latency_ms=450, throughput=18.5, fps=24, values={"queue_length": 12}
    ),
)

_PERFORMANCE: Final[tuple[Message, ...]] = (
    PerfDegraded(
        event_id=_EVENT,
        episode_id=_EPISODE,
        node=_NODE,
        workload_id=_WORKLOAD,
        indicators=(Indicator(metric="latency_ms", value=450, threshold=300),),
        usage=_USAGE,
        limits=_ONE_CPU,
    ),
    PerfRecovered(
        event_id="e-8b11",
        episode_id=_EPISODE,
        node=_NODE,
        workload_id=_WORKLOAD,
        indicators=(Indicator(metric="latency_ms", value=180, threshold=300),),
        usage=Amount(cpu=1210, memory=612),
        limits=_TWO_CPUS,
    ),
    PerfOutcome(
        event_id=_EVENT, node=_NODE, workload_id=_WORKLOAD, action_id=_ACTION, outcome=EventOutcome.COMPLETED
    ),
)

_SCALING: Final[tuple[Message, ...]] = (
    ScalingAction(
        action_id=_ACTION,
        node=_NODE,
        workload_id=_WORKLOAD,
        current=_ONE_CPU,
        target=_TARGET,
        base_generation=_GENERATION - 1,
        cause=_CAUSE,
    ),
    ScalingStatus(
        action_id=_ACTION,
        node=_NODE,
        workload_id=_WORKLOAD,
        state=TaskState.SUCCEEDED,
        phase=Phase.DONE,
        outcome=ActionOutcome.COMPLETED,
        desired=_TWO_CPUS,
        actual=_TWO_CPUS,
        generation=_GENERATION,
        cause=_CAUSE,
        timings_ms={
            Phase.ACCEPTED: 1.0,
            Phase.VALIDATING: 9.5,
            Phase.RECORDING: 8.0,
            Phase.UPDATING: 30.5,
            Phase.CONFIRMING: 7.0,
        },
    ),
    ScalingControl(paused=True, node=_NODE),
)

_RESOURCES: Final[tuple[Message, ...]] = (
    ValidateRequest(
        id="v-1",
        node=_NODE,
        workload_id=_WORKLOAD,
        action_id=_ACTION,
        requested_cpu=2000,
        base_generation=_GENERATION - 1,
        reserve=True,
    ),
    ValidateReply(
        in_reply_to="v-1",
        allowed=True,
        node=_NODE,
        workload_id=_WORKLOAD,
        available=Amount(cpu=3200, memory=8554),
        generation=_GENERATION - 1,
    ),
    DesiredRequest(
        id="d-1",
        action_id=_ACTION,
        node=_NODE,
        workload_id=_WORKLOAD,
        operation=DesiredOperation.RECORD,
        target=_TARGET,
    ),
    DesiredReply(
        in_reply_to="d-1",
        success=True,
        generation=_GENERATION,
        desired=_TWO_CPUS,
        runtime_id=_RUNTIME_ID,
        boot_id=_BOOT,
    ),
    ActualReport(
        id="a-1",
        action_id=_ACTION,
        node=_NODE,
        workload_id=_WORKLOAD,
        generation=_GENERATION,
        result=UpdateResult.SUCCESS,
        actual=_TWO_CPUS,
        boot_id=_BOOT,
        seq=4711,
        fence=_FENCE,
    ),
    ActualReply(
        in_reply_to="a-1",
        verdict=Verdict.SYNCHRONIZED,
        sync_state=SyncState.SYNCHRONIZED,
        generation=_GENERATION,
        desired=_TWO_CPUS,
    ),
    Reconcile(
        action_id="rec-5d20",
        node=_NODE,
        workload_id=_WORKLOAD,
        desired=_TWO_CPUS,
        generation=_GENERATION,
        attempt=2,
        boot_id=_BOOT,
        runtime_id=_RUNTIME_ID,
        cause=ReconcileCause.PERIODIC,
    ),
    ResourceState(
        node=_NODE,
        workload_id=_WORKLOAD,
        desired=_TWO_CPUS,
        actual=_TWO_CPUS,
        sync_state=SyncState.SYNCHRONIZED,
        generation=_GENERATION,
        since=_BEGUN + 57,
        revision=9,
    ),
    NodeCapacity(
        node=_NODE,
        total=_TOTAL,
        allocated=Amount(cpu=5000, memory=6192),
        reserved=_RESERVED,
        available=Amount(cpu=2200, memory=8554),
        unlimited=("telemetry",),
    ),
)

_NODE_AGENT: Final[tuple[Message, ...]] = (
    UpdateRequest(
        id="u-1",
        node=_NODE,
        workload_id=_WORKLOAD,
        action_id=_ACTION,
        runtime_id=_RUNTIME_ID,
        generation=_GENERATION,
        boot_id=_BOOT,
        deadline_ms=10_000,
        cpu_limit=2000,
        memory_limit=1024,
    ),
    UpdateReply(
        in_reply_to="u-1",
        node=_NODE,
        action_id=_ACTION,
        attempt=1,
        success=True,
        workload_id=_WORKLOAD,
        runtime_id=_RUNTIME_ID,
        generation=_GENERATION,
        actual=_TWO_CPUS,
        boot_id=_BOOT,
        seq=4711,
        fence=_FENCE,
        status=UpdateStatus(actual_cpu_limit=2000, actual_memory_limit=1024, update_state=UpdateState.SUCCESS),
    ),
    StatusRequest(id="q-1", node=_NODE, workload_id=_WORKLOAD),
    StatusReply(
        in_reply_to="q-1",
        node=_NODE,
        success=True,
        boot_id=_BOOT,
        seq=4790,
        containers=(_REPORT,),
        status=RuntimeStatus(cpu_limit=2000, memory_limit=1024, runtime_id=_RUNTIME_ID),
    ),
    NodeSnapshot(node=_NODE, boot_id=_BOOT, seq=4750, trigger=SnapshotTrigger.PERIODIC, containers=(_REPORT,)),
    NodeInfo(
        node=_NODE,
        boot_id=_BOOT,
        total=_TOTAL,
        podman_version="4.3.1",
        cgroup_version=2,
        capabilities={
            "cpu_limit": Capability(supported=True),
            "cpuset_cpus": Capability(supported=False, reason="the cpuset controller is not delegated"),
        },
    ),
)

_OPERATIONS: Final[tuple[Message, ...]] = (
    ComponentStatus(
        component="node_agent", instance=_NODE, state=ConnectionState.READY, boot_id=_BOOT, version="0.1.0"
    ),
    DeadLetter(
        component="monitoring_server",
        topic="metrics/hpc-1/app/navigation",
        reason=RejectReason.INVALID,
        message="latency_ms: Input should be a valid number, unable to parse string as a number, not 'slow'",
        head=b'{"latency_ms": "slow"}'.hex(),
    ),
)


def _stamped(number: int, example: Message) -> Message:
    """An example as its sender's shell sends it. An application stamps nothing: it need not."""
    sender = next(role for role in Role if role in topic_of(type(example)).writers)
    if isinstance(example, ComponentStatus):
        sender = Role(example.component)
    if sender is Role.APPLICATION:
        return example
    instance = _NODE if sender is Role.NODE_AGENT else "main"
    source = "cli" if sender is Role.CLI else f"{sender}/{instance}"
    return example.model_copy(
        update={"id": example.id or f"msg-{number}", "ts": _BEGUN + number, "source": source}
    )


EXAMPLES: Final = MappingProxyType(
    {
        type(example): _stamped(number, example)
        for number, example in enumerate(
            (*_METRICS, *_PERFORMANCE, *_SCALING, *_RESOURCES, *_NODE_AGENT, *_OPERATIONS), start=1
        )
    }
)
"""By message type; every type of the registry has one."""
