"""What goes wrong with Podman and cgroups is refused before the call, with its reason, and nothing changes."""

import pytest

from components.node_agent.podman.private import PrivatePodman
from schemas.enums import Reason
from tests.fixtures.podman import MakeBox
from tests.node_agent.pods import Pod
from tests.node_agent.updater import MARGIN_MIB, Updater, wait_for

MIB = 1024 * 1024
HOLD_MIB = 60
HOLD = (
    "sh",
    "-c",
    f"/bin/busybox dd if=/dev/zero of=/dev/shm/held bs=1M count={HOLD_MIB}; /bin/busybox sleep 1000",
)
"""Holds memory that cannot be taken back, since there is no swap for it."""


def test_more_cpu_than_the_host_has_is_infeasible_though_podman_would_accept_it(
    box: MakeBox, update: Updater
) -> None:
    container = box(cpus=0.5)
    before = container.everything
    result = update(container, cpu_limit=64_000)
    assert result.reason is Reason.INFEASIBLE
    assert "64000m is above the node's" in result.message
    assert (container.everything, update.disturbed.calls) == (before, [])


def test_more_memory_than_the_host_has_is_infeasible(box: MakeBox, update: Updater) -> None:
    container = box(memory_mib=64)
    before = container.everything
    assert update(container, memory_limit=2**30).reason is Reason.INFEASIBLE
    assert (container.everything, update.disturbed.calls) == (before, [])


def test_cpus_outside_the_host_are_infeasible(box: MakeBox, update: Updater) -> None:
    container = box()
    before = container.everything
    result = update(container, cpuset_cpus="0,4095")
    assert result.reason is Reason.INFEASIBLE
    assert "no CPU 4095" in result.message
    assert (container.everything, update.disturbed.calls) == (before, [])


def test_a_quota_below_the_kernels_least_is_invalid(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5)
    before = container.everything
    result = update(container, cpu_limit=9)
    assert result.reason is Reason.INVALID_TARGET
    assert "below 10m" in result.message
    assert (container.everything, update.disturbed.calls) == (before, [])


def test_the_least_quota_depends_on_the_containers_own_period(box: MakeBox, update: Updater) -> None:
    container = box(options=["--cpu-period", "10000", "--cpu-quota", "5000"])
    before = container.everything
    assert update(container, cpu_limit=99).reason is Reason.INVALID_TARGET
    assert container.everything == before
    assert update(container, cpu_limit=100).success
    assert container.quota_and_period == (1000, 10_000)


def test_one_bad_limit_refuses_the_good_one_beside_it(box: MakeBox, update: Updater) -> None:
    """Podman would apply the memory and then fail at the CPU."""
    container = box(cpus=0.5, memory_mib=64)
    before = container.everything
    assert update(container, cpu_limit=5, memory_limit=128).reason is Reason.INVALID_TARGET
    assert (container.everything, update.disturbed.calls) == (before, [])


def test_memory_below_what_is_in_use_is_refused_before_the_kernel_kills(box: MakeBox, update: Updater) -> None:
    container = box(None, *HOLD, memory_mib=256, options=["--shm-size", "200m"])
    wait_for(
        lambda: update.runtime.read(update.runtime.resolve(container.name)).memory_used >= HOLD_MIB, "it is held"
    )
    before = container.everything
    result = update(container, memory_limit=HOLD_MIB + MARGIN_MIB - 1)
    assert result.reason is Reason.BELOW_USAGE
    assert f"{MARGIN_MIB}Mi margin" in result.message
    assert (container.everything, update.disturbed.calls) == (before, [])


def test_memory_that_is_only_page_cache_does_not_stand_in_the_way(box: MakeBox, update: Updater) -> None:
    fill = "/bin/busybox dd if=/dev/zero of=/file bs=1M count=80; /bin/busybox sync; /bin/busybox sleep 1000"
    container = box(None, "sh", "-c", fill, memory_mib=256)
    wait_for(lambda: container.memory_in_use > 80 * MIB, "the cache is filled")
    wait_for(
        lambda: update.runtime.read(update.runtime.resolve(container.name)).memory_used < 30, "it can be dropped"
    )
    result = update(container, memory_limit=64)
    assert result.success, result.message
    assert container.memory == 64 * MIB


