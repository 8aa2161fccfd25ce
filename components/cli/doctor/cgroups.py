"""Which cgroups this machine has, and whether the agent can see those of containers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from components.cli.doctor.finding import Finding, note, ok, wrong

AREA: Final = "cgroups"

_FIRST_NAMESPACES: Final = {"pid": ("processes", 0xEFFFFFFC), "cgroup": ("cgroups", 0xEFFFFFFB)}
"""Inode numbers that the kernel gives the namespaces it boots with (include/linux/proc_ns.h)."""


@dataclass(frozen=True)
class Cgroups:
    """What is mounted."""

    version: int
    """1 or 2: which controls CPU and memory; 0: neither."""
    hybrid: bool
    """v1 and v2 are mixed."""


def read_cgroups(root: Path = Path("/")) -> Cgroups:
    """From /proc/self/mounts below `root`, which tests bring themselves."""
    try:
        lines = (root / "proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return Cgroups(0, hybrid=False)
    mounts = [fields for line in lines if len(fields := line.split()) > 3]
    v1 = {option for fields in mounts if fields[2] == "cgroup" for option in fields[3].split(",")}
    v2 = any(fields[2] == "cgroup2" for fields in mounts)
    if {"cpu", "memory"} <= v1:
        return Cgroups(1, hybrid=v2)
    return Cgroups(2 if v2 else 0, hybrid=v2 and bool(v1))


def check_cgroups(cgroups: Cgroups, root: Path = Path("/")) -> list[Finding]:
    """Version, and whether the agent is shut in."""
    findings = []
    if cgroups.version == 0:
        remedy = "mount /sys/fs/cgroup (mount -t cgroup2 none /sys/fs/cgroup)"
        findings.append(wrong(AREA, "no cgroup hierarchy with CPU and memory is mounted", remedy))
    else:
        mixed = ", mixed with v2" if cgroups.hybrid and cgroups.version == 1 else ""
        findings.append(ok(AREA, f"version {cgroups.version}{mixed}"))
    if shut_in := _shut_in(root):
        findings.append(
            note(
                AREA,
                f"this runs in a container with its own {' and '.join(shut_in)}; an agent here sees no container",
                "run the agent in the host's: podman run --pid=host --cgroupns=host",
            )
        )
    return findings


def _shut_in(root: Path) -> list[str]:
    """Namespaces that are not the machine's first ones."""
    names = []
    for kind, (text, number) in _FIRST_NAMESPACES.items():
        link = root / "proc/self/ns" / kind
        if link.is_symlink() and str(link.readlink()) != f"{kind}:[{number}]":
            names.append(text)
    return names
