"""What is said to Podman: limits as a bare OCI LinuxResources, safe with every version and OCI runtime.

The pairs belong together: a quota without its period resets the period with old runc, a memory limit above the
stored memory+swap is refused. A wrapper around the body would be ignored with 201; zeros mean "leave", or 0.
"""

from collections.abc import Mapping
from typing import Any, Final

from components.node_agent.podman.kernel import OwnValues
from components.node_agent.runtime import Host
from schemas.limits import Limits
from schemas.units import BYTES_PER_MIB, MILLICORES_PER_CPU

UNLIMITED: Final = -1

Resources = dict[str, dict[str, Any]]


def resources_for(changes: Limits, own: OwnValues) -> Resources:
    """The body that makes `changes` and keeps the container's CFS period and swap allowance."""
    body: Resources = {}
    cpu: dict[str, Any] = {}
    if changes.cpu_limit is not None:
        cpu["quota"] = quota_us(changes.cpu_limit, own.period_us)
        cpu["period"] = own.period_us
    if changes.cpu_shares is not None:
        cpu["shares"] = changes.cpu_shares
    if changes.cpuset_cpus is not None:
        cpu["cpus"] = changes.cpuset_cpus
    if cpu:
        body["cpu"] = cpu
    if changes.memory_limit is not None:
        body["memory"] = _memory(changes.memory_limit * BYTES_PER_MIB, own)
    return body


def quota_us(millicores: int, period_us: int) -> int:
    """CFS quota for a CPU limit, microseconds in each period."""
    return round(millicores * period_us / MILLICORES_PER_CPU)


def _memory(limit: int, own: OwnValues) -> dict[str, int]:
    memory = {"limit": limit}
    if own.swap_known:
        if own.swap is None:
            memory["swap"] = UNLIMITED
        elif own.memory is None:
            memory["swap"] = max(limit, own.swap)
        else:
            memory["swap"] = limit + max(0, own.swap - own.memory)
    return memory


def before(changed: Limits, own: OwnValues, shown: Limits, host: Host) -> Resources:
    """The body that stores what was in force before `changed` was asked for.

    "Unlimited" cannot be asked for reliably (a quota of -1 becomes 1 % with some versions), so it is written as
    all the machine has.
    """
    memory = host.total.memory if own.memory is None else max(1, own.memory // BYTES_PER_MIB)
    old = Limits(
        cpu_limit=host.total.cpu,
        memory_limit=memory,
        cpu_shares=shown.cpu_shares,
        cpuset_cpus=shown.cpuset_cpus,
    ).only(set(changed.asked))
    body = resources_for(old, own)
    if "cpu" in body and "quota" in body["cpu"] and own.quota_us is not None:
        body["cpu"]["quota"] = own.quota_us
    if "memory" in body and own.memory is not None:
        body["memory"]["limit"] = own.memory
        if own.swap is not None:
            body["memory"]["swap"] = own.swap
    return body


def full_set(body: Resources, own: OwnValues, stored: Mapping[str, Any]) -> Resources:
    """`body` over everything else that is in force or stored.

    `stored` is the HostConfig of `inspect`, for versions that forget what is not said; else empty.
    """
    cpu: dict[str, Any] = {
        "shares": stored.get("CpuShares"),
        "cpus": stored.get("CpusetCpus"),
        "mems": stored.get("CpusetMems"),
        "realtimePeriod": stored.get("CpuRealtimePeriod"),
        "realtimeRuntime": stored.get("CpuRealtimeRuntime"),
    }
    if own.quota_us is not None:
        cpu |= {"quota": own.quota_us, "period": own.period_us}
    memory: dict[str, Any] = {"limit": own.memory, "reservation": stored.get("MemoryReservation")}
    if own.memory is not None and own.swap_known:
        memory["swap"] = UNLIMITED if own.swap is None else own.swap
    whole = {
        "cpu": cpu,
        "memory": memory,
        "pids": {"limit": stored.get("PidsLimit")},
        "blockIO": {"weight": stored.get("BlkioWeight")},
    }
    for part, values in body.items():
        whole[part] |= values
    kept = {part: {key: value for key, value in values.items() if value} for part, values in whole.items()}
    return {part: values for part, values in kept.items() if values}
