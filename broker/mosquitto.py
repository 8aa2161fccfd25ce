"""The managed broker: a Mosquitto that is our child, comes back when it dies, and goes when we go."""

import errno
import logging
import os
import pwd
import select
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from broker import leash
from broker.backoff import Backoff
from broker.configuration import MosquittoConfiguration

_log = logging.getLogger(__name__)

ANSWER_S: Final = 10.0
"""How long a started Mosquitto may take until its port answers."""
END_S: Final = 5.0
"""How long it may take to save its messages and end."""
ASK_AGAIN_S: Final = 0.5
LOG_BYTES_MAX: Final = 5 * 1024 * 1024
"""Then the log file is moved aside, to `mosquitto.log.1`."""
LOG_CHECK_S: Final = 60.0
LOG_TAIL_LINES: Final = 5

# CONNECT of MQTT 3.1.1 with a clean session and no client id, and DISCONNECT.
_HELLO: Final = bytes.fromhex("10 0c 00 04 4d 51 54 54 04 02 00 3c 00 00 e0 00")
_USERS: Final = ("mosquitto", "nobody")
_PLACES: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin")


class BrokerError(Exception):
    """The managed broker cannot run; the text says why, and what to do."""


def find_mosquitto(path: str | None = None) -> str:
    """Where the program is, on a search path (default: PATH, and where daemons are). Raises BrokerError."""
    usual = os.pathsep.join((os.environ.get("PATH", os.defpath), *_PLACES))
    found = shutil.which("mosquitto", path=usual if path is None else path)
    if found is None:
        raise BrokerError(
            "mosquitto is not installed; install it: apt-get install mosquitto, "
            "or set broker.url to a broker that runs elsewhere"
        )
    return found


class ManagedBroker:
    """Runs Mosquitto while used as a context manager. Its files are in `directory`, which is made if needed.

    Started by root, it runs as the user mosquitto if that one can reach the directory.
    """

    def __init__(self, directory: Path, configuration: MosquittoConfiguration) -> None:
        self.host = configuration.bind
        self.port = configuration.port
        self.restarts = 0
        self.problem: str | None = "not started"
        """What is wrong at present, in words; None when it runs."""
        self._configuration = configuration
        self._directory = directory.absolute()
        self._command: list[str] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._settled = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="mosquitto", daemon=True)

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process id of the running broker."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def log_file(self) -> Path:
        """Where Mosquitto's own messages are."""
        return self._directory / "mosquitto.log"

    def start(self) -> None:
        """Start it, and wait until its port answers. Raises BrokerError."""
        program = find_mosquitto()
        _check_port(self.host, self.port)
        self._prepare(program)
        self._thread.start()
        self._settled.wait()
        problem = self.problem
        if problem is not None:
            self.stop()
            raise BrokerError(f"mosquitto does not start: {problem}")

    def stop(self) -> None:
        """Let it save its messages and end; kill it when it does not. It is not started again."""
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            _end(process)
        if self._thread.ident is not None:
            self._thread.join()
        self.problem = "stopped"

    def _prepare(self, program: str) -> None:
        data, written = self._directory / "data", self._directory / "mosquitto.conf"
        data.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o755)
        data.chmod(0o700)
        account = account_for(self._directory) if os.geteuid() == 0 else None
        user, group = (account.pw_uid, account.pw_gid) if account is not None else (os.geteuid(), os.getegid())
        for path in (data, *data.iterdir()):
            os.chown(path, user, group)
        written.write_text(
            self._configuration.text(data, "root"), encoding="utf-8"
        )  # root: the leash chose already
        ids = (os.getpid(), user, group)
        self._command = [sys.executable, "-I", "-S", leash.__file__, *map(str, ids), program, "-c", str(written)]

    def _watch(self) -> None:
        """Start it, again and again; here, since a child on its leash ends with the thread that started it."""
        backoff = Backoff()
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                try:
                    self._live()
                except OSError as error:  # of a full disk, for example, which somebody will clear
                    _log.debug("mosquitto could not be started or watched", exc_info=True)
                    self.problem = str(error)
                if self._stopping.is_set() or not self._settled.is_set():
                    return
                _log.error("mosquitto is started again: %s", self.problem)
                self.restarts += 1
                self._stopping.wait(backoff.pause(time.monotonic() - began))
        finally:
            self._settled.set()

    def _live(self) -> None:
        """One life, from its start to its end; `problem` then says why. Raises OSError, and leaves no process."""
        process = self._spawn()
        if process is None:
            return
        try:
            self.problem = self._await_answer(process)
            if self.problem is None:
                self._settled.set()
                self._await_end(process)
                self.problem = f"it ended with exit code {process.wait()}{self._log_tail()}"
        finally:
            _end(process)

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        self._trim_log()
        with self._lock, self.log_file.open("ab") as log:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for us; we end it after the components
            )
            return self._process

    def _await_answer(self, process: subprocess.Popen[bytes]) -> str | None:
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            if process.poll() is not None:
                return f"it ended with exit code {process.returncode}{self._log_tail()}"
            if _answers(self.host, self.port):
                return None
            self._stopping.wait(0.01)
        return f"port {self.port} on {self.host} does not answer after {ANSWER_S} s{self._log_tail()}"

    def _await_end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:  # `stop` was quicker
            return
        try:
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            while not ended.poll(LOG_CHECK_S * 1000):
                self._trim_log()
        finally:
            os.close(descriptor)

    def _trim_log(self) -> None:
        """Move the log aside when it grew. What cannot be kept for lack of room goes, which makes room."""
        try:
            if self.log_file.exists() and self.log_file.stat().st_size > LOG_BYTES_MAX:
                try:
                    shutil.copy(self.log_file, self.log_file.with_suffix(".log.1"))
                finally:
                    os.truncate(self.log_file, 0)  # Mosquitto goes on with the file it was given
        except OSError as error:
            _log.warning("%s cannot be moved aside: %s", self.log_file, error)

    def _log_tail(self) -> str:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return f"; the end of {self.log_file}:\n" + "\n".join(lines) if lines else ""


