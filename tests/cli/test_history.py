"""`history` reads the journals of running components, and changes nothing in them."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from components.component import Instant
from components.policy_manager.journal import Journal
from schemas.enums import EventOutcome, Reason
from schemas.performance import PerfOutcome
from tests.cli.system import PROGRAM, Configuration, configuration


def outcome(event_id: str) -> PerfOutcome:
    return PerfOutcome(
        event_id=event_id,
        node="hpc-1",
        workload_id="cam",
        outcome=EventOutcome.NOT_REQUIRED,
        reason=Reason.AT_MAXIMUM,
        message="4000m is the maximum",
    )


def decided(folder: Path) -> tuple[Configuration, Journal]:
    """A configuration, and PolicyManager's journal with two decisions, still open."""
    journal = Journal(folder / "policy_manager.sqlite3")
    for number in (1, 2):
        journal.answer([outcome(f"e{number}")], Instant(number, 1_700_000_000_000 + number))
    return configuration(folder), journal


def test_decisions_are_read_beside_a_running_policy_manager(tmp_path: Path) -> None:
    settings, journal = decided(tmp_path)

    as_json = settings.cli("history", "--json")
    shown = settings.cli("history")

    assert as_json.exit_code == 0, as_json.stderr
    document = json.loads(as_json.stdout)
    assert [one["event_id"] for one in document["decisions"]] == ["e2", "e1"]
    assert document["decisions"][0]["at_ms"] == 1_700_000_000_002
    assert document["actions"] is None, "not an empty journal: there is none here"
    assert "action_controller keeps no journal on this machine" in shown.stdout
    assert "nothing was scaled" not in shown.stdout
    assert "2023-11-14 22:13:20" in shown.stdout
    assert "AT_MAXIMUM 4000m is the maximum" in shown.stdout
    journal.answer([outcome("e3")], Instant(3, 1_700_000_000_003))
    journal.close()


def test_decisions_are_read_when_policy_manager_is_stopped(tmp_path: Path) -> None:
    settings, journal = decided(tmp_path)
    journal.close()

    result = settings.cli("history", "--json", "--limit", "1")

    assert [one["event_id"] for one in json.loads(result.stdout)["decisions"]] == ["e2"]


def test_a_broken_journal_is_told_and_left_alone(tmp_path: Path) -> None:
    settings = configuration(tmp_path)
    broken = tmp_path / "action_controller.sqlite3"
    broken.write_bytes(b"no database at all" * 100)

    result = settings.cli("history")

    assert result.exit_code == 1
    assert str(broken) in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"piriscale.toml", broken.name}


def test_a_row_of_a_newer_version_is_told_in_one_line_with_its_file(tmp_path: Path) -> None:
    settings, journal = decided(tmp_path)
    journal.close()
    path = tmp_path / "policy_manager.sqlite3"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE event SET outcome = replace(outcome, 'AT_MAXIMUM', 'TOO_HOT')")

    result = settings.cli("history")

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert f"{path}: a row is damaged, or was written by a newer version" in result.stderr
    assert "TOO_HOT" in result.stderr


def test_where_there_is_no_journal_it_says_where_it_looked_and_what_to_do(tmp_path: Path) -> None:
    """An ordinary user has other paths than the service whose journal it is."""
    result = configuration(tmp_path).cli("history")

    assert result.exit_code == 1
    for path in ("action_controller.sqlite3", "policy_manager.sqlite3"):
        assert str(tmp_path / path) in result.stderr
    assert "(sudo)" in result.stderr
    assert "`database`" in result.stderr


@pytest.mark.parametrize("option", [(), ("--json",)], ids=["table", "json"])
def test_a_full_disk_below_the_output_is_told_in_one_line(tmp_path: Path, option: tuple[str, ...]) -> None:
    settings, journal = decided(tmp_path)

    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, "history", *option],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **settings.environment},
            check=False,
        )

    journal.close()
    assert result.returncode == 1
    assert result.stderr == "piriscale: the output cannot be written: No space left on device\n"
