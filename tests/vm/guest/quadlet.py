"""Containers that systemd starts from a quadlet, as on a vehicle."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.vm.guest.bench import Bench, run
from tests.vm.guest.cells import WORKS, Cell, kept_or_lost, tried

GENERATOR: Final = Path("/usr/lib/systemd/system-generators/podman-system-generator")
SERVICE: Final = "sleeper"
UNIT: Final = """\
[Container]
ContainerName=quadlet
Image={image}
Network=none
GlobalArgs=--cgroup-manager={manager}
PodmanArgs=--cpus 0.5 --memory 128m --stop-timeout 0
Exec=/bin/busybox sleep 100000
"""


def updated(bench: Bench) -> Cell:
    return update_then(bench)


def reloaded(bench: Bench) -> Cell:
    return update_then(bench, "daemon-reload")


def restarted(bench: Bench) -> Cell:
    return update_then(bench, "restart", SERVICE)


def update_then(bench: Bench, *act: str) -> Cell:
    """Update the container; let systemd do something, if anything, and see whether the limits hold."""
    if not GENERATOR.exists():
        return Cell("no quadlets", "they need Podman 4.4")
    systemctl = bench.lasting(running)
    cell = tried(bench, "quadlet", cpu_limit=900, memory_limit=200)
    if not act or cell.result != WORKS:
        return cell
    run(*systemctl, *act)
    return kept_or_lost(bench, "quadlet", cpu=900, memory=200)


@contextmanager
def running(bench: Bench) -> Iterator[list[str]]:
    """A container named "quadlet", started by systemd; the beginning of its systemctl's command line."""
    root = os.geteuid() == 0
    folder = Path("/etc/containers/systemd") if root else Path.home() / ".config/containers/systemd"
    folder.mkdir(parents=True, exist_ok=True)
    unit = UNIT.format(image=bench.image, manager=bench.manager)
    (folder / f"{SERVICE}.container").write_text(unit, encoding="utf-8")
    systemctl = ["systemctl", *([] if root else ["--user"])]
    run(*systemctl, "daemon-reload")
    run(*systemctl, "start", SERVICE)
    try:
        yield systemctl
    finally:
        run(*systemctl, "stop", SERVICE)
        (folder / f"{SERVICE}.container").unlink()
