"""Whether a container may be given a target: everything that can be refused before the runtime is called.

Podman's own answers come too late: several bad calls fail only after they were half applied.
"""

from dataclasses import dataclass
from typing import Final

from components.node_agent.runtime import Container, Enforced, Host
from schemas.enums import Reason
from schemas.limits import CPU_TOLERANCE_MILLICORES, MEMORY_TOLERANCE_MIB, Limits, parse_cpuset
from schemas.units import MILLICORES_PER_CPU

QUOTA_MIN_US: Final = 1000
"""The kernel's least CFS quota."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not. Final: the same target is refused again until something else changes."""

    reason: Reason
    text: str


def refuse_container(container: Container, runtime_id: str | None) -> Refusal | None:
    """Whether this container can be written to at all, and is the one that was meant."""
    if runtime_id is not None and runtime_id != container.id:
        text = f"{container.name} was re-created: meant {_short(runtime_id)}, present {_short(container.id)}"
        return Refusal(Reason.UNKNOWN_WORKLOAD, text)
    if container.infra:
        text = (
            f"{container.name} is the infra container of pod {_short(container.pod)}; scale the containers in it"
        )
        return Refusal(Reason.UNSUPPORTED, text)
    if not container.alive:
        text = f"{container.name} does not run; start it first, limits of stopped containers cannot be changed"
        return Refusal(Reason.NOT_RUNNING, text)
    return None


def refuse_target(changes: Limits, present: Enforced, host: Host, margin_mib: int) -> Refusal | None:
    """Whether these limits can come into force. `changes` holds only what differs from what is in force."""
    for limit, why in present.unchangeable.items():
        if limit in changes.asked:
            return Refusal(Reason.UNSUPPORTED, f"{limit} cannot be changed: {why}")
    return (
        _refuse_cpu(changes.cpu_limit, present, host)
        or _refuse_cpuset(changes.cpuset_cpus, present, host)
        or _refuse_memory(changes.memory_limit, present, host, margin_mib)
    )


def _refuse_cpu(wanted: int | None, present: Enforced, host: Host) -> Refusal | None:
    if wanted is None:
        return None
    if wanted > host.total.cpu:
        return Refusal(Reason.INFEASIBLE, f"cpu_limit {wanted}m is above the node's {host.total.cpu}m")
    least = -(-QUOTA_MIN_US * MILLICORES_PER_CPU // present.period_us)
    if wanted < least:
        text = (
            f"cpu_limit {wanted}m is below {least}m, the least in the container's period of {present.period_us} µs"
        )
        return Refusal(Reason.INVALID_TARGET, text)
    allowed = present.parents.cpu_limit
    if allowed is not None and wanted > allowed + CPU_TOLERANCE_MILLICORES:
        text = f"cpu_limit {wanted}m is above the {allowed}m of the container's pod or slice; raise that first"
        return Refusal(Reason.PARENT_LIMIT, text)
    return None


def _refuse_cpuset(wanted: str | None, present: Enforced, host: Host) -> Refusal | None:
    if wanted is None:
        return None
    asked = parse_cpuset(wanted)
    if not asked <= host.cpus:
        text = (
            f"cpuset_cpus {wanted}: the node has no CPU {_numbers(asked - host.cpus)}, only {_numbers(host.cpus)}"
        )
        return Refusal(Reason.INFEASIBLE, text)
    allowed = present.parents.cpuset_cpus
    if allowed is not None and not asked <= parse_cpuset(allowed):
        text = f"cpuset_cpus {wanted} is more than {allowed}, the CPUs of its pod or slice; widen that first"
        return Refusal(Reason.PARENT_LIMIT, text)
    return None


def _refuse_memory(wanted: int | None, present: Enforced, host: Host, margin_mib: int) -> Refusal | None:
    if wanted is None:
        return None
    if wanted > host.total.memory:
        return Refusal(Reason.INFEASIBLE, f"memory_limit {wanted}Mi is above the node's {host.total.memory}Mi")
    allowed = present.parents.memory_limit
    if allowed is not None and wanted > allowed + MEMORY_TOLERANCE_MIB:
        text = (
            f"memory_limit {wanted}Mi is above the {allowed}Mi of the container's pod or slice; raise that first"
        )
        return Refusal(Reason.PARENT_LIMIT, text)
    limit = present.limits.memory_limit
    falls = limit is None or wanted < limit
    needed = present.memory_needed
    if falls and wanted < needed + margin_mib:
        text = (
            f"memory_limit {wanted}Mi is below the {needed}Mi in use of late + {margin_mib}Mi margin; "
            "free memory in the container and wait a minute, or ask for more"
        )
        return Refusal(Reason.BELOW_USAGE, text)
    return None


def _short(runtime_id: str) -> str:
    return runtime_id[:12]


def _numbers(cpus: frozenset[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))
