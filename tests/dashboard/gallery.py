"""A system in every state that there is, as its messages tell it, for a look at the whole page."""

from collections.abc import Iterator

from schemas.enums import (
    ActionOutcome,
    CauseType,
    ConnectionState,
    EventOutcome,
    OnShortage,
    Phase,
    Reason,
    SyncState,
    TaskState,
)
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse, NodeMetrics
from schemas.node import NodeInfo
from schemas.operations import ComponentStatus, DeadLetter, RejectReason
from schemas.performance import Indicator, PerfDegraded, PerfOutcome
from schemas.resources import LastFailure, NodeCapacity, ResourceState
from schemas.scaling import Cause, ScalingAction, ScalingControl, ScalingStatus
from schemas.topics import Role

NODES = ("hpc-1", "hpc-2", "zone-controller.rear-left.with-a-rather-long-name")
LONG = "perception_object-fusion-of-the-front-camera-and-radar.v2"
SHORTAGE = "needs 3000m more CPU, node hpc-1 has 2000m available: total 8000m − allocated 5000m − reserved 1000m"
MARKUP = "<img src=x onerror=\"document.body.innerHTML='broken in'\"><script>document.title='broken in'</script>"


def everything(now_ms: int) -> Iterator[Message]:
    """Messages about nodes, workloads, actions, refusals and components; `now_ms` is UTC epoch ms."""
    yield from _nodes()
    yield from _workloads(now_ms)
    yield from _components()
    yield from _actions()
    yield from _events()


def _nodes() -> Iterator[Message]:
    for number, node in enumerate(NODES):
        total = Amount(cpu=8000, memory=16_384)
        allocated, reserved = Amount(cpu=(5000, 7600, 900)[number], memory=4096), Amount(cpu=800, memory=1638)
        yield NodeInfo(
            node=node,
            boot_id=1,
            total=total,
            podman_version="5.4.2",
            cgroup_version=2,
            rootless=number == 1,
            simulated=number == 2,
        )
        yield NodeCapacity(
            node=node,
            total=total,
            allocated=allocated,
            reserved=reserved,
            available=total.less(allocated).less(reserved),
        )


def _loads() -> Iterator[Message]:
    for node in NODES:
        yield NodeMetrics(node=node, cpu_usage=37.5, cpu_count=8, used_memory=5 * 2**30, total_memory=16 * 2**30)


def _workloads(now_ms: int) -> Iterator[Message]:
    limits = Limits(cpu_limit=1000, memory_limit=512)
    for number, sync_state in enumerate(SyncState):
        troubled = sync_state in (SyncState.FAILED, SyncState.DRIFT_DETECTED)
        yield ResourceState(
            node="hpc-1",
            workload_id=f"app-{sync_state.lower().replace('_', '-')}",
            desired=None if sync_state is SyncState.UNKNOWN else limits,
            actual=Limits(cpu_limit=500, memory_limit=512) if troubled else limits,
            sync_state=sync_state,
            generation=0 if sync_state is SyncState.UNKNOWN else 5,
            reason=Reason.RUNTIME_ERROR if sync_state is SyncState.FAILED else None,
            message=f"podman said no {MARKUP}" if sync_state is SyncState.FAILED else None,
            last_failure=LastFailure(reason=Reason.PARTIAL, action_id="a", ts=now_ms) if troubled else None,
            since=now_ms - 1000 * 60**number,
        )
    yield ResourceState(
        node=NODES[2], workload_id=LONG, actual=Limits(), sync_state=SyncState.UNKNOWN, since=now_ms - 5000
    )


def measures() -> Iterator[Message]:
    """What is said every second or so while agents and applications live."""
    yield from _loads()
    limits = Limits(cpu_limit=1000, memory_limit=512)
    uses = tuple(
        ContainerUse(workload_id=f"app-{name}", usage=Amount(cpu=cpu, memory=300), limits=limits)
        for name, cpu in (("synchronized", 910), ("pending", 40), ("failed", 499))
    )
    yield AppMetrics(node="hpc-1", workload_id="app-synchronized", latency_ms=128.25)
    yield ContainerMetrics(node="hpc-1", containers=uses)


