"""Whether there is a Podman that can change limits, and a runtime below it that can."""

import os
import shutil
from pathlib import Path
from typing import Any, Final

from components.cli.doctor.cgroups import Cgroups
from components.cli.doctor.finding import Finding, note, ok, wrong
from components.node_agent.podman.adapter import FIRST_WITH_UPDATE, default_url
from components.node_agent.podman.rest import PodmanRest
from components.node_agent.runtime import ContainerRuntimeError
from components.settings import NodeAgentSettings

AREA: Final = "podman"
ANSWER_WITHIN_S: Final = 6.0
"""For each of two questions."""


def check_podman(settings: NodeAgentSettings, cgroups: Cgroups) -> list[Finding]:
    """Socket, version, OCI runtime, delegated controllers."""
    if settings.runtime == "simulated":
        return [ok(AREA, "not needed: node_agent.runtime is simulated")]
    url = settings.podman_url or default_url()
    path = Path(url.removeprefix("unix://"))
    if url.startswith("unix://") and (found := _judge_socket(path)):
        return [found]
    try:
        rest = PodmanRest(url, ANSWER_WITHIN_S)
        version = rest.version()
        host = rest.get("/info").get("host") or {}
        rest.close()
    except (ContainerRuntimeError, ValueError) as error:
        return [wrong(AREA, str(error), f"restart it: {_start()}")]
    return [_judge_version(version), *judge_host(host, cgroups)]


def _judge_socket(path: Path) -> Finding | None:
    """Why there is no way through this socket; None: there may be one."""
    try:
        there = path.is_socket()
    except PermissionError:
        there = True
    if there and os.access(path, os.R_OK | os.W_OK):
        return None
    if there:
        remedy = "run as root, or set node_agent.podman_url to the socket of this user's own Podman"
        return wrong(AREA, f"{path}: permission denied", remedy)
    if shutil.which("podman") is None:
        return wrong(AREA, "Podman is not installed", "apt-get install podman runc (4.3 or later)")
    return wrong(AREA, f"no Podman service listens on {path}", _start())


def _start() -> str:
    if not Path("/run/systemd/system").is_dir():
        return "podman system service --time 0 &"
    user = "" if os.geteuid() == 0 else "--user "
    return f"systemctl {user}enable --now podman.socket"


def _judge_version(version: str) -> Finding:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < FIRST_WITH_UPDATE:
        oldest = ".".join(map(str, FIRST_WITH_UPDATE))
        return wrong(AREA, f"Podman {version} cannot change limits", f"upgrade to Podman {oldest} or later")
    return ok(AREA, f"Podman {version}")


def judge_host(host: dict[str, Any], cgroups: Cgroups) -> list[Finding]:
    """What Podman tells of its host: the runtime, and whether a user may set limits at all."""
    runtime = str((host.get("ociRuntime") or {}).get("name", ""))
    rootless = bool((host.get("security") or {}).get("rootless"))
    findings = []
    if cgroups.hybrid and runtime == "crun":
        findings.append(
            wrong(
                AREA,
                "crun cannot create containers where cgroup v1 and v2 are mixed",
                'apt-get install runc; set runtime = "runc" under [engine] of /etc/containers/containers.conf',
            )
        )
    else:
        findings.append(ok(AREA, f"runtime {runtime or 'unknown'}, {'rootless' if rootless else 'rootful'}"))
    if cgroups.version == 2:
        findings += _judge_controllers(set(host.get("cgroupControllers") or ()), rootless=rootless)
    elif rootless:
        findings.append(
            wrong(
                AREA,
                "without root, limits need cgroup v2, and this machine has v1",
                "run Podman and the agent as root, or boot with systemd.unified_cgroup_hierarchy=1",
            )
        )
    return findings


def _judge_controllers(controllers: set[str], *, rootless: bool) -> list[Finding]:
    missing = [name for name in ("cpu", "memory") if name not in controllers]
    remedy = (
        "mkdir -p /etc/systemd/system/user@.service.d && "
        "printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' "
        "> /etc/systemd/system/user@.service.d/delegate.conf && systemctl daemon-reload, then log in again"
        if rootless
        else "enable them for the slices above: see cgroup.subtree_control in /sys/fs/cgroup"
    )
    if missing:
        return [wrong(AREA, f"cgroup controllers not delegated: {', '.join(missing)}", remedy)]
    if "cpuset" not in controllers:
        return [note(AREA, "cgroup controller cpuset not delegated: CPU affinity cannot be changed", remedy)]
    return [ok(AREA, "controllers cpu, memory and cpuset are delegated")]
