"""Where the story plays: a real container, or the simulated runtime."""

import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from components.cli.demo import service
from components.cli.demo.probe import Measure, http_measure
from components.cli.demo.recorder import Recorder
from components.cli.demo.system import free_port
from components.node_agent.podman.kernel import KernelReader
from components.node_agent.podman.private import PrivatePodman, PrivatePodmanError, missing
from components.node_agent.runtime import Container, ContainerState
from schemas.limits import Limits
from schemas.resources import ResourceState

NODE: Final = "demo-ecu"
WORK_CPU_MS: Final = 50.0
"""CPU time of one answer of the application."""
FIRST_CPU: Final = 200
"""Millicores at first: too few, so that an answer takes about 250 ms."""
FIRST_MEMORY: Final = 64
"""MiB."""
ANSWERS_WITHIN_S: Final = 30.0
PYTHON: Final = "/usr/bin/python3"
SHARED_FOLDERS: Final = ("/usr", "/lib", "/lib64")
"""The host's Python and libraries, read-only in the container, so that no image must be fetched."""


class StageError(Exception):
    """The stage cannot be set; the text says what is missing and how to get it."""


class Stage(Protocol):
    """An application with limits, and a way to measure it."""

    simulated: bool
    workload: str
    runtime: str
    """For the result, such as "podman 4.3.1"; known when it is started."""

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

    def policy(self) -> dict[str, Any]:
        """Keys of [[policy]] that suit it."""

    def limits(self) -> Limits:
        """What is in force, read without piriscale's chain."""

    def measure(self) -> Measure:
        """A way to do one request and time it."""


class PodmanStage:
    """A service that does real CPU work, in a container of a Podman of its own."""

    simulated = False
    workload = "navigation"
    runtime = "podman"

    def __init__(self, folder: Path) -> None:
        lack = missing()
        if lack is not None:
            raise StageError(f"the demo needs {lack}; without it: compose/demo --simulated")
        if not Path(PYTHON).exists():
            raise StageError(f"the demo needs {PYTHON} (apt-get install python3)")
        self._folder = folder
        self._podman = PrivatePodman(folder / "p")
        self._port = free_port()
        self._container: Container | None = None

    def describe(self) -> str:
        """A container with its limits."""
        return f"a container with {FIRST_CPU}m CPU and {FIRST_MEMORY}Mi memory, in a Podman of its own"

    def __enter__(self) -> Self:
        """Start Podman's service and the container, and wait until the application answers."""
        try:
            self._podman.__enter__()
            self.runtime = f"podman {self._podman.command('version', '--format', '{{.Client.Version}}')}"
            self._start_application()
        except PrivatePodmanError as error:
            self._podman.close()
            raise StageError(f"{error}") from error
        except BaseException:
            self._podman.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the container, its Podman, and all their files."""
        self._podman.close()

    def agent_settings(self) -> dict[str, Any]:
        """Its socket."""
        return {"runtime": "podman", "podman_url": self._podman.url}

    def policy(self) -> dict[str, Any]:
        """The defaults suit it: twice the CPU when it uses 80 % of what it may."""
        return {}

    def limits(self) -> Limits:
        """What the kernel's cgroup files say."""
        if self._container is None:
            raise StageError("the application does not run")
        return KernelReader().read(self._container).limits

    def measure(self) -> Measure:
        """Requests over HTTP."""
        return http_measure(self._port)

    def _start_application(self) -> None:
        program = self._folder / "service"
        program.mkdir()
        shutil.copy(str(service.__file__), program / "service.py")
        folders = [folder for folder in SHARED_FOLDERS if Path(folder).exists()]
        mounts = [f"--volume={folder}:{folder}:ro" for folder in folders]
        command = (PYTHON, "/service/service.py", str(self._port), str(WORK_CPU_MS))
        container_id = self._podman.run(
            self.workload,
            "env",
            *command,
            cpus=FIRST_CPU / 1000,
            memory_mib=FIRST_MEMORY,
            options=("--network=host", *mounts, f"--volume={program}:/service:ro"),
        )
        state = self._podman.inspect(self.workload)["State"]
        pid = int(state["Pid"]) if isinstance(state, dict) else 0
        self._container = Container(self.workload, container_id, ContainerState.RUNNING, pid=pid)
        self._wait_for_answer()

    def _wait_for_answer(self) -> None:
        measure, end = self.measure(), time.monotonic() + ANSWERS_WITHIN_S
        while True:
            try:
                measure()
            except OSError as error:
                if time.monotonic() > end:
                    log = self._podman.command("logs", self.workload)
                    raise StageError(f"the application does not answer: {error}\n{log}") from error
                time.sleep(0.1)
            else:
                return


class SimulatedStage:
    """The simulated runtime, and an application whose latency follows from its simulated CPU limit."""

    simulated = True
    workload = "sim-1"
    runtime = "simulated"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def describe(self) -> str:
        """Plainly no container."""
        return "SIMULATED: no container, no kernel; only the chain is real"

    def __enter__(self) -> Self:
        """Nothing to start: the simulated runtime lives in the agent."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to remove."""

    def agent_settings(self) -> dict[str, Any]:
        """One simulated container."""
        return {"runtime": "simulated", "simulated_containers": 1}

    def policy(self) -> dict[str, Any]:
        """The simulated container uses half of its first limit, whatever it may."""
        return {"cpu_percent": 40}

    def limits(self) -> Limits:
        """What the simulated runtime says is in force."""
        states = [s for _, s in self._recorder.all(ResourceState) if s.workload_id == self.workload]
        return (states[-1].actual if states else None) or Limits()

    def measure(self) -> Measure:
        """A request that takes as long as its work would at the present limit."""

        def request() -> float:
            cpu = self.limits().cpu_limit or 1000
            latency = WORK_CPU_MS * _FIRST_SIMULATED_CPU / FIRST_CPU / cpu * 1000
            time.sleep(latency / 1000)
            return latency

        return request


_FIRST_SIMULATED_CPU: Final = 500
"""Millicores of a simulated container at first; scales its latency to that of the real story."""
