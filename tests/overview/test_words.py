"""Quantities in words: short, and as people say them."""

import pytest

from components.overview.words import describe, describe_actual, joined, lasting, listed, natural, ranges
from schemas.limits import Limits


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (-5, "0 ms"),
        (54.4, "54 ms"),
        (1000, "1 s"),
        (1290, "1.2 s"),
        (42_900, "42 s"),
        (125_000, "2 min"),
        (3 * 3_600_000, "3 h"),
        (50 * 3_600_000, "2 d"),
    ],
)
def test_a_duration(milliseconds: float, words: str) -> None:
    assert lasting(milliseconds) == words


def test_limits() -> None:
    assert describe(None) == "–"
    assert describe(Limits()) == "unlimited"
    assert describe(Limits(cpu_limit=500, memory_limit=64, cpu_shares=512, cpuset_cpus="0,1,2,4")) == (
        "500m CPU, 64Mi, 512 shares, CPUs 0-2,4"
    )


def test_what_is_in_force_says_what_has_no_limit_and_else_only_what_was_desired() -> None:
    actual = Limits(memory_limit=64, cpu_shares=512)

    assert describe_actual(actual) == "unlimited CPU, 64Mi"
    assert describe_actual(actual, Limits(cpu_shares=512)) == "unlimited CPU, 64Mi, 512 shares"
    assert describe_actual(None) == "–"


def test_what_says_nothing_is_left_out() -> None:
    assert joined("a", None, "", "b") == "a b"
    assert listed(None, "a", "", "b") == "a; b"


def test_names_are_sorted_as_people_do() -> None:
    assert sorted(["a10", "a9", "b", "a", "9" * 40], key=natural) == ["9" * 40, "a", "a9", "a10", "b"]


def test_numbers_of_cpus() -> None:
    assert ranges(frozenset({0, 1, 2, 4, 7, 8})) == "0-2,4,7-8"
