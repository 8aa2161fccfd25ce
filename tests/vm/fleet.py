"""Boots the machines that tests ask for, a few at a time, and lets each do all its jobs while it is up."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.vm import checkout
from tests.vm.columns import Boot, Column
from tests.vm.machine import Machine, build_image

AT_ONCE: Final = int(os.environ.get("PIRISCALE_VM_AT_ONCE", "2"))
JOB_TIMEOUT_S: Final = 1500.0
SETUP_TIMEOUT_S: Final = 300.0
CHECKOUT: Final = "/opt/checkout"
BYTECODE: Final = "/opt/bytecode"
"""Beside the checkout, which is read-only: compiling at each start would take half a minute."""
IMAGE: Final = "localhost/busybox:latest"
IMPORT_IMAGE: Final = f"""
set -e
d=$(mktemp -d)
mkdir "$d/bin"
cp /bin/busybox "$d/bin"
tar -C "$d" -c . | podman import --quiet - {IMAGE}
rm -r "$d"
"""


def can_build() -> str | None:
    """What this machine lacks to build and boot others, in words; None when nothing."""
    if os.geteuid() != 0:
        return "root, to build a machine's image"
    if shutil.which("apt-get") is None:
        return "apt-get, to build a machine's image from Debian's packages"
    return None


@dataclass(frozen=True)
class Job:
    """A program of tests/vm/guest on one Podman service; what it prints last is its result, as JSON."""

    column: Column
    program: str
    arguments: tuple[str, ...] = ()


class Fleet:
    """All machines of a test run. A context manager."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        """`jobs`: all that will be asked for."""
        self._results: dict[Job, Future[Any]] = {job: Future() for job in jobs}
        self._pool = ThreadPoolExecutor(AT_ONCE)

    def start(self) -> None:
        """Begin with all machines, the one with most to do first."""
        boots = [job.column.boot for job in self._results]
        for boot in sorted(set(boots), key=boots.count, reverse=True):
            jobs = {job: result for job, result in self._results.items() if job.column.boot == boot}
            self._pool.submit(carry_out, boot, jobs)

    def result(self, job: Job) -> Any:
        """Wait for a job. Raises what it failed with, or what kept its machine from booting."""
        return self._results[job].result()

    def close(self) -> None:
        """Wait for what has begun, and begin nothing more."""
        self._pool.shutdown(cancel_futures=True)


def carry_out(boot: Boot, jobs: Mapping[Job, Future[Any]]) -> None:
    """Boot one machine, and do the jobs one by one. What fails leaves its exception as its result."""
    try:
        with tempfile.TemporaryDirectory(prefix="piriscale-vm-") as name:
            scratch = Path(name)
            disk = checkout.disk(boot.python, scratch)
            with Machine(build_image(boot.suite), disk, scratch, boot.kernel_arguments) as machine:
                ready = set[Column]()
                for job, result in jobs.items():
                    fill(result, partial(do, machine, job, ready))
    except Exception as error:  # noqa: BLE001 - it is raised again where a result is asked for
        for result in jobs.values():
            if not result.done():
                result.set_exception(error)


def fill(result: Future[Any], work: Callable[[], Any]) -> None:
    """Do what was promised, and tell how it went."""
    try:
        result.set_result(work())
    except Exception as error:  # noqa: BLE001 - it is raised again where the result is asked for
        result.set_exception(error)


def set_up(machine: Machine, column: Column) -> None:
    """Start Podman's service, and give it an image."""
    machine.check(*column.start, user=column.user, timeout_s=SETUP_TIMEOUT_S)
    machine.check("bash", "-c", f"until [ -S {column.socket} ]; do sleep 0.2; done", timeout_s=SETUP_TIMEOUT_S)
    machine.check("bash", "-c", IMPORT_IMAGE, user=column.user, timeout_s=SETUP_TIMEOUT_S)


def do(machine: Machine, job: Job, ready: set[Column]) -> Any:
    """Run one program to its end, on a service that is started unless it is `ready`."""
    if job.column not in ready:
        set_up(machine, job.column)
        ready.add(job.column)
    python = [
        "env",
        f"--chdir={CHECKOUT}",
        f"PYTHONPATH={CHECKOUT}/packages",
        f"PYTHONPYCACHEPREFIX={BYTECODE}",
        "python3",
    ]
    command = [*python, "-m", f"tests.vm.guest.{job.program}", job.column.url, IMAGE, *job.arguments]
    out = machine.check(*command, user=job.column.user, timeout_s=JOB_TIMEOUT_S)
    return json.loads(out.splitlines()[-1])
