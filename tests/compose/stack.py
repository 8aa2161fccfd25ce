"""compose.yaml brought up by podman-compose in a Podman of its own, as far as images exist without a registry."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from components.node_agent.podman.private import PrivatePodman
from tests.fixtures.broker import free_port

COMPOSE: Final = Path(__file__).parents[2] / "compose"
COMMAND_WITHIN_S: Final = 300.0
HEALTHY_WITHIN_S: Final = 120.0
NOT_HERE: Final = ("prometheus", "grafana")
"""Services of foreign images, which only a registry has."""


@dataclass(frozen=True)
class Stack:
    """The services that run."""

    podman: PrivatePodman
    folder: Path
    """Its name is the project's."""
    broker_port: int
    dashboard_port: int
    services: tuple[str, ...]
    files: tuple[str, ...] = ("compose.yaml",)
    more: Mapping[str, str] = field(default_factory=dict)
    """Variables beside those that every stack needs."""

    def compose(self, *arguments: str) -> str:
        """Run podman-compose on the file that is shipped; what it printed."""
        program = str(Path(sys.executable).with_name("podman-compose"))
        podman = ("--in-pod=false", f"--podman-path={self._wrapper()}", "--podman-run-args=--cgroupns=host")
        files = [f"--file={COMPOSE / name}" for name in self.files]
        project = ("--project-name", self.folder.name, *files)
        done = subprocess.run(
            [program, *podman, *project, *arguments],
            env={**os.environ, **self._variables()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_WITHIN_S,
        )
        assert done.returncode == 0, f"podman-compose {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def _variables(self) -> dict[str, str]:
        """What compose.yaml leaves to its reader."""
        return {
            "PIRISCALE_BROKER_PORT": str(self.broker_port),
            "PIRISCALE_DASHBOARD_PORT": str(self.dashboard_port),
            "PIRISCALE_PODMAN_SOCKET": str(self.podman.socket),
            **self.more,
        }

    def _wrapper(self) -> Path:
        """A program `podman` that works in this Podman's storage."""
        wrapper = self.folder / "podman"
        words = shlex.join(self.podman._command())
        settings = "\n".join(
            f"export {name}={shlex.quote(value)}"
            for name, value in self.podman._environment().items()
            if name in ("CONTAINERS_CONF", "PATH", "PODMAN_IGNORE_CGROUPSV1_WARNING")
        )
        wrapper.write_text(f'#!/bin/sh\n{settings}\nexec {words} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
        return wrapper

    def container(self, service: str) -> str:
        """The name of a service's container."""
        return f"{self.folder.name}_{service}_1"

    def inspect(self, service: str) -> Any:
        """What Podman says of it."""
        return json.loads(self.podman.command("inspect", "--type", "container", self.container(service)))[0]

    def log(self, service: str) -> str:
        """The end of what it said."""
        command = self.podman._command("logs", "--tail", "40", self.container(service))
        done = subprocess.run(command, env=self.podman._environment(), capture_output=True, text=True, check=False)
        return f"{done.stdout}\n{done.stderr}"

    def healthy(self, service: str) -> bool:
        """What its own health check says, now."""
        command = self.podman._command("healthcheck", "run", self.container(service))
        environment = self.podman._environment()
        return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0

    def get(self, service: str, url: str) -> str:
        """A page as seen from within a service's container."""
        program = f"from urllib.request import urlopen; print(urlopen({url!r}, timeout=5).read().decode())"
        return self.podman.command("exec", self.container(service), "python", "-c", program)

    def up(self) -> None:
        """Start them, and wait until each is healthy."""
        self.compose("up", "--detach", *self.services)
        for service in self.services:
            eventually(partial(self.healthy, service), partial(self.log, service))

    def down(self) -> None:
        """End and remove them, with their volumes and networks."""
        self.compose("down", "--volumes", "--timeout", "5")


def stack_of(podman: PrivatePodman, name: str, services: Iterable[str]) -> Stack:
    """Not started yet."""
    folder = podman.directory / name
    folder.mkdir()
    wanted = tuple(each for each in services if each not in NOT_HERE)
    return Stack(podman, folder, free_port(), free_port(), wanted)


def eventually(holds: Callable[[], object], otherwise: Callable[[], object]) -> None:
    end = time.monotonic() + HEALTHY_WITHIN_S
    while not holds():
        assert time.monotonic() < end, otherwise()
        time.sleep(0.3)
