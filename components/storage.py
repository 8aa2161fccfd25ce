"""SQLite files as components keep them: durable before it is said, set aside when broken, versioned."""

import contextlib
import fcntl
import logging
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_S: Final = 5.0


class StorageError(Exception):
    """The database cannot be written (full or read-only disk, for example). Nothing was changed."""


class Database:
    """One SQLite file with a schema version, WAL and synchronous FULL.

    A file that is corrupt, or written by a newer version, is set aside under a name that says so, and a new one
    begins; `fresh` tells, so that the owner rebuilds from what runs. It has one owner at a time: what a component
    keeps in memory beside it would otherwise be overwritten by a second instance, started by mistake.
    """

    def __init__(self, path: Path | None, migrations: tuple[str, ...], *, durable: bool = True) -> None:
        """Open or create `path` (None: in memory, for tests). `migrations[k]` leads from version k to k + 1.

        Raises StorageError when the file can neither be used nor set aside, or has an owner.
        """
        self.path = path
        self.fresh = path is None or not path.exists()
        self.set_aside: Path | None = None
        self._release: Callable[[], object] = lambda: None
        self._migrations = migrations
        self._durable = durable
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._release = self._own(path)
            self._connection = self._open_or_begin_anew()
            weakref.finalize(self, self._connection.close)
        except (sqlite3.Error, OSError) as error:
            self._release()
            raise StorageError(f"{path}: cannot open the database: {error}") from error

    def _own(self, path: Path) -> Callable[[], object]:
        """Lock the file for this object's life; returns what gives it free. Raises StorageError."""
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        release = weakref.finalize(self, os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            release()
            raise StorageError(f"{path}: another process uses it; stop that one first") from None
        return release

    def _open_or_begin_anew(self) -> sqlite3.Connection:
        try:
            return self._open()
        except _UnusableError as reason:
            self._set_aside(str(reason))
            return self._open()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'OFF'}")
            _check(connection)
            self._migrate(connection)
        except sqlite3.DatabaseError as error:
            connection.close()
            if isinstance(error, sqlite3.OperationalError) and not _says_corrupt(error):
                raise
            raise _UnusableError(f"it is corrupt: {error}") from error
        except _UnusableError:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(self._migrations):
            raise _UnusableError(f"its schema version {version} is newer than ours, {len(self._migrations)}")
        for number, script in enumerate(self._migrations[version:], start=version + 1):
            connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT;")

    def _set_aside(self, why: str) -> None:
        if self.path is None:
            raise StorageError(f"the database in memory is unusable: {why}")
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        self.set_aside = self.path.with_name(f"{self.path.name}.set-aside-{stamp}")
        try:
            for suffix in ("", "-wal", "-shm"):
                source = self.path.with_name(self.path.name + suffix)
                if source.exists():
                    source.rename(self.set_aside.with_name(self.set_aside.name + suffix))
        except OSError as error:
            raise StorageError(f"{self.path}: {why}, and it cannot be set aside: {error}") from error
        self.fresh = True
        _log.error("%s: %s; set aside as %s, beginning anew from what runs", self.path, why, self.set_aside)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; on disk when the block is left. Raises StorageError when it cannot be written."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: {error}; free space, or make it writable") from error
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise StorageError(f"{self.path}: {error}; free space, or make it writable") from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back by itself already
            self._connection.execute("ROLLBACK")

    def query(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Rows of a SELECT. Raises StorageError when they cannot be read."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """Close the file; everything committed is on disk."""
        self._connection.close()
        self._release()


def read_rows(path: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Rows of a SELECT on the file of another process, which is neither written nor set aside.

    Raises StorageError when it cannot be read.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            return connection.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise StorageError(f"{path}: {error}") from error


class _UnusableError(Exception):
    """The file must be set aside."""


def _check(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
        raise _UnusableError("it is corrupt")


def _says_corrupt(error: sqlite3.Error) -> bool:
    return any(word in str(error) for word in ("malformed", "not a database", "corrupt"))
