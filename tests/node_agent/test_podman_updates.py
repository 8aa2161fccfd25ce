"""Limits of real containers are changed in the kernel, and what the kernel shows is what is told."""

import os
import signal
import threading
from pathlib import Path

import pytest

from components.node_agent.podman.private import PrivatePodman
from components.node_agent.runtime import NotRunningError, RuntimeRefusedError
from schemas.enums import Reason
from schemas.limits import Limits
from tests.fixtures.podman import Box, MakeBox
from tests.node_agent.pods import Pod
from tests.node_agent.updater import Updater, wait_for

MIB = 1024 * 1024


def test_cpu_and_memory_change_in_one_call_without_a_restart(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5, memory_mib=64)
    pid = container.pid
    result = update(container, cpu_limit=1500, memory_limit=256)
    assert result.success, result.message
    assert (container.quota_and_period, container.memory) == ((150_000, 100_000), 256 * MIB)
    assert container.pid == pid
    assert len(update.disturbed.calls) == 1
    assert result.actual is not None
    assert (result.actual.cpu_limit, result.actual.memory_limit) == (1500, 256)


def test_shares_change_alone(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5, memory_mib=64)
    before = container.everything
    assert update(container, cpu_shares=512).success
    changed = {file for file, value in container.everything.items() if before[file] != value}
    assert changed in ({"cpu.shares"}, {"cpu.weight"})


def test_the_cpu_list_changes_alone(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5, memory_mib=64)
    before = container.everything
    assert update(container, cpuset_cpus="0").success
    assert container.everything == {**before, "cpuset.cpus": "0\n"}


def test_the_same_values_again_are_a_success_without_a_call(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5, memory_mib=64)
    result = update(container, cpu_limit=500, memory_limit=64)
    assert result.success
    assert not result.wrote
    assert update.disturbed.calls == []


def test_only_what_differs_is_written(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5, memory_mib=64)
    assert update(container, cpu_limit=1000, memory_limit=64).success
    assert update.disturbed.calls == [Limits(cpu_limit=1000)]


def test_a_containers_own_period_is_kept(box: MakeBox, update: Updater) -> None:
    container = box(options=["--cpu-period", "50000", "--cpu-quota", "25000"])
    assert update(container, cpu_limit=1500).success
    assert container.quota_and_period == (75_000, 50_000)


def test_the_swap_allowance_is_kept_when_memory_rises_and_falls(box: MakeBox, update: Updater) -> None:
    """With the limit alone Podman refuses to go above the old memory+swap."""
    container = box(memory_mib=64, options=["--memory-swap", "96m"])
    for mib in (256, 48):
        result = update(container, memory_limit=mib)
        assert result.success, result.message
        assert (container.memory, container.memory_and_swap) == (mib * MIB, (mib + 32) * MIB)


def test_an_unlimited_container_gets_its_first_limits(box: MakeBox, update: Updater) -> None:
    container = box()
    unlimited = update.runtime.read(update.runtime.resolve(container.name)).limits
    assert (unlimited.cpu_limit, unlimited.memory_limit) == (None, None)
    assert update(container, cpu_limit=700, memory_limit=128).success
    assert (container.quota_and_period, container.memory) == ((70_000, 100_000), 128 * MIB)


def test_all_the_host_has_stands_for_unlimited(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5, memory_mib=64)
    total = update.runtime.host().total
    assert update(container, cpu_limit=total.cpu, memory_limit=total.memory).success
    assert container.quota_and_period == (total.cpu * 100, 100_000)


def test_a_paused_container_is_changed_and_stays_paused(
    box: MakeBox, update: Updater, private_podman: PrivatePodman
) -> None:
    container = box(cpus=0.5, memory_mib=64)
    private_podman.command("pause", container.name)
    result = update(container, cpu_limit=1000, memory_limit=128)
    assert result.success, result.message
    assert container.quota_and_period == (100_000, 100_000)
    assert private_podman.command("inspect", "--format", "{{.State.Status}}", container.name) == "paused"
    private_podman.command("unpause", container.name)


def test_a_full_id_names_a_container_as_well(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5)
    result = update(container.id, cpu_limit=1000)
    assert result.success
    assert result.container is not None
    assert result.container.name == container.name


def test_a_limit_changed_behind_our_back_survives_the_change_of_another(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5, memory_mib=128)
    container.write_memory(100 * MIB)
    assert update(container, cpu_limit=1000).success
    assert container.memory == 100 * MIB


def test_when_one_falls_and_the_other_rises_the_fall_comes_first(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5, memory_mib=256)
    assert update(container, cpu_limit=1000, memory_limit=128).success
    assert update.disturbed.calls == [Limits(memory_limit=128), Limits(cpu_limit=1000)]
    update.disturbed.calls.clear()
    assert update(container, cpu_limit=500, memory_limit=256).success
    assert update.disturbed.calls == [Limits(cpu_limit=500), Limits(memory_limit=256)]


def test_after_a_fall_that_failed_nothing_is_raised(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5, memory_mib=256, options=["--shm-size", "200m"])
    fill = Path(f"/proc/{container.pid}/root/dev/shm/held")
    before = container.quota_and_period

    def hold() -> None:
        """Take memory after the check: with our own hands, but charged to the container's mount."""
        container.podman.command(
            "exec", container.name, "/bin/busybox", "dd", "if=/dev/zero", "of=/dev/shm/held", "bs=1M", "count=150"
        )

    update.disturbed.before = hold
    result = update(container, cpu_limit=1000, memory_limit=100)
    assert fill.exists()
    assert result.reason is Reason.RUNTIME_ERROR
    assert len(update.disturbed.calls) == 1
    assert (container.quota_and_period, container.memory) == (before, 256 * MIB)


