"""Limits and amounts: what is equal, what is merged, what is refused."""

import pytest
from pydantic import ValidationError

from schemas.limits import Amount, Limits, mismatches, parse_cpuset


@pytest.mark.parametrize(
    ("expectation", "desired", "actual", "wrong"),
    [
        ("the same", {"cpu_limit": 2000, "memory_limit": 512}, {"cpu_limit": 2000, "memory_limit": 512}, []),
        ("CPU rounded by the kernel", {"cpu_limit": 2000}, {"cpu_limit": 1990}, []),
        ("CPU off by more than rounding", {"cpu_limit": 2000}, {"cpu_limit": 1989}, ["cpu_limit"]),
        ("memory rounded to pages", {"memory_limit": 512}, {"memory_limit": 511}, []),
        ("memory off by more", {"memory_limit": 512}, {"memory_limit": 510}, ["memory_limit"]),
        ("wanted but unlimited", {"cpu_limit": 2000}, {}, ["cpu_limit"]),
        ("not asked for is not compared", {"cpu_limit": 2000}, {"cpu_limit": 2000, "memory_limit": 9}, []),
        ("nothing asked for", {}, {"cpu_limit": 1}, []),
        ("both wrong", {"cpu_limit": 1, "memory_limit": 1}, {}, ["cpu_limit", "memory_limit"]),
        ("CPU lists written differently", {"cpuset_cpus": "0-2"}, {"cpuset_cpus": "2,1,0"}, []),
        ("other CPUs", {"cpuset_cpus": "0-2"}, {"cpuset_cpus": "0-1"}, ["cpuset_cpus"]),
        ("shares through cgroup v2 weights", {"cpu_shares": 1024}, {"cpu_shares": 998}, []),
        ("other shares", {"cpu_shares": 1024}, {"cpu_shares": 512}, ["cpu_shares"]),
    ],
)
def test_drift_is(
    expectation: str, desired: dict[str, object], actual: dict[str, object], wrong: list[str]
) -> None:
    assert mismatches(Limits.model_validate(desired), Limits.model_validate(actual)) == wrong, expectation


def test_a_newer_target_changes_only_what_it_asks_for() -> None:
    old = Limits(cpu_limit=1000, memory_limit=512)
    assert old.merged(Limits(cpu_limit=2000)) == Limits(cpu_limit=2000, memory_limit=512)
    assert old.merged(Limits()) == old


def test_limits_can_be_reduced_to_some_of_them() -> None:
    limits = Limits(cpu_limit=1000, memory_limit=512, cpu_shares=1024)
    assert limits.only({"cpu_limit", "cpu_shares"}) == Limits(cpu_limit=1000, cpu_shares=1024)


def test_an_empty_target_is_empty_however_it_was_written() -> None:
    assert Limits().empty
    assert Limits(cpu_limit=None).empty
    assert not Limits(cpu_limit=1).empty


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", {0}), ("0-2,4", {0, 1, 2, 4}), ("3,1-2", {1, 2, 3}), ("7-7", {7})]
)
def test_a_cpu_list_is_read(text: str, cpus: set[int]) -> None:
    assert parse_cpuset(text) == cpus


@pytest.mark.parametrize("text", ["", ",", "0-", "-1", "a", "2-1", "0,,1", "8192", "0-99999999", "٣", "0x1"])
def test_what_is_no_cpu_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no CPU list"):
        parse_cpuset(text)


@pytest.mark.parametrize(
    "body",
    [
        {"cpu_limit": 0},
        {"cpu_limit": -1},
        {"cpu_limit": True},
        {"cpu_limit": 1.0},
        {"cpu_limit": "2"},
        {"cpu_limit": 2**40 + 1},
        {"memory_limit": 0},
        {"memory_limit": "512Mi"},
        {"cpu_shares": 1},
        {"cpu_shares": 262_145},
        {"cpuset_cpus": ""},
        {"cpuset_cpus": 1},
        {"hugepages": 1},
    ],
)
def test_a_limit_that_cannot_be_set_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate(body)


def test_amounts_add_and_never_fall_below_nothing() -> None:
    some, more = Amount(cpu=500, memory=100), Amount(cpu=700, memory=50)
    assert some + more == Amount(cpu=1200, memory=150)
    assert some.less(more) == Amount(cpu=0, memory=50)
    assert some.larger(more) == Amount(cpu=700, memory=100)
