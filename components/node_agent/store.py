"""What an agent keeps over its own death: its last boot_id, and which containers it was writing to.

An intent needs to outlive the agent, not the machine: with the machine, its containers go too. It is synced all
the same, into a file made beforehand, since creating a synced file costs eight times as much as filling one.
"""

import json
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

_log = logging.getLogger(__name__)

SLOT_BYTES: Final = 512
"""One sector, so that a slot is never half written."""
SLOTS: Final = 256
_EMPTY: Final = b"\n" * SLOT_BYTES


class StoreError(Exception):
    """The state directory cannot be written; the text says what to do."""


class IntentStore(Protocol):
    """Containers that are being written to. Thread-safe."""

    def begin(self, container_id: str) -> None:
        """Note, durably, that a write to this container is about to begin. Raises StoreError."""

    def end(self, container_id: str) -> None:
        """The write is over, as far as anyone can know. Without effect when none was noted. Never raises."""

    def pending(self) -> Sequence[str]:
        """Ids of containers whose write has not ended; after a crash, those of the agent before."""


class BootStore(Protocol):
    """The number of the present boot of the agent."""

    def next_boot(self, epoch_s: int) -> int:
        """A number larger than every earlier one: max(last + 1, `epoch_s`). Durable when it returns."""

    def outlive(self, boot_id: int) -> bool:
        """Let the next boot be above this one. False when that could not be written down, which is logged."""


class MemoryStore:
    """Both stores in memory, for tests and simulations: keep the object to survive a crash."""

    def __init__(self) -> None:
        self._boot = 0
        self._pending: dict[str, None] = {}

    def begin(self, container_id: str) -> None:
        """Note that a write begins."""
        self._pending[container_id] = None

    def end(self, container_id: str) -> None:
        """Note that it is over."""
        self._pending.pop(container_id, None)

    def pending(self) -> Sequence[str]:
        """Writes that have not ended."""
        return list(self._pending)

    def next_boot(self, epoch_s: int) -> int:
        """The next number."""
        self._boot = max(self._boot + 1, epoch_s)
        return self._boot

    def outlive(self, boot_id: int) -> bool:
        """The next is above this one."""
        self._boot = max(self._boot, boot_id)
        return True


class FileStore:
    """Both stores in a directory: `boot`, a number, and `intents`, a row of slots."""

    def __init__(self, directory: Path) -> None:
        """Make what is missing. Raises StoreError when the directory cannot be used."""
        self._directory = directory
        self._lock = threading.Lock()
        self._slots: dict[str, int] = {}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = os.open(directory / "intents", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._read_slots()
        except OSError as error:
            raise StoreError(
                f"{directory}: {error}; make it writable, or set node_agent.state_dir to a directory that is"
            ) from error

    def _read_slots(self) -> None:
        body = os.pread(self._file, SLOTS * SLOT_BYTES, 0)
        if len(body) < SLOTS * SLOT_BYTES:
            os.pwrite(self._file, _EMPTY * SLOTS, 0)
            os.fsync(self._file)
            _sync_directory(self._directory)
            return
        for number in range(SLOTS):
            text = body[number * SLOT_BYTES : (number + 1) * SLOT_BYTES].strip()
            if not text:
                continue
            try:
                self._slots[str(json.loads(text)["container"])] = number
            except (ValueError, KeyError, TypeError):
                _log.warning("%s/intents: slot %d is unreadable, ignored", self._directory, number)

    def begin(self, container_id: str) -> None:
        """Fill a slot, and sync it."""
        record = json.dumps({"container": container_id}).encode()
        with self._lock:
            slot = self._slots.get(container_id)
            if slot is None:
                slot = next(iter(set(range(SLOTS)) - set(self._slots.values())), None)
            if slot is None or len(record) > SLOT_BYTES:
                raise StoreError(f"{SLOTS} writes have an unknown outcome at once; wait until some are settled")
            self._slots[container_id] = slot
        try:
            os.pwrite(self._file, record.ljust(SLOT_BYTES), slot * SLOT_BYTES)
            os.fdatasync(self._file)
        except OSError as error:
            self.end(container_id)
            raise StoreError(f"{self._directory}/intents: {error}; free space, or make it writable") from error

    def end(self, container_id: str) -> None:
        """Empty the slot. Not synced: an intent too many only makes the next agent wait."""
        with self._lock:
            slot = self._slots.get(container_id)
            if slot is None:
                return
            try:
                os.pwrite(self._file, _EMPTY, slot * SLOT_BYTES)
            except OSError as error:
                _log.warning("%s/intents: %s; a restarted agent will wait for nothing", self._directory, error)
            del self._slots[container_id]

    def pending(self) -> Sequence[str]:
        """Writes that have not ended."""
        with self._lock:
            return list(self._slots)

    def next_boot(self, epoch_s: int) -> int:
        """Read, add, replace the file, sync. A file that cannot be used is logged; then the clock alone counts."""
        path = self._directory / "boot"
        try:
            last = int(path.read_text(encoding="ascii")) if path.exists() else 0
        except (OSError, ValueError) as error:
            _log.error("%s: %s; counting from the clock", path, error)
            last = 0
        boot = max(last + 1, epoch_s)
        self._note(boot)
        return boot

    def outlive(self, boot_id: int) -> bool:
        """Replace the file, sync."""
        return self._note(boot_id)

    def _note(self, boot: int) -> bool:
        path = self._directory / "boot"
        try:
            fresh = path.with_suffix(".new")
            with fresh.open("w", encoding="ascii") as file:
                file.write(str(boot))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
            _sync_directory(self._directory)
        except OSError as error:
            _log.error("%s: %s; if the clock goes back, the next boot may be taken for an old one", path, error)
            return False
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
