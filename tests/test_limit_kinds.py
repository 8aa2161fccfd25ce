"""Every kind of limit is known wherever kinds are spelled out: one that is forgotten would be lost unsaid."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from components.cli.scale import Wanted
from components.node_agent.podman.cgroups import CONTROLLERS
from components.node_agent.podman.formats import FORMATS
from components.node_agent.podman.kernel import CONTROLLER_OF
from components.node_agent.podman.plan import before, full_set, resources_for
from components.overview.words import describe
from components.resource_manager.records import NodeRecord, WorkloadRecord
from components.resource_manager.rollback import rollback_of
from components.resource_manager.turn import Turn
from schemas.limits import Amount, Limits, mismatches
from tests.cli.system import Configuration
from tests.node_agent.test_cgroups import CONTAINER, ID, SYSTEMD, Tree, crun_with_systemd, hybrid
from tests.node_agent.test_plan import HOST, OWN, UNLIMITED


class Value(NamedTuple):
    """One value of a kind, as it is written everywhere."""

    value: Any
    option: tuple[str, str]
    v1: tuple[str, str, str]
    """Hierarchy and file of cgroup v1, and what stands in it."""
    v2: tuple[str, str]


SOME_VALUE = {
    "cpu_limit": Value(
        value=500,
        option=("--cpu", "500m"),
        v1=("cpu,cpuacct", "cpu.cfs_quota_us", "50000"),
        v2=("cpu.max", "50000 100000"),
    ),
    "memory_limit": Value(
        value=64,
        option=("--memory", "64Mi"),
        v1=("memory", "memory.limit_in_bytes", "67108864"),
        v2=("memory.max", "67108864"),
    ),
    "cpu_shares": Value(
        value=512,
        option=("--cpu-shares", "512"),
        v1=("cpu,cpuacct", "cpu.shares", "512"),
        v2=("cpu.weight", "20"),
    ),
    "cpuset_cpus": Value(
        value="0",
        option=("--cpuset", "0"),
        v1=("cpuset", "cpuset.effective_cpus", "0"),
        v2=("cpuset.cpus.effective", "0"),
    ),
}
KINDS = set(Limits.model_fields)
PLACES = {1: f"libpod_parent/libpod-{ID}", 2: f"{SYSTEMD}/container"}
"""The container's own cgroup."""

each_kind = pytest.mark.parametrize("kind", SOME_VALUE)
each_version = pytest.mark.parametrize("version", FORMATS)


def some(kind: str) -> Limits:
    return Limits(**{kind: SOME_VALUE[kind].value})


def unlimited(root: Path, version: int) -> Tree:
    """A container without limits."""
    return hybrid(root, PLACES[1]) if version == 1 else crun_with_systemd(root, {}, {})


@contextmanager
def step(number: int, what: str) -> Iterator[None]:
    """Whatever goes wrong within means that this step was forgotten."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"step {number} of components/new-limit.md: {what}") from error


def test_these_tests_have_a_value_of_each_kind() -> None:
    with step(1, "a value in SOME_VALUE, for the other tests here"):
        assert set(SOME_VALUE) == KINDS


def test_the_agent_knows_the_controller_of_each_kind() -> None:
    with step(2, "CONTROLLER_OF"):
        assert set(CONTROLLER_OF) == KINDS
    with step(2, "CONTROLLERS"):
        assert set(CONTROLLER_OF.values()) <= set(CONTROLLERS)


@each_version
def test_the_agent_knows_the_file_of_each_kind(version: int) -> None:
    """Else a limit that the kernel has no file for would not be refused."""
    with step(3, "file_of"):
        assert set(FORMATS[version].file_of) == KINDS


@each_version
@each_kind
def test_what_is_in_the_kernel_is_read(tmp_path: Path, kind: str, version: int) -> None:
    tree = unlimited(tmp_path, version)
    hierarchy, file, text = SOME_VALUE[kind].v1 if version == 1 else ("", *SOME_VALUE[kind].v2)
    tree.write(f"sys/fs/cgroup/{hierarchy}/{PLACES[version]}/{file}", text)

    with step(4, "_read, or the trees of test_cgroups.py"):
        enforced = tree.reader().read(CONTAINER)
        assert mismatches(some(kind), enforced.limits) == []
        assert kind not in enforced.unchangeable


@each_kind
def test_podman_is_told(kind: str) -> None:
    with step(5, "resources_for"):
        body = resources_for(some(kind), OWN)
        assert body != {}
    with step(5, "full_set"):
        assert full_set(body, UNLIMITED, {}) == body


@each_version
@each_kind
def test_podman_is_told_what_was_before_even_if_that_was_no_limit(tmp_path: Path, kind: str, version: int) -> None:
    """Since 5.1 it stores what it then refuses, and would use it at the next start."""
    reader = unlimited(tmp_path, version).reader()
    own, shown = reader.own_values(CONTAINER), reader.read(CONTAINER).limits
    with step(5, "before"):
        assert before(some(kind), own, shown, HOST) != {}


@each_kind
def test_a_kind_that_had_no_limit_can_be_taken_back(kind: str) -> None:
    node = NodeRecord(node="hpc-1", total=Amount(cpu=8000, memory=8192))
    work = SimpleNamespace(node=lambda _name: node, active_rows=lambda _key: [])
    turn = cast("Turn", SimpleNamespace(work=work))
    record = WorkloadRecord(node="hpc-1", name="cam", actual=Limits())

    with step(7, "whole"):
        back, _ = rollback_of(turn, record, some(kind))
        assert getattr(back, kind) is not None


@each_kind
def test_it_can_be_asked_for_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    heard: list[Wanted] = []

    def follow(_settings: object, wanted: Wanted, *, as_json: bool) -> int:
        heard.append(wanted)
        return int(as_json)

    monkeypatch.setattr("components.cli.scale.scale", follow)
    (tmp_path / "piriscale.toml").touch()

    with step(9, "the option"):
        result = Configuration(tmp_path / "piriscale.toml", 1).cli("scale", "cam", *SOME_VALUE[kind].option)
        assert result.exit_code == 0, result.output
    with step(9, "Wanted"):
        assert heard[0].action("hpc-1").target == some(kind)


@each_kind
def test_people_are_told(kind: str) -> None:
    with step(10, "describe"):
        assert describe(some(kind)) != describe(Limits())
