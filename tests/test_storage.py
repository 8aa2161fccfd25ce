"""The durable store: what was committed is there, what is broken is set aside, what cannot be written says so."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.storage import Database, StorageError, read_rows
from tests.requirements import require

ONE = ("CREATE TABLE word (text TEXT PRIMARY KEY)",)
TWO = (*ONE, "ALTER TABLE word ADD COLUMN count INTEGER NOT NULL DEFAULT 1")


def words(database: Database) -> list[object]:
    return [row[0] for row in database.query("SELECT text FROM word ORDER BY text")]


def write(database: Database, *texts: str) -> None:
    with database.transaction() as connection:
        connection.executemany("INSERT INTO word (text) VALUES (?)", [(text,) for text in texts])


def write_and_fail(database: Database, text: str) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO word (text) VALUES (?)", (text,))
        raise ZeroDivisionError


@contextlib.contextmanager
def opened(path: Path | None, migrations: tuple[str, ...] = ONE) -> Iterator[Database]:
    database = Database(path, migrations)
    try:
        yield database
    finally:
        database.close()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    require(os.geteuid() == 0, "root, to mount a small file system")
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "piriscale-test", where], check=False, capture_output=True
    )
    require(mounted.returncode == 0, "the right to mount a file system")
    yield where
    subprocess.run(["umount", where], check=True)


def test_what_was_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "state.sqlite3"
    with opened(path) as first:
        assert first.fresh
        write(first, "a", "b")
    with opened(path) as second:
        assert not second.fresh
        assert second.set_aside is None
        assert words(second) == ["a", "b"]


def test_what_was_committed_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    program = (
        "import sys, os, signal; from pathlib import Path; from components.storage import Database\n"
        "database = Database(Path(sys.argv[1]), ('CREATE TABLE word (text TEXT PRIMARY KEY)',))\n"
        "with database.transaction() as c: c.execute(\"INSERT INTO word VALUES ('kept')\")\n"
        "with database.transaction() as c:\n"
        "    c.execute(\"INSERT INTO word VALUES ('not committed')\")\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.with_name("state.sqlite3-wal").exists()
    with opened(path) as database:
        assert words(database) == ["kept"]


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "state.sqlite3") as database:
        with pytest.raises(ZeroDivisionError):
            write_and_fail(database, "a")
        with pytest.raises(StorageError, match="UNIQUE"):
            write(database, "b", "b")
        assert words(database) == []
        write(database, "c")
        assert words(database) == ["c"]


def test_writes_reach_the_disk_before_they_are_said(tmp_path: Path) -> None:
    with opened(tmp_path / "state.sqlite3") as database:
        assert database.query("PRAGMA synchronous") == [(2,)]
        assert database.query("PRAGMA journal_mode") == [("wal",)]


def test_an_older_schema_is_migrated_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    with opened(path, ONE) as old:
        write(old, "a")
    with opened(path, TWO) as new:
        assert new.query("SELECT text, count FROM word") == [("a", 1)]
        assert new.query("PRAGMA user_version") == [(2,)]
    with opened(path, TWO) as again:
        assert not again.fresh
        assert words(again) == ["a"]


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    with opened(path, ONE) as old:
        write(old, "a")
    with pytest.raises(StorageError, match="cannot open"):
        Database(path, (*ONE, "CREATE TABLE other (x); ALTER TABLE absent ADD COLUMN y"))
    with opened(path, ONE) as database:
        assert words(database) == ["a"]
        assert database.query("SELECT name FROM sqlite_master WHERE name = 'other'") == []


def test_a_file_of_a_newer_version_is_set_aside_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "state.sqlite3"
    with opened(path, TWO) as newer:
        write(newer, "from the future")
    with opened(path, ONE) as database:
        assert database.fresh
        assert words(database) == []
        aside = database.set_aside
    assert aside is not None
    assert aside.parent == tmp_path
    assert "newer than ours" in caplog.text
    assert str(aside) in caplog.text
    with opened(aside, TWO) as kept:
        assert words(kept) == ["from the future"]


def test_a_newer_file_that_a_curious_person_has_open_is_set_aside_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    with opened(path, TWO) as newer:
        write(newer, "before")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as person:
        person.execute("INSERT INTO word (text) VALUES ('from the future')")
        with opened(path, ONE) as database:
            assert words(database) == []
            aside = database.set_aside
    assert aside is not None
    with opened(aside, TWO) as kept:
        assert words(kept) == ["before", "from the future"]


@pytest.mark.parametrize(
    ("damage", "content"),
    [
        (
            "no database at all",
            b"this is no database, but long enough to be looked at by SQLite as if it were one" * 99,
        ),
        ("a header and then noise", None),
    ],
)
def test_a_corrupt_file_is_set_aside_and_a_new_one_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str, content: bytes | None
) -> None:
    path = tmp_path / "state.sqlite3"
    with opened(path) as database:
        write(database, *(f"word {number}" for number in range(1000)))
    sound = path.read_bytes()
    damaged = content or sound[:100] + os.urandom(len(sound) - 100)
    path.write_bytes(damaged)
    with opened(path) as database:
        assert database.fresh, damage
        assert words(database) == []
        write(database, "new life")
        aside = database.set_aside
    assert aside is not None
    assert aside.read_bytes() == damaged
    assert "corrupt" in caplog.text
    with opened(path) as database:
        assert not database.fresh
        assert words(database) == ["new life"]


def test_a_log_left_by_a_kill_while_setting_aside_does_not_haunt_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    old = Database(path, ONE)
    write(old, "old life")
    stale = path.with_name("state.sqlite3-wal").read_bytes()
    old.close()
    path.unlink()
    path.with_name("state.sqlite3-wal").write_bytes(stale)
    with opened(path) as database:
        assert words(database) == []
        write(database, "new life")
    with opened(path) as database:
        assert words(database) == ["new life"]


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    path.touch()
    with opened(path) as database:
        write(database, "a")
        assert database.set_aside is None


def test_a_path_that_is_no_file_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot open the database"):
        Database(tmp_path, ONE)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot open the database"):
        Database(tmp_path / "file" / "state.sqlite3", ONE)


def test_a_full_disk_is_a_storage_error_and_nothing_is_lost(tiny_disk: Path) -> None:
    with opened(tiny_disk / "state.sqlite3") as database:
        write(database, "before")
        with pytest.raises(StorageError, match="full"):
            write(database, *(f"{number}" * 500 for number in range(1000)))
        assert words(database) == ["before"]
        write(database, "after")
    with opened(tiny_disk / "state.sqlite3") as database:
        assert words(database) == ["after", "before"]


def test_a_disk_without_any_room_is_said_at_the_start(tiny_disk: Path) -> None:
    with pytest.raises(OSError, match="space"):
        (tiny_disk / "filler").write_bytes(bytes(1024 * 1024))
    with pytest.raises(StorageError, match="cannot open the database"):
        Database(tiny_disk / "state.sqlite3", ONE)


def test_a_corrupt_file_on_a_full_disk_is_a_storage_error_too(tiny_disk: Path) -> None:
    path = tiny_disk / "state.sqlite3"
    path.write_bytes(b"noise " * 1000)
    with pytest.raises(OSError, match="space"):
        (tiny_disk / "filler").write_bytes(bytes(1024 * 1024))
    with pytest.raises(StorageError, match="cannot open the database"):
        Database(path, ONE)


def test_a_read_only_file_system_is_a_storage_error(tiny_disk: Path) -> None:
    with opened(tiny_disk / "state.sqlite3") as database:
        write(database, "before")
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
    with pytest.raises(StorageError):
        Database(tiny_disk / "state.sqlite3", ONE)


def test_a_file_held_by_another_process_is_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.storage.BUSY_TIMEOUT_S", 0.01)
    path = tmp_path / "state.sqlite3"
    with opened(path) as database, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="locked"):
            write(database, "a")
        other.execute("ROLLBACK")
        write(database, "a")
        assert words(database) == ["a"]


def test_a_second_instance_started_by_mistake_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    with opened(path) as first:
        write(first, "a")
        with pytest.raises(StorageError, match="another process uses it; stop that one first"):
            Database(path, ONE)
        write(first, "b")
        assert words(first) == ["a", "b"]
    with opened(path) as next_one:
        assert words(next_one) == ["a", "b"]


def test_a_start_that_failed_leaves_the_file_free(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    with pytest.raises(StorageError, match="cannot open"):
        Database(path, ("no statement",))
    with opened(path) as database:
        write(database, "a")


def test_others_can_read_while_the_owner_works(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    with opened(path) as database:
        write(database, "a")
        assert read_rows(path, "SELECT text FROM word WHERE text = ?", "a") == [("a",)]
        with pytest.raises(StorageError, match="readonly"):
            read_rows(path, "DELETE FROM word")
        assert words(database) == ["a"]


def test_reading_what_is_not_there_is_a_storage_error_and_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="unable to open"):
        read_rows(tmp_path / "absent.sqlite3", "SELECT 1")
    assert list(tmp_path.iterdir()) == []


def test_a_query_that_cannot_be_read_is_a_storage_error(tmp_path: Path) -> None:
    with opened(tmp_path / "state.sqlite3") as database, pytest.raises(StorageError, match="no such table"):
        database.query("SELECT * FROM absent")


def test_tests_can_keep_everything_in_memory() -> None:
    with opened(None) as database:
        assert database.fresh
        write(database, "a")
        assert words(database) == ["a"]
