"""Every kind of limit is known wherever kinds are spelled out: one that is forgotten would be lost unsaid.

The steps are those of components/new-limit.md.
"""

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
from tests.node_agent.test_cgroups import CONTAINER, SYSTEMD, TestHybrid, Tree, crun_with_systemd, hybrid
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

each_kind = pytest.mark.parametrize("kind", SOME_VALUE)
each_version = pytest.mark.parametrize("version", FORMATS)


def some(kind: str) -> Limits:
    return Limits(**{kind: SOME_VALUE[kind].value})


def unlimited(root: Path, version: int) -> Tree:
    """A container without limits."""
    return hybrid(root) if version == 1 else crun_with_systemd(root, {}, {})


def test_these_tests_have_a_value_of_each_kind() -> None:
    assert set(SOME_VALUE) == KINDS, "step 1: the rest of this file tries what stands in SOME_VALUE"


def test_the_agent_knows_the_controller_of_each_kind() -> None:
    assert set(CONTROLLER_OF) == KINDS, "step 2: CONTROLLER_OF"


def test_the_agent_looks_for_the_controllers_of_all_kinds() -> None:
    assert set(CONTROLLER_OF.values()) <= set(CONTROLLERS), "step 2: CONTROLLERS"


@each_version
def test_the_agent_knows_the_file_of_each_kind(version: int) -> None:
    """Or a limit whose file is missing would not be told as one that cannot be changed."""
    assert set(FORMATS[version].file_of) == KINDS, "step 3: file_of"


@each_version
@each_kind
def test_what_the_kernel_has_is_read(tmp_path: Path, kind: str, version: int) -> None:
    tree = unlimited(tmp_path, version)
    hierarchy, file, text = SOME_VALUE[kind].v1 if version == 1 else ("", *SOME_VALUE[kind].v2)
    path = f"{hierarchy}/{TestHybrid.PATH}" if version == 1 else f"{SYSTEMD}/container"
    tree.write(f"sys/fs/cgroup/{path}/{file}", text)

    enforced = tree.reader().read(CONTAINER)

    assert mismatches(some(kind), enforced.limits) == [], "step 4: _read; and the trees of test_cgroups.py"
    assert kind not in enforced.unchangeable, "step 4: the trees of test_cgroups.py"


@each_kind
def test_podman_is_told(kind: str) -> None:
    body = resources_for(some(kind), OWN)
    assert body != {}, "step 5: resources_for"
    assert full_set(body, UNLIMITED, {}) == body, "step 5: full_set"


@each_version
@each_kind
def test_podman_is_told_the_old_value_also_where_there_was_none(tmp_path: Path, kind: str, version: int) -> None:
    """Since 5.1 it stores what it then refuses, and would use it at the next start."""
    reader = unlimited(tmp_path, version).reader()
    present, own = reader.read(CONTAINER).limits, reader.own_values(CONTAINER)

    assert resources_for(some(kind), own).keys() == before(some(kind), own, present, HOST).keys(), "step 5: before"


@each_kind
def test_a_kind_that_had_no_limit_can_be_taken_back(kind: str) -> None:
    node = NodeRecord(node="hpc-1", total=Amount(cpu=8000, memory=8192))
    work = SimpleNamespace(node=lambda _name: node, active_rows=lambda _key: [])
    turn = cast("Turn", SimpleNamespace(work=work))
    record = WorkloadRecord(node="hpc-1", name="cam", actual=Limits())

    back, _ = rollback_of(turn, record, some(kind))

    assert getattr(back, kind) is not None, "step 7: whole"


@each_kind
def test_it_can_be_asked_for_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    wanted: list[Wanted] = []

    def follow(_settings: object, asked: Wanted, *, as_json: bool) -> int:
        wanted.append(asked)
        return int(as_json)

    monkeypatch.setattr("components.cli.scale.scale", follow)
    (tmp_path / "piriscale.toml").touch()

    result = Configuration(tmp_path / "piriscale.toml", 1).cli("scale", "cam", *SOME_VALUE[kind].option)

    assert result.exit_code == 0, f"step 9: the option; {result.output}"
    assert wanted[0].action("hpc-1").target == some(kind), "step 9: Wanted, its action, and who fills it"


@each_kind
def test_people_are_told(kind: str) -> None:
    assert describe(some(kind)) != describe(Limits()), "step 10: describe"
