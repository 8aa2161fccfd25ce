"""What is refused has a reason and numbers, and changes nothing in the kernel."""

from typing import Any

import pytest

from tests.fixtures.podman import MakeBox
from tests.system.bench import NODE, Bench

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("nothing asked for", {}, "INVALID_TARGET"),
    ("zero CPU", {"cpu_limit": 0}, "INVALID_TARGET"),
    ("negative memory", {"memory_limit": -5}, "INVALID_TARGET"),
    ("a text for a number", {"cpu_limit": "2"}, "INVALID_TARGET"),
    ("half a millicore", {"cpu_limit": 0.5}, "INVALID_TARGET"),
    ("an absurd number", {"cpu_limit": 2**62}, "INVALID_TARGET"),
    ("a quota under a millisecond", {"cpu_limit": 5}, "INVALID_TARGET"),
    ("shares below the kernel's least", {"cpu_shares": 1}, "INVALID_TARGET"),
    ("shares above the kernel's most", {"cpu_shares": 300_000}, "INVALID_TARGET"),
    ("a CPU list that is none", {"cpuset_cpus": "a-b"}, "INVALID_TARGET"),
    ("a CPU that the host lacks", {"cpuset_cpus": "4000"}, "INFEASIBLE"),
    ("huge pages", {"hugepages_2Mi": 4}, "UNSUPPORTED"),
    ("NUMA binding", {"cpu_limit": 300, "cpuset_mems": "0"}, "UNSUPPORTED"),
    ("kernel parameters", {"sysctl": {"kernel.shmmax": 1}}, "UNSUPPORTED"),
    ("more CPU than the node has", {"cpu_limit": 64_000}, "INFEASIBLE"),
    ("more memory than the node has", {"memory_limit": 2**24}, "INFEASIBLE"),
    ("memory below what is in use", {"memory_limit": 4}, "BELOW_USAGE"),
]


@pytest.mark.parametrize(("target", "reason"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_a_target_that_cannot_be_is_refused(
    bench: Bench, box: MakeBox, target: dict[str, Any], reason: str
) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    before = container.everything
    final = bench.client.final(bench.client.scale(NODE, container.name, target=target))
    assert final["state"] == "FAILED"
    assert final["reason"] == reason, final
    assert final["message"]
    assert container.everything == before


def test_above_the_workloads_maximum_is_infeasible(bench: Bench, box: MakeBox) -> None:
    container = box("capped-1", cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    before = container.everything
    final = bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": 600}))
    assert (final["outcome"], final["reason"]) == ("REJECTED", "INFEASIBLE")
    assert "500m" in final["message"]
    assert container.everything == before


@pytest.mark.parametrize(
    ("node", "workload", "reason"),
    [("nowhere", "navigation", "UNKNOWN_NODE"), (NODE, "nobody", "UNKNOWN_WORKLOAD")],
)
def test_what_is_not_there_is_named(bench: Bench, node: str, workload: str, reason: str) -> None:
    final = bench.client.final(bench.client.scale(node, workload, target={"cpu_limit": 300}))
    assert (final["outcome"], final["reason"]) == ("REJECTED", reason)


def test_a_prefix_of_a_name_or_id_is_not_enough(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    for part in (container.name[:-1], container.id[:12]):
        final = bench.client.final(bench.client.scale(NODE, part, target={"cpu_limit": 300}))
        assert final["reason"] == "UNKNOWN_WORKLOAD"
    assert container.quota_and_period[0] == 20_000


def test_a_stopped_container_is_refused(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    container.podman.command("stop", "--time", "0", container.name)
    final = bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": 300}))
    assert final["outcome"] in ("REJECTED", "FAILED")
    assert final["reason"] in ("NOT_RUNNING", "UNKNOWN_WORKLOAD"), final


def test_a_decision_on_an_outdated_state_is_refused(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    first = bench.client.scale(NODE, container.name, target={"cpu_limit": 300}, base_generation=0)
    assert bench.client.final(first)["outcome"] == "COMPLETED"
    second = bench.client.scale(NODE, container.name, target={"cpu_limit": 400}, base_generation=0)
    assert bench.client.final(second)["reason"] == "SUPERSEDED"
    assert container.quota_and_period[0] == 30_000
