"""The form: what people write, and the action it means."""

from typing import Any

import pytest

from components.dashboard.form import FormError, read_form
from schemas.limits import Limits

SOUND: dict[str, Any] = {"node": "hpc-1", "workload": "nav", "dry_run": True}


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ({"cpu": "2"}, Limits(cpu_limit=2000)),
        ({"cpu": " 500m "}, Limits(cpu_limit=500)),
        ({"memory": "2Gi"}, Limits(memory_limit=2048)),
        ({"cpu": "0.5", "memory": "512Mi"}, Limits(cpu_limit=500, memory_limit=512)),
    ],
)
def test_quantities_are_written_as_on_the_command_line(written: dict[str, str], target: Limits) -> None:
    assert read_form({**SOUND, **written}).action("a").target == target


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({}, "write a CPU limit, a memory limit, or both"),
        ({"cpu": "  "}, "write a CPU limit"),
        ({"cpu": "0"}, "greater than 0"),
        ({"cpu": "-1"}, "no CPU quantity"),
        ({"memory": "12"}, "less than 1 MiB"),
        ({"cpu": "9" * 33}, "cpu: String should have at most 32"),
        ({"cpu": "2", "node": "../x"}, "node: String should match"),
        ({"cpu": "2", "workload": ""}, "workload: String should match"),
        ({"cpu": "2", "wait_s": 1e9}, "wait_s"),
        ({"cpu": "2", "on_shortage": "steal"}, "on_shortage"),
        ({"cpu": "2", "hugepages": "2"}, "hugepages"),
        ({"cpu": 2}, "cpu: Input should be a valid string"),
        ({"cpu": "2", "dry_run": "maybe"}, "dry_run"),
    ],
)
def test_what_cannot_be_meant_is_told_in_words(written: dict[str, Any], told: str) -> None:
    with pytest.raises(FormError, match=told):
        read_form({**SOUND, **written}).action("a")


@pytest.mark.parametrize("body", [None, [], "x", 7, {"node": "hpc-1"}])
def test_what_is_no_form_is_told(body: Any) -> None:
    with pytest.raises(FormError):
        read_form(body)


def test_whether_it_is_only_asked_must_be_said() -> None:
    with pytest.raises(FormError, match="dry_run: Field required"):
        read_form({"node": "hpc-1", "workload": "nav", "cpu": "2"})
