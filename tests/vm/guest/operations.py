"""Every operation, in the order of the table, and how a column of it is made."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from tests.vm.guest import lifecycle, quadlet, updates
from tests.vm.guest.bench import Bench, resource_limits
from tests.vm.guest.cells import STEADY, Cell

OPERATIONS: Final[dict[str, Callable[[Bench], Cell]]] = {
    "CPU limit, raised and lowered": updates.cpu_only,
    "memory limit, raised and lowered": updates.memory_only,
    "CPU and memory in one request": updates.cpu_and_memory,
    "one raised, the other lowered": updates.opposite,
    "limits for a container that had none": updates.first_limits,
    "CPU shares": updates.shares,
    "CPU affinity": updates.affinity,
    "a paused container": updates.paused,
    "a container in a pod": updates.in_pod,
    "a container from a quadlet": quadlet.updated,
    "a container re-created under its name": lifecycle.recreated,
    "more CPU than the machine has": updates.infeasible,
    "more memory than its pod has": updates.above_pod_memory,
    "more CPU than its pod has": updates.above_pod_cpu,
    "a memory limit below use": updates.below_usage,
    "a stopped container": updates.stopped,
    "the infra container of a pod": updates.infra,
    "limits after a restart": lifecycle.restarted,
    "limits after a restart of the quadlet's service": quadlet.restarted,
    "limits after systemctl daemon-reload": lifecycle.reloaded,
    "the quadlet's limits after systemctl daemon-reload": quadlet.reloaded,
    "podman update by somebody else": lifecycle.foreign,
    "a restart told by events": lifecycle.events,
}


def column(bench: Bench) -> dict[str, Any]:
    """Try everything on one Podman. A failure of one operation is a cell too, and stops no other."""
    info = bench.runtime.info()
    host = bench.call("GET", "/info")["host"]
    cells: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for name, try_it in OPERATIONS.items():
        started = time.monotonic()
        try:
            if not bench.runs(STEADY):
                bench.start(STEADY, **resource_limits(cpu=500, memory=200))
            cell = try_it(bench)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is this operation's result
            cell = Cell("ERROR", f"{type(error).__name__}: {error}")
        cells[name] = asdict(cell)
        seconds[name] = round(time.monotonic() - started, 2)
    bench.close()
    bench.remove(STEADY)
    return {
        "podman": info.version,
        "cgroup": info.cgroup_version,
        "rootless": info.rootless,
        "manager": bench.manager,
        "runtime": host["ociRuntime"]["name"],
        "cells": cells,
        "seconds": seconds,
    }
