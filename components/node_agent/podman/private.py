"""A Podman of our own: own storage, own socket, containers without network; the machine's is not touched.

For demonstrations and tests, as root. Works on small and nested machines too: cgroup v1/v2 hybrids (where crun
cannot create containers, but runc can), no CAP_SYS_RESOURCE, no registry within reach.
"""

import json
import os
import shutil
import signal
import struct
import subprocess
import tarfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

IMAGE: Final = "localhost/piriscale-busybox:1"
COMMAND_TIMEOUT_S: Final = 60.0
START_TIMEOUT_S: Final = 15.0
STRAGGLERS_TIMEOUT_S: Final = 10.0
_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_ELF_INTERPRETER: Final = 3
_PROGRAMS: Final = ("podman", "conmon", "runc", "crun")

_CONFIGURATION: Final = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
{runtime}cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
"""


class PrivatePodmanError(Exception):
    """Podman cannot be used here; the text says what to do."""


def missing() -> str | None:
    """What this machine lacks to run a private Podman, in words; None when nothing."""
    if os.geteuid() != 0:
        return "root, since a private Podman creates containers with limits"
    if _which("podman") is None:
        return "podman (apt-get install podman runc)"
    if _which("runc") is None and _which("crun") is None:
        return "an OCI runtime (apt-get install runc)"
    if _static_busybox() is None:
        return "a static busybox (apt-get install busybox-static)"
    return None


class PrivatePodman:
    """A Podman with its service running, and an image to run. Ends with its containers and files."""

    def __init__(self, directory: Path) -> None:
        """`directory` is made if need be, and removed at the end. Its path must be short, for a socket's sake."""
        self.directory = directory
        self.socket = directory / "api.sock"
        self.url = f"unix://{self.socket}"
        self._service: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Lay out storage, start the service, import the image. Raises PrivatePodmanError."""
        lack = missing()
        if lack is not None:
            raise PrivatePodmanError(f"needs {lack}")
        try:
            self._lay_out()
            self.start_service()
            self._import_image()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove all."""
        self.close()

    def _lay_out(self) -> None:
        for name in ("root", "runroot", "tmp"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        runtime = 'runtime = "runc"\n' if _which("runc") else ""
        (self.directory / "containers.conf").write_text(_CONFIGURATION.format(runtime=runtime), encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_SBIN}",
            "CONTAINERS_CONF": str(self.directory / "containers.conf"),
            "PODMAN_IGNORE_CGROUPSV1_WARNING": "1",
        }

    def _command(self, *arguments: str) -> list[str]:
        place = ["--root", str(self.directory / "root"), "--runroot", str(self.directory / "runroot")]
        return ["podman", *place, "--tmpdir", str(self.directory / "tmp"), "--storage-driver", "vfs", *arguments]

    def command(self, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run podman with these arguments; what it printed. Raises PrivatePodmanError with its complaint."""
        try:
            done = subprocess.run(
                self._command(*arguments),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PrivatePodmanError(f"podman {' '.join(arguments)}: {error}") from error
        if done.returncode != 0:
            complaint = done.stderr.decode(errors="replace").strip()
            raise PrivatePodmanError(f"podman {' '.join(arguments)}: {complaint}")
        return done.stdout.decode().strip()

    def start_service(self) -> None:
        """Start the REST service, and wait until it listens. Raises PrivatePodmanError."""
        self.socket.unlink(missing_ok=True)
        with (self.directory / "service.log").open("ab") as log:
            self._service = subprocess.Popen(
                self._command("system", "service", "--time", "0", self.url),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        give_up = time.monotonic() + START_TIMEOUT_S
        while not self.socket.exists():
            if self._service.poll() is not None or time.monotonic() > give_up:
                raise PrivatePodmanError(f"podman system service did not start: {self.service_log()[-2000:]}")
            time.sleep(0.02)

    @property
    def service_pid(self) -> int:
        """Process id of the REST service; 0 when it does not run."""
        return 0 if self._service is None else self._service.pid

    def service_log(self) -> str:
        """What the service, and the OCI runtimes it ran, complained of."""
        path = self.directory / "service.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def stop_service(self) -> None:
        """End the REST service; containers live on."""
        service, self._service = self._service, None
        if service is None or service.poll() is not None:
            return
        service.send_signal(signal.SIGCONT)  # in case a test froze it
        service.terminate()
        try:
            service.wait(5)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait(5)

    def kill_service(self) -> None:
        """End the REST service at once, whatever it is doing; containers live on."""
        service, self._service = self._service, None
        if service is not None:
            service.kill()
            service.wait(5)

    def _import_image(self) -> None:
        busybox = _static_busybox()
        assert busybox is not None  # noqa: S101 - for the type checker: missing() has looked
        archive = self.directory / "image.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(busybox, "bin/busybox")
        self.command("import", "--quiet", str(archive), IMAGE)
        archive.unlink()

    def run(
        self,
        name: str,
        *command: str,
        cpus: float | None = None,
        memory_mib: int | None = None,
        labels: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> str:
        """Start a container without network; its full id. `command` is busybox's, `sleep` for ever by default."""
        arguments = ["run", "--detach", "--name", name, *options]
        if not any(option.startswith(("--network", "--pod")) for option in options):
            arguments += ["--network", "none"]
        if cpus is not None:
            arguments += ["--cpus", str(cpus)]
        if memory_mib is not None:
            arguments += ["--memory", f"{memory_mib}m"]
        for key, value in (labels or {}).items():
            arguments += ["--label", f"{key}={value}"]
        return self.command(*arguments, IMAGE, "/bin/busybox", *(command or ("sleep", "1000000")))

    def inspect(self, name: str) -> dict[str, object]:
        """What Podman says of a container."""
        found: list[dict[str, object]] = json.loads(self.command("inspect", "--type", "container", name))
        return found[0]

    def close(self) -> None:
        """Remove containers, end the service, unmount and delete everything. May be called twice."""
        if not self.directory.exists():
            return
        try:
            if (self.directory / "containers.conf").exists():
                self.command("pod", "rm", "--all", "--force", "--time", "0")
                self.command("rm", "--all", "--force", "--time", "0")
        finally:
            self.stop_service()
            self._await_stragglers()
            for mounted in sorted(_mounts_below(self.directory), reverse=True):
                subprocess.run(["umount", "--lazy", mounted], check=False, capture_output=True)
            shutil.rmtree(self.directory, ignore_errors=True)

    def _await_stragglers(self) -> None:
        """Wait for what cleans up after ended containers in the background: it would make the directory anew."""
        give_up = time.monotonic() + STRAGGLERS_TIMEOUT_S
        while (pids := _processes_in(self.directory)) and time.monotonic() < give_up:
            time.sleep(0.05)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _which(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_SBIN}")


def _static_busybox() -> Path | None:
    for candidate in (_which("busybox"), "/bin/busybox", "/usr/bin/busybox"):
        if candidate is not None and Path(candidate).exists() and _is_static(Path(candidate)):
            return Path(candidate).resolve()
    return None


def _is_static(path: Path) -> bool:
    """Whether an ELF file names no dynamic loader, so that it runs in an image that holds nothing else."""
    with path.open("rb") as file:
        head = file.read(65_536)
    if head[:4] != b"\x7fELF":
        return False
    order, wide = "<" if head[5] == 1 else ">", head[4] == 2
    (start,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)
    size, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
    kinds = (struct.unpack_from(order + "I", head, start + number * size)[0] for number in range(count))
    return _ELF_INTERPRETER not in kinds


def _processes_in(directory: Path) -> list[int]:
    """Podman's own processes that work on a storage in this directory."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):  # it may have just ended
                program, *arguments = (process / "cmdline").read_bytes().split(b"\0")
                ours = any(argument.startswith(bytes(directory)) for argument in arguments)
                if ours and Path(program.decode(errors="replace")).name in _PROGRAMS:
                    found.append(int(process.name))
    return found


def _mounts_below(directory: Path) -> list[str]:
    prefix = f"{directory}/"
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [line.split(" ")[4] for line in lines if line.split(" ")[4].startswith(prefix)]
