"""A machine under QEMU: booted once, told what to run, ended by its process id. Its image is never changed."""

import contextlib
import itertools
import json
import os
import select
import shlex
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

BOOT_TIMEOUT_S: Final = 600.0
"""Booting takes 35 s on a free machine."""
ANSWER_GRACE_S: Final = 30.0
"""How long an answer may take beyond the time-out of the command itself."""
ACCELERATOR: Final = os.environ.get("PIRISCALE_VM_ACCEL", "tcg,thread=multi")
"""Emulation works everywhere. /dev/kvm may be there and yet boot nothing, as on a host that is virtual itself."""
MEMORY_MIB: Final = 2048
CPUS: Final = 2
CONSOLE_LINES: Final = 60
KERNEL_ARGUMENTS: Final = (
    "root=/dev/vda rw console=ttyS0 fsck.mode=skip quiet"
    # systemd's own patience, a minute and a half, is too short on a host that is busy.
    " systemd.default_device_timeout_sec=600 systemd.default_timeout_start_sec=600"
)
HERE: Final = Path(__file__).parent


class MachineError(Exception):
    """The machine does not do what it should; the text ends with what its console showed last."""


@dataclass(frozen=True)
class Finished:
    """A command that ran in the machine."""

    argv: Sequence[str]
    exit_code: int | None
    """None: it ran into its time-out."""
    stdout: str
    stderr: str


class CommandError(Exception):
    """A command in the machine failed."""

    def __init__(self, finished: Finished) -> None:
        end = "timed out" if finished.exit_code is None else f"exit code {finished.exit_code}"
        super().__init__(f"{shlex.join(finished.argv)}: {end}\n{finished.stdout}\n{finished.stderr}")
        self.finished = finished


def build_image(suite: str) -> Path:
    """The folder with disk.ext4, vmlinuz and initrd.img of a Debian release; takes a minute the first time."""
    built = subprocess.run(
        [str(HERE / "build_image.sh"), suite], check=True, stdout=subprocess.PIPE, text=True, timeout=1200
    )
    return Path(built.stdout.strip())


class Machine:
    """One boot. A context manager; entering it waits until the machine takes commands."""

    def __init__(self, image: Path, checkout: Path, scratch: Path, kernel_arguments: str = "") -> None:
        """`checkout` is an ext4 image labelled "checkout"; sockets and logs go to the folder `scratch`."""
        self._image = image
        self._checkout = checkout
        self._socket_path = scratch / "command.sock"
        self.console = scratch / "console.log"
        self._kernel_arguments = kernel_arguments
        self._ids = itertools.count(1)
        self._received = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        with self.console.with_name("qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command_line(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._connect()
            self._receive(BOOT_TIMEOUT_S)  # its greeting
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _command_line(self) -> list[str]:
        return [
            *("qemu-system-x86_64", "-accel", ACCELERATOR, "-cpu", "max"),
            *("-smp", str(CPUS), "-m", str(MEMORY_MIB), "-nodefaults", "-display", "none", "-no-reboot"),
            *(
                "-kernel",
                str(self._image / "vmlinuz"),
                "-initrd",
                str(self._image / "initrd.img"),
                "-append",
                f"{KERNEL_ARGUMENTS} {self._kernel_arguments}",
            ),
            *("-drive", f"file={self._image / 'disk.ext4'},format=raw,if=virtio,snapshot=on"),
            *("-drive", f"file={self._checkout},format=raw,if=virtio,readonly=on"),
            *("-chardev", f"file,id=console,path={self.console}", "-serial", "chardev:console"),
            *("-chardev", f"socket,id=command,path={self._socket_path},server=on,wait=off"),
            *("-device", "virtio-serial", "-device", "virtserialport,chardev=command,name=command"),
            *("-device", "virtio-rng-pci"),
        ]

    def run(
        self,
        *argv: str,
        user: str = "root",
        timeout_s: float = 60.0,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        """Run a command in a login of `user`, and wait for it. Raises MachineError, whatever the command does."""
        number = next(self._ids)
        order = {
            "id": number,
            "argv": argv,
            "user": user,
            "timeout_s": timeout_s,
            "stdin": stdin,
            "environment": dict(environment or {}),
        }
        if self._socket is None:
            raise MachineError("the machine is off")
        self._socket.sendall(json.dumps(order).encode() + b"\n")
        answer = self._receive(timeout_s + ANSWER_GRACE_S)
        if answer.get("id") != number:
            raise self._error(f"answered {answer} to {order}")
        return Finished(argv, answer["exit_code"], answer["stdout"], answer["stderr"])

    def check(self, *argv: str, **options: Any) -> str:
        """Run a command as `run` does, and return its output. Raises CommandError when it fails."""
        finished = self.run(*argv, **options)
        if finished.exit_code != 0:
            raise CommandError(finished)
        return finished.stdout

    def stop(self) -> None:
        """Take away the power: there is nothing to be kept."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def _connect(self) -> None:
        """Before the guest has booted: what it says to nobody would be lost."""
        self._socket = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                self._socket.connect(os.fspath(self._socket_path))
                return
            if time.monotonic() > deadline or self._exited():
                raise self._error("does not start")
            time.sleep(0.05)

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        assert self._socket is not None
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._error(f"says nothing for {timeout_s:g} s")
            if self._exited():
                raise self._error("has ended")
            if select.select([self._socket], [], [], min(left, 1.0))[0]:
                self._received += self._socket.recv(1 << 20)
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _exited(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _error(self, what: str) -> MachineError:
        logs = (self.console, self.console.with_name("qemu.log"))
        texts = [log.read_text(encoding="utf-8", errors="replace") for log in logs if log.exists()]
        return MachineError(f"the machine {what}; last on its console:\n" + _last_lines("\n".join(texts)))


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-CONSOLE_LINES:])