def _components() -> Iterator[Message]:
    for role in (Role.MONITORING_SERVER, Role.POLICY_MANAGER, Role.ACTION_CONTROLLER, Role.RESOURCE_MANAGER):
        lost = role is Role.POLICY_MANAGER
        yield ComponentStatus(
            component=role,
            instance="main",
            state=ConnectionState.LOST if lost else ConnectionState.READY,
            boot_id=1,
        )
        if lost:  # a will is believed of a known life only
            yield ComponentStatus(component=role, instance="main", state=ConnectionState.READY, boot_id=2)
            yield ComponentStatus(component=role, instance="main", state=ConnectionState.LOST, boot_id=2)
    for node in NODES[:2]:
        state = ConnectionState.READY if node == "hpc-1" else ConnectionState.DISCONNECTED
        yield ComponentStatus(component=Role.NODE_AGENT, instance=node, state=state, boot_id=1)
    yield ScalingControl(paused=True, node="hpc-2")
    yield DeadLetter(
        component="action_controller", topic="scaling/action", reason=RejectReason.UNDECODABLE, message=MARKUP
    )


def _actions() -> Iterator[Message]:
    ways = (
        ("running", "app-applying", Phase.UPDATING, TaskState.RUNNING, None, None, ""),
        ("waiting", "app-pending", Phase.WAITING, TaskState.RUNNING, None, Reason.INSUFFICIENT_CPU, SHORTAGE),
        ("done", "app-synchronized", Phase.DONE, TaskState.SUCCEEDED, ActionOutcome.COMPLETED, None, ""),
        (
            *("refused", "app-synchronized", Phase.DONE, TaskState.FAILED, ActionOutcome.REJECTED),
            *(Reason.INSUFFICIENT_CPU, SHORTAGE),
        ),
        (
            *("broken", "app-failed", Phase.DONE, TaskState.FAILED, ActionOutcome.FAILED),
            *(Reason.RUNTIME_ERROR, MARKUP),
        ),
        (
            *("torn", LONG, Phase.DONE, TaskState.FAILED, ActionOutcome.INCONSISTENT),
            *(Reason.PARTIAL, "memory was set, CPU was not"),
        ),
    )
    for action_id, workload, phase, state, outcome, reason, message in ways:
        node = NODES[2] if workload == LONG else "hpc-1"
        target = Limits(cpu_limit=4000, memory_limit=2048)
        yield ScalingAction(
            action_id=action_id, node=node, workload_id=workload, target=target, on_shortage=OnShortage.WAIT
        )
        for one in (Phase.ACCEPTED, Phase.VALIDATING, phase):
            yield ScalingStatus(
                action_id=action_id,
                node=node,
                workload_id=workload,
                state=state if one is phase else TaskState.RUNNING,
                phase=one,
                outcome=outcome if one is phase else None,
                reason=reason if one is phase else None,
                message=message if one is phase else "",
                timings_ms={Phase.VALIDATING: 3.2, Phase.RECORDING: 4.8, Phase.UPDATING: 31.5},
            )


def _events() -> Iterator[Message]:
    over = (Indicator(metric="latency_ms", value=450, threshold=300),)
    for number in range(3):
        event_id = f"e-{number}"
        yield PerfDegraded(
            event_id=event_id, episode_id="p", node="hpc-1", workload_id="app-synchronized", indicators=over
        )
        yield PerfOutcome(
            event_id=event_id,
            node="hpc-1",
            workload_id="app-synchronized",
            outcome=EventOutcome.NOT_REQUIRED,
            reason=Reason.AT_MAXIMUM,
            message="it has 1000m CPU, and its policy allows 1000m",
        )
    yield ScalingAction(
        action_id="by-perf",
        node="hpc-1",
        workload_id="app-synchronized",
        current=Limits(cpu_limit=500),
        target=Limits(cpu_limit=1000),
        cause=Cause(type=CauseType.PERF, event_id="e-2"),
    )