def account_for(directory: Path) -> pwd.struct_passwd | None:
    """Who shall run the broker in place of root; None: root itself."""
    accounts = {each.pw_name: each for each in pwd.getpwall()}
    account = next((accounts[name] for name in _USERS if name in accounts), None)
    if account is None or not all(_may_enter(account, each) for each in (directory, *directory.parents)):
        _log.warning("mosquitto runs as root: no user of %s reaches %s", " and ".join(_USERS), directory)
        return None
    return account


def _may_enter(account: pwd.struct_passwd, directory: Path) -> bool:
    found = directory.stat()
    if found.st_uid == account.pw_uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.pw_gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def _answers(host: str, port: int) -> bool:
    """Whether Mosquitto is at work there. That it listens is not enough: it does so long before it reads."""
    try:
        with socket.create_connection((host, port), timeout=1.0) as probe:
            probe.sendall(_HELLO)
            probe.recv(1)  # an answer or, if it wants TLS, the end of the connection
    except ConnectionResetError:
        return True
    except OSError:
        return False
    return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask until it ends, since a signal that comes while Mosquitto starts is lost; then kill it."""
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        process.terminate()
        try:
            process.wait(ASK_AGAIN_S)
        except subprocess.TimeoutExpired:
            continue
        return
    _log.warning("mosquitto (pid %d) did not end within %s s and is killed", process.pid, END_S)
    process.kill()
    process.wait()


def _check_port(host: str, port: int) -> None:
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            text = f"port {port} on {host} cannot be used ({error.strerror}); choose another [broker] port"
            raise BrokerError(text) from error
        raise BrokerError(
            f"port {port} on {host} is taken by another process{_listener(port)}. Does `piriscale up` run "
            f'already, or the mosquitto service? Use its broker: [broker] url = "mqtt://{host}:{port}"; or end it '
            "(Ctrl-C there; systemctl disable --now mosquitto); or choose another [broker] port"
        ) from error


def _listener(port: int) -> str:
    """Who listens there, to be told; empty when that cannot be seen."""
    try:
        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
                return f" ({psutil.Process(one.pid).name()}, process id {one.pid})"
    except (psutil.Error, OSError) as error:
        _log.debug("who listens on port %d cannot be seen: %s", port, error)
    return ""
