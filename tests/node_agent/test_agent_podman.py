"""The whole agent on a real Podman: it sees what happens to containers, and survives what happens to Podman."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.node_agent.podman.private import PrivatePodman
from schemas.enums import Reason, SnapshotTrigger
from schemas.metrics import ContainerMetrics, NodeMetrics
from schemas.node import NodeInfo, NodeSnapshot, UpdateReply
from tests.fixtures.podman import Box, MakeBox
from tests.node_agent.live import LiveAgent
from tests.node_agent.updater import wait_for


@pytest.fixture
def live(private_podman: PrivatePodman, tmp_path: Path) -> Iterator[LiveAgent]:
    agent = LiveAgent(private_podman.url, tmp_path)
    yield agent
    agent.stop()


def test_it_tells_what_the_node_is(live: LiveAgent, private_podman: PrivatePodman) -> None:
    info = live.wait(NodeInfo)
    assert info.podman_version == private_podman.command("version", "--format", "{{.Client.Version}}")
    assert info.total.cpu == (os.cpu_count() or 0) * 1000
    assert not info.simulated
    assert all(info.capabilities[limit].supported for limit in ("cpu_limit", "memory_limit"))


def test_a_container_is_seen_from_its_start_to_its_end(
    live: LiveAgent, box: MakeBox, private_podman: PrivatePodman
) -> None:
    assert live.wait(NodeSnapshot).trigger is SnapshotTrigger.START
    container = box(
        "box-life", cpus=0.5, memory_mib=64, labels={"io.pullpiri.annotations.model": "m", "other": "x"}
    )
    seen = live.wait_for_report(container.name, lambda report: report.running)
    report = next(report for report in seen.containers if report.workload_id == container.name)
    assert seen.trigger is SnapshotTrigger.CONTAINER
    assert (report.runtime_id, report.labels) == (container.id, {"io.pullpiri.annotations.model": "m"})
    assert report.actual is not None
    assert (report.actual.cpu_limit, report.actual.memory_limit) == (500, 64)

    private_podman.command("restart", "--time", "0", container.name)
    again = live.wait_for_report(container.name, lambda r: r.running and r.started_at > report.started_at)
    assert again.trigger is SnapshotTrigger.CONTAINER

    private_podman.command("stop", "--time", "0", container.name)
    live.wait_for_report(container.name, lambda r: not r.running and r.actual is None)
    private_podman.command("rm", container.name)
    live.wait(NodeSnapshot, lambda s: container.name not in [report.workload_id for report in s.containers])


def test_a_container_whose_name_fits_no_topic_is_seen_and_scaled_by_its_id(live: LiveAgent, box: MakeBox) -> None:
    """Podman allows names of any length. Left out, it would not be counted as allocated."""
    container = box("box-" + "long-" * 30, cpus=0.5, memory_mib=64)
    report = next(
        report
        for report in live.wait_for_report(container.id, lambda report: report.running).containers
        if report.workload_id == container.id
    )
    assert report.actual is not None
    assert (report.actual.cpu_limit, report.actual.memory_limit) == (500, 64)
    reply = live.update(workload_id=container.id, cpu_limit=700)
    assert (reply.success, reply.workload_id) == (True, container.id)
    assert container.quota_and_period[0] == 70_000


def test_limits_lost_by_a_restart_are_seen(live: LiveAgent, box: MakeBox, private_podman: PrivatePodman) -> None:
    """Podman before 5.1 reverts to what the container was created with."""
    container = box(cpus=0.5)
    assert live.update(workload_id=container.name, cpu_limit=1000).success
    private_podman.command("restart", "--time", "0", container.name)
    in_force = container.quota_and_period[0] // 100
    live.wait_for_report(
        container.name, lambda report: report.actual is not None and report.actual.cpu_limit == in_force
    )


def test_an_update_is_answered_and_then_a_snapshot_follows(live: LiveAgent, box: MakeBox) -> None:
    container = box(cpus=0.5, memory_mib=64)
    reply = live.update(workload_id=container.name, cpu_limit=1000, memory_limit=128)
    assert reply.success, reply.message
    assert (container.quota_and_period, container.memory) == ((100_000, 100_000), 128 * 1024 * 1024)
    snapshot = live.wait_for_report(
        container.name, lambda report: report.actual is not None and report.actual.cpu_limit == 1000
    )
    assert snapshot.seq > reply.seq


def test_metrics_tell_use_and_limits(live: LiveAgent, box: MakeBox) -> None:
    container = box(None, "sh", "-c", "while true; do true; done", cpus=0.5, memory_mib=64)

    def busy(metrics: ContainerMetrics) -> bool:
        uses = [use for use in metrics.containers if use.workload_id == container.name]
        return bool(uses) and 50 < uses[0].usage.cpu < 700 and uses[0].limits.cpu_limit == 500

    live.wait(ContainerMetrics, busy)
    assert live.wait(NodeMetrics).cpu_count == os.cpu_count()


def test_many_updates_of_many_containers_at_once(live: LiveAgent, box: MakeBox) -> None:
    containers = [box(cpus=0.5) for _ in range(4)]
    wanted = {}
    for generation in range(1, 6):
        for number, container in enumerate(containers):
            limit = 500 + 100 * generation + 10 * number
            request_id = live.send(
                workload_id=container.name, cpu_limit=limit, generation=generation, action_id=f"a{generation}"
            )
            wanted[request_id] = container
    replies = [live.wait(UpdateReply) for _ in wanted]
    assert {reply.in_reply_to for reply in replies} == set(wanted)
    assert {reply.reason for reply in replies} <= {None, Reason.SUPERSEDED}
    for number, container in enumerate(containers):
        assert container.quota_and_period[0] == (1000 + 10 * number) * 100


class TestPodmanInTrouble:
    """Its service dies, hangs, or is not there at first."""

    def test_it_starts_before_podman_does(self, own_podman: PrivatePodman, tmp_path: Path) -> None:
        own_podman.run("early", cpus=0.5)
        own_podman.stop_service()
        live = LiveAgent(own_podman.url, tmp_path)
        wait_for(lambda: "systemctl start podman.socket" in (live.shell.problem or ""), "it says what is wrong")
        reply = live.update(workload_id="early", cpu_limit=1000)
        assert reply.reason is Reason.RUNTIME_ERROR
        own_podman.start_service()
        assert live.wait_for_report("early", lambda report: report.running).trigger is SnapshotTrigger.START
        wait_for(lambda: len(live.heard(NodeInfo)) == 1, "it tells what the node is")
        wait_for(lambda: live.shell.problem is None, "all is well")
        assert live.update(workload_id="early", cpu_limit=1000).success
        live.stop()

    def test_while_podman_hangs_others_are_read_and_the_container_is_busy_until_it_settled(
        self, own_podman: PrivatePodman, tmp_path: Path
    ) -> None:
        container = Box(own_podman, "hung", own_podman.run("hung", cpus=0.5))
        own_podman.run("other", cpus=0.5)
        live = LiveAgent(own_podman.url, tmp_path, call_timeout_s=0.5, settle_s=2.0)
        live.wait_for_report("other", lambda report: report.running)
        assert live.update(workload_id="hung", cpu_limit=600).success
        os.kill(own_podman.service_pid, signal.SIGSTOP)
        assert live.update(workload_id="hung", cpu_limit=1000).reason is Reason.RUNTIME_TIMEOUT
        busy = live.wait_for_report("hung", lambda report: report.busy)
        assert [report.busy for report in busy.containers if report.workload_id == "other"] == [False]
        live.wait(ContainerMetrics, lambda metrics: len(metrics.containers) == 2)
        live.wait(NodeSnapshot, lambda snapshot: snapshot.truncated)  # settled, but Podman does not tell what runs
        os.kill(own_podman.service_pid, signal.SIGCONT)
        live.wait_for_report("hung", lambda r: not r.busy and r.actual is not None and r.actual.cpu_limit == 1000)
        assert container.quota_and_period == (100_000, 100_000)
        assert live.update(workload_id="hung", cpu_limit=700).success
        live.stop()

    def test_what_started_while_podman_was_away_is_seen_when_it_is_back(
        self, own_podman: PrivatePodman, tmp_path: Path
    ) -> None:
        live = LiveAgent(own_podman.url, tmp_path)
        live.wait(NodeSnapshot)
        own_podman.stop_service()
        own_podman.run("meanwhile", cpus=0.5)
        own_podman.start_service()
        live.wait_for_report("meanwhile", lambda report: report.running)
        live.stop()


def test_a_restarted_agent_has_a_larger_boot_id(private_podman: PrivatePodman, tmp_path: Path) -> None:
    boots = []
    for _ in range(2):
        live = LiveAgent(private_podman.url, tmp_path)
        boots.append(live.wait(NodeSnapshot).boot_id)
        live.stop()
    assert boots[0] < boots[1]
