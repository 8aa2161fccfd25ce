"""Updates and refusals: what is asked of a running container, alone or in a pod."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from podman.errors import APIError

from tests.vm.guest.bench import HOLD, Bench, resource_limits
from tests.vm.guest.cells import STEADY, WORKS, Cell, WrongError, both, refused, tried, wait_until


def cpu_only(bench: Bench) -> Cell:
    raised, lowered = tried(bench, STEADY, cpu_limit=1500), tried(bench, STEADY, cpu_limit=400)
    # No whole percents: systemd rounds the scope's limit up, and within that, as asked is done.
    return both(raised, lowered, tried(bench, STEADY, cpu_limit=1234), tried(bench, STEADY, cpu_limit=255))


def memory_only(bench: Bench) -> Cell:
    return both(tried(bench, STEADY, memory_limit=300), tried(bench, STEADY, memory_limit=150))


def cpu_and_memory(bench: Bench) -> Cell:
    raised = tried(bench, STEADY, cpu_limit=1200, memory_limit=280)
    return both(raised, tried(bench, STEADY, cpu_limit=600, memory_limit=160))


def opposite(bench: Bench) -> Cell:
    one = tried(bench, STEADY, cpu_limit=900, memory_limit=140)
    return both(one, tried(bench, STEADY, cpu_limit=500, memory_limit=200))


def first_limits(bench: Bench) -> Cell:
    bench.start("free")
    try:
        return tried(bench, "free", cpu_limit=700, memory_limit=256)
    finally:
        bench.remove("free")


def shares(bench: Bench) -> Cell:
    return both(tried(bench, STEADY, cpu_shares=4096), tried(bench, STEADY, cpu_shares=512))


def affinity(bench: Bench) -> Cell:
    return both(tried(bench, STEADY, cpuset_cpus="1"), tried(bench, STEADY, cpuset_cpus="0-1"))


def paused(bench: Bench) -> Cell:
    try:
        bench.call("POST", f"/containers/{STEADY}/pause")
    except APIError as error:
        return Cell("Podman cannot pause", str(error))
    try:
        return tried(bench, STEADY, cpu_limit=800, memory_limit=220)
    finally:
        bench.call("POST", f"/containers/{STEADY}/unpause")


def below_usage(bench: Bench) -> Cell:
    bench.start("full", script=HOLD, **resource_limits(memory=256))
    try:
        wait_until(lambda: "held" in bench.cli("logs", "full"))
        cell = tried(bench, "full", memory_limit=40)
        if bench.kernel("full").killed():
            raise WrongError(f"a process was killed by the attempt: {cell}")
        return cell
    finally:
        bench.remove("full")


def infeasible(bench: Bench) -> Cell:
    return tried(bench, STEADY, cpu_limit=(len(os.sched_getaffinity(0)) + 62) * 1000)


def stopped(bench: Bench) -> Cell:
    bench.start("ended", **resource_limits(cpu=500, memory=64))
    bench.call("POST", "/containers/ended/stop?timeout=0")
    try:
        return refused(bench.update("ended", cpu_limit=800))
    finally:
        bench.remove("ended")


def in_pod(bench: Bench) -> Cell:
    return in_limited_pod(bench, cpu_limit=700, memory_limit=180)


def above_pod_memory(bench: Bench) -> Cell:
    return unless_unbound(in_limited_pod(bench, memory_limit=300))


def above_pod_cpu(bench: Bench) -> Cell:
    return unless_unbound(in_limited_pod(bench, cpu_limit=1500))


def unless_unbound(cell: Cell) -> Cell:
    """More than the pod has can be in force, up to the root, only where the pod's limits are in no cgroup."""
    return Cell("pod does not bind", cell.detail) if cell.result == WORKS else cell


def infra(bench: Bench) -> Cell:
    bench.lasting(pod)
    container = next(one for one in bench.runtime.containers(fresh=True) if one.infra)
    return tried(bench, container.name, cpu_limit=800)


def in_limited_pod(bench: Bench, **target: int) -> Cell:
    """Update a container in a pod that has 1 CPU and 256 MiB."""
    return tried(bench, bench.lasting(pod), **target)


@contextmanager
def pod(bench: Bench) -> Iterator[str]:
    """A pod that has limits of its own; the name of a container in it."""
    body = {"name": "pair", "shared_namespaces": ["ipc"], "netns": {"nsmode": "none"}, "exit_policy": "continue"}
    bench.call("POST", "/pods/create", body | resource_limits(cpu=1000, memory=256))
    try:
        bench.start("member", pod="pair", **resource_limits(cpu=500, memory=128))
        yield "member"
    finally:
        bench.call("DELETE", "/pods/pair?force=true")