def test_raising_memory_is_allowed_however_much_is_in_use(box: MakeBox, update: Updater) -> None:
    """A container near its limit is just the one that needs more."""
    container = box(None, *HOLD, memory_mib=HOLD_MIB + 4, options=["--shm-size", "200m"])
    wait_for(
        lambda: update.runtime.read(update.runtime.resolve(container.name)).memory_used >= HOLD_MIB, "it is held"
    )
    assert update(container, memory_limit=HOLD_MIB + 10).success
    assert container.memory == (HOLD_MIB + 10) * MIB


@pytest.mark.parametrize("way", ["created", "stopped"])
def test_a_container_that_does_not_run_is_refused(
    way: str, box: MakeBox, update: Updater, private_podman: PrivatePodman
) -> None:
    name = f"box-{way}"
    if way == "stopped":
        container = box(name)
        update(container, cpu_limit=1000)  # so that the adapter knows it as running
        private_podman.command("stop", "--time", "0", name)
    else:
        private_podman.command("create", "--name", name, "--network", "none", "localhost/piriscale-busybox:1", "x")
    result = update(name, cpu_limit=500)
    private_podman.command("rm", "--force", "--ignore", name)
    assert result.reason is Reason.NOT_RUNNING
    assert "start it first" in result.message
    assert not result.wrote


def test_the_beginning_of_an_id_or_name_is_no_container(box: MakeBox, update: Updater) -> None:
    """Podman itself would take it, and change a container nobody named."""
    container = box()
    before = container.everything
    for workload in (container.id[:12], container.name[:-1], "no-such-container"):
        result = update(workload, cpu_limit=1000)
        assert result.reason is Reason.UNKNOWN_WORKLOAD, workload
        assert result.container is None
    assert container.everything == before


def test_a_re_created_container_is_not_the_one_that_was_meant(
    box: MakeBox, update: Updater, private_podman: PrivatePodman
) -> None:
    old = box("box-again", cpus=0.5)
    assert update(old, cpu_limit=1000, runtime_id=old.id).success
    private_podman.command("rm", "--force", "--time", "0", old.name)
    new = box("box-again", cpus=0.5)
    before = new.everything
    result = update(new, cpu_limit=1500, runtime_id=old.id)
    assert result.reason is Reason.UNKNOWN_WORKLOAD
    assert "re-created" in result.message
    assert new.everything == before
    assert update(new, cpu_limit=1500, runtime_id=new.id).success


class TestPod:
    """Containers of a pod."""

    def test_its_infra_container_is_not_to_be_scaled(self, pod: Pod, update: Updater) -> None:
        result = update(pod.infra, cpu_limit=1000)
        assert result.reason is Reason.UNSUPPORTED
        assert "infra container" in result.message

    def test_more_than_the_pod_allows_names_the_pods_limit(self, pod: Pod, update: Updater) -> None:
        container = pod.member(cpus=0.5, memory_mib=64)
        pod.limit(container, cpu_millicores=1000, memory_mib=128)
        before = container.everything
        results = (update(container, cpu_limit=1500), update(container, memory_limit=256))
        for result, shown in zip(results, ("1000m", "128Mi"), strict=True):
            assert result.reason is Reason.PARENT_LIMIT
            assert shown in result.message
        assert (container.everything, update.disturbed.calls) == (before, [])
        assert update(container, cpu_limit=1000, memory_limit=128).success

    def test_the_pods_lower_limit_is_what_is_in_force(self, pod: Pod, update: Updater) -> None:
        container = pod.member(cpus=1.5, memory_mib=256)
        pod.limit(container, cpu_millicores=1500, memory_mib=128)
        enforced = update.runtime.read(update.runtime.resolve(container.name))
        assert (enforced.limits.memory_limit, container.memory) == (128, 256 * MIB)
