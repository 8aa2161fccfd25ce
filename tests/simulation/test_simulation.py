"""The system keeps its invariants whatever fails; and a system that would not is found out.

Each run is a process of its own, as people start it, so that a seed means the same history everywhere.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.planted import PLANTED

ROOT = Path(__file__).parents[2]

FOUND_WITHIN = {
    "said-before-kept": 5,
    "no-reservation": 50,
    "old-snapshot-judged": 60,
    "busy-ignored": 300,
    "generation-ignored": 60,
    "retry-from-cache": 60,
    "same-name-is-enough": 100,
    "lease-forgotten": 150,
    "generation-forgotten": 600,
    "rollback-not-sent": 600,
    "old-use-believed": 900,
}
"""Seeds, several times as many as each needed: whoever changes what a component says makes other histories."""
EVERY_DAY = ("said-before-kept", "no-reservation")


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("first", range(1, 51, 10))
def test_fifty_histories_keep_every_invariant(first: int) -> None:
    done = simulation("--first", str(first), "--seeds", "10", "--jobs", "1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 of 10 seeds" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_two_thousand_histories_keep_every_invariant() -> None:
    done = simulation("--seeds", "2000", "--jobs", "2")

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr


def test_a_seed_is_one_history() -> None:
    first, again = simulation("--seed", "11", "-v"), simulation("--seed", "11", "-v")

    assert first.stdout.count("\n") > 100, first.stderr
    assert first.stdout == again.stdout


@pytest.mark.parametrize("bug", EVERY_DAY)
def test_a_bug_is_found_and_its_history_told(bug: str) -> None:
    done = simulation("--planted", bug, "--seeds", str(FOUND_WITHIN[bug]), "--jobs", "1")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "VIOLATED invariant" in done.stdout
    assert f"--planted {bug} -v" in done.stdout, "it says how to see it again"
    assert "resource_manager says ValidateReply" in done.stdout, "and what led to it"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", sorted(set(PLANTED) - set(EVERY_DAY)))
def test_every_planted_bug_is_found(bug: str) -> None:
    done = simulation("--planted", bug, "--seeds", str(FOUND_WITHIN[bug]), "--jobs", "2")

    assert done.returncode == 1, f"{bug} was not found in {FOUND_WITHIN[bug]} seeds: {done.stdout[-2000:]}"
    assert "VIOLATED" in done.stdout