def test_memory_applied_but_cpu_refused_is_told_as_partial(pod: Pod, update: Updater) -> None:
    """The pod's limit appears between our check and the kernel's."""
    container = pod.member(cpus=0.5, memory_mib=64)
    update.disturbed.before = lambda: container.write_cpu(80_000, above=1)
    result = update(container, cpu_limit=1500, memory_limit=128)
    assert (result.success, result.partial, result.reason) == (False, True, Reason.PARTIAL)
    assert (container.quota_and_period, container.memory) == ((50_000, 100_000), 128 * MIB)
    assert result.actual is not None
    assert (result.actual.cpu_limit, result.actual.memory_limit) == (500, 128)
    assert "cpu_limit 1500m was asked, 500m is in force" in result.message
    container.podman.command("restart", "--time", "0", container.name)
    assert container.quota_and_period == (50_000, 100_000), "what was refused does not come with the next start"


def test_success_said_but_not_in_force_is_no_success(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5)
    update.disturbed.after = lambda: container.write_cpu(50_000)
    result = update(container, cpu_limit=1000)
    assert result.reason is Reason.VERIFY_FAILED
    assert "cpu_limit 1000m was asked, 500m is in force" in result.message


def test_a_failure_said_but_all_in_force_is_a_success(box: MakeBox, update: Updater) -> None:
    """Some versions fail after they did what was asked."""
    container = box(cpus=0.5)

    def fail() -> None:
        raise RuntimeRefusedError("exit status 1")

    update.disturbed.after = fail
    result = update(container, cpu_limit=1000)
    assert result.success
    assert result.message.endswith("although: exit status 1")
    assert container.quota_and_period == (100_000, 100_000)


def test_a_container_removed_meanwhile_is_unknown(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5)
    update.disturbed.before = lambda: container.podman.command("rm", "--force", "--time", "0", container.name)
    result = update(container, cpu_limit=1000)
    assert result.reason is Reason.UNKNOWN_WORKLOAD
    assert result.actual is None


def test_a_restart_meanwhile_is_read_back_from_the_new_run(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5)
    update.disturbed.after = lambda: container.podman.command("restart", "--time", "0", container.name)
    result = update(container, cpu_limit=1000)
    assert result.actual is not None
    assert result.actual.cpu_limit == container.quota_and_period[0] // 100


def test_after_a_restart_the_adapter_finds_the_new_process(box: MakeBox, update: Updater) -> None:
    container = box(cpus=0.5)
    old = update.runtime.resolve(container.name)
    container.podman.command("restart", "--time", "0", container.name)
    new = update.runtime.resolve(container.name)
    assert (new.id, new.pid) == (container.id, container.pid)
    assert new.started_at > old.started_at
    with pytest.raises(NotRunningError):
        update.runtime.read(old)


class TestServiceInTrouble:
    """Podman's service hangs, dies, or is not there."""

    def test_a_service_that_is_not_there_is_named_and_nothing_is_pending(self, own_podman: PrivatePodman) -> None:
        update = Updater(own_podman.url)
        container = Box(own_podman, "c", own_podman.run("c", cpus=0.5))
        assert update(container, cpu_limit=600).success
        own_podman.stop_service()
        result = update(container, cpu_limit=1000)
        assert (result.reason, result.broken) == (Reason.RUNTIME_ERROR, False)
        assert "systemctl start podman.socket" in result.message
        assert update.intents.pending() == []
        assert container.quota_and_period == (60_000, 100_000)
        own_podman.start_service()
        again = update(container, cpu_limit=1000)
        assert again.success, f"{again.message}\n{own_podman.service_log()}"
        update.runtime.close()

    def test_a_service_that_hangs_leaves_the_outcome_open_and_it_may_come_late(
        self, own_podman: PrivatePodman
    ) -> None:
        update = Updater(own_podman.url, timeout_s=0.5)
        container = Box(own_podman, "c", own_podman.run("c", cpus=0.5))
        assert update(container, cpu_limit=600).success
        os.kill(own_podman.service_pid, signal.SIGSTOP)
        result = update(container, cpu_limit=1000)
        assert (result.reason, result.broken) == (Reason.RUNTIME_TIMEOUT, True)
        assert "no answer within 0.5 s" in result.message
        assert update.intents.pending() == [container.id]
        os.kill(own_podman.service_pid, signal.SIGCONT)
        wait_for(lambda: container.quota_and_period == (100_000, 100_000), "the late update comes into force")
        update.runtime.close()

    def test_a_service_that_dies_in_the_call_leaves_the_outcome_open(self, own_podman: PrivatePodman) -> None:
        update = Updater(own_podman.url)
        container = Box(own_podman, "c", own_podman.run("c", cpus=0.5))
        assert update(container, cpu_limit=600).success
        os.kill(own_podman.service_pid, signal.SIGSTOP)
        threading.Timer(0.3, os.kill, (own_podman.service_pid, signal.SIGKILL)).start()
        result = update(container, cpu_limit=1000)
        assert (result.reason, result.broken) == (Reason.RUNTIME_TIMEOUT, True)
        assert "connection to Podman broke" in result.message
        assert container.quota_and_period == (60_000, 100_000)
        update.runtime.close()
