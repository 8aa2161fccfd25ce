"""Where the story plays: a real container, or the simulated runtime."""

import shutil
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from components.cli.demo import service
from components.cli.demo.probe import Measure, http_measure
from components.cli.demo.recorder import Recorder
from components.cli.demo.system import free_port
from schemas.limits import Limits
from schemas.resources import ResourceState

NODE: Final = "demo-ecu"
WORKLOAD: Final = "navigation"
WORK_CPU_MS: Final = 50.0
FIRST_CPU: Final = 200
FIRST_MEMORY: Final = 64
ANSWERS_WITHIN_S: Final = 20.0


class StageError(Exception):
    """The stage cannot be set; the text says what is missing and how to get it."""


class Stage(Protocol):
    """An application with limits, and a way to measure it."""

    simulated: bool
    runtime: str
    """For the result, such as "podman 4.3.1"."""

    def describe(self) -> str:
        """What is started, for a person."""

    def __enter__(self) -> Self:
        """Start it. Raises StageError."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove all of it."""

    def agent_settings(self) -> dict[str, Any]:
        """Keys of [node_agent] that let the agent find it."""

    def limits(self) -> Limits:
        """What is in force, read without piriscale's chain."""

    def measure(self) -> Measure:
        """A way to do one request and time it."""
