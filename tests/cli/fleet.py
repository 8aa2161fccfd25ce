"""A fleet as messages tell it, for what is shown of it."""

from collections.abc import Iterable

from components.overview.overview import Overview
from schemas.enums import ActionOutcome, CauseType, ConnectionState, Phase, Reason, SyncState, TaskState
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.metrics import ContainerMetrics, ContainerUse
from schemas.operations import ComponentStatus
from schemas.resources import NodeCapacity, ResourceState
from schemas.scaling import Cause, ScalingAction, ScalingStatus
from schemas.topics import Role

NOW_MS = 1_800_000_000_000
NEEDED = (Role.MONITORING_SERVER, Role.POLICY_MANAGER, Role.ACTION_CONTROLLER, Role.RESOURCE_MANAGER)


def component(
    role: Role, instance: str = "main", state: ConnectionState = ConnectionState.READY
) -> ComponentStatus:
    return ComponentStatus(component=role, instance=instance, state=state, boot_id=1)


def capacity(node: str, allocated: Amount | None = None) -> NodeCapacity:
    total, reserved = Amount(cpu=8000, memory=16_384), Amount(cpu=800, memory=1638)
    allocated = allocated or Amount(cpu=3000, memory=4096)
    return NodeCapacity(
        node=node,
        total=total,
        allocated=allocated,
        reserved=reserved,
        available=total.less(allocated + reserved),
    )


def workload(
    name: str,
    sync_state: SyncState = SyncState.SYNCHRONIZED,
    node: str = "hpc-1",
    *,
    since_ms: int = NOW_MS - 60_000,
    actual_cpu: int = 2000,
    reason: Reason | None = None,
) -> ResourceState:
    managed = sync_state is not SyncState.UNKNOWN
    return ResourceState(
        node=node,
        workload_id=name,
        sync_state=sync_state,
        desired=Limits(cpu_limit=2000, memory_limit=512) if managed else None,
        actual=Limits(cpu_limit=actual_cpu, memory_limit=512),
        generation=7 if managed else 0,
        since=since_ms,
        reason=reason,
    )


def use(node: str, **millicores: int) -> ContainerMetrics:
    return ContainerMetrics(
        node=node,
        containers=tuple(
            ContainerUse(workload_id=name, usage=Amount(cpu=cpu, memory=cpu // 10))
            for name, cpu in millicores.items()
        ),
    )


def action(name: str, node: str = "hpc-1") -> ScalingAction:
    return ScalingAction(action_id=f"a-{name}", node=node, workload_id=name, target=Limits(cpu_limit=3000))


def status(
    name: str, phase: Phase, outcome: ActionOutcome | None = None, reason: Reason | None = None, message: str = ""
) -> ScalingStatus:
    return ScalingStatus(
        action_id=f"a-{name}",
        node="hpc-1",
        workload_id=name,
        state=TaskState.RUNNING if outcome is None else TaskState.SUCCEEDED,
        phase=phase,
        outcome=outcome,
        reason=reason,
        message=message,
        cause=Cause(type=CauseType.CLI),
    )


def well(*nodes: str) -> list[Message]:
    """All that is needed for nothing to be wrong."""
    agents = [component(Role.NODE_AGENT, node) for node in nodes]
    return [*(component(role) for role in NEEDED), *agents, *(capacity(node) for node in nodes)]


def picture(messages: Iterable[Message], at_ms: int = NOW_MS - 1_000) -> Overview:
    seen = Overview()
    for message in messages:
        seen.hear(message, at_ms)
    return seen
