"""The broker away for a while, the network between node and broker cut, Podman's service frozen: all heals."""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.configuration import MosquittoConfiguration
from components.node_agent.podman.private import PrivatePodman
from tests.fixtures.broker import RunningBroker, free_port, running_broker
from tests.fixtures.podman import Box
from tests.requirements import require
from tests.system.fleet import COMPONENTS, NODE, Fleet
from tests.system.foreign import Body, ForeignClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OUTAGE_S = 6.0
NAMESPACE = f"ps-{os.getpid()}"
NODE_LINK, HOST_LINK = f"psn{os.getpid()}", f"psh{os.getpid()}"
NODE_ADDRESS, HOST_ADDRESS = "198.18.47.2", "198.18.47.1"
"""Of the range for benchmarks, which no network uses."""

_numbers = itertools.count()


@dataclass
class Place:
    """All that runs, and one container."""

    fleet: Fleet
    broker: RunningBroker
    podman: PrivatePodman
    client: ForeignClient
    container: Box

    def ask(self, cpu: int) -> Body:
        """An action that was asked for once."""
        action: Body = {
            "action_id": f"outage-{next(_numbers)}",
            "node": NODE,
            "workload_id": self.container.name,
            "target": {"cpu_limit": cpu},
        }
        self.client.say("scaling/action", action)
        return action

    def final(self, action: Body, *, within_s: float = 120.0) -> Body:
        """Its end; it is repeated until then."""
        end = time.monotonic() + within_s
        while True:
            for body in self.client.heard("scaling/status"):
                if body.get("action_id") == action["action_id"] and "outcome" in body:
                    return body
            assert time.monotonic() < end, f"no end of {action}\n{self.fleet.logs()}"
            self.client.say("scaling/action", action)
            time.sleep(1)

    def agrees(self) -> Body:
        """At rest desired, actual and the kernel are one."""
        state = self.fleet.await_rest(self.client, self.container.name)
        quota, period = self.container.quota_and_period
        assert quota * 1000 // period == state["desired"]["cpu_limit"], state
        return state


@contextmanager
def place(
    broker: RunningBroker, *, prefix: tuple[str, ...] = (), agent_url: str | None = None, host: str = "127.0.0.1"
) -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="ps-out-"))
    sections = {
        "action_controller": {"retry_interval_s": 0.5, "deadline_ms": 2000},
        "resource_manager": {"lease_s": 10},
    }
    with PrivatePodman(folder / "p") as podman:
        container = Box(podman, "victim", podman.run("victim", cpus=0.2, memory_mib=64))
        agent = {"podman_url": podman.url, "sync_interval_s": 2, "settle_s": 2, "call_timeout_s": 2}
        url = f"mqtt://{host}:{broker.port}"
        fleet = Fleet(folder, url, agent, sections, agent_prefix=prefix, agent_url=agent_url)
        with fleet, ForeignClient(broker.port, host=host) as client:
            fleet.await_ready(client)
            client.state(NODE, "victim", lambda b: "actual" in b)
            yield Place(fleet, broker, podman, client, container)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def bench() -> Iterator[Place]:
    with running_broker() as broker, place(broker) as found:
        yield found


def test_with_the_broker_away_for_a_while_an_action_asked_before_still_ends(bench: Place) -> None:
    action = bench.ask(300)
    bench.broker.kill()
    time.sleep(OUTAGE_S)
    bench.broker.start()
    assert bench.final(action)["outcome"] == "COMPLETED"
    assert bench.agrees()["desired"]["cpu_limit"] == 300


def test_a_broker_that_lost_everything_is_told_all_retained_state_again(bench: Place) -> None:
    bench.final(bench.ask(350))
    bench.broker.kill()
    for file in bench.broker.directory.rglob("*.db"):
        file.unlink()
    bench.broker.start()
    with ForeignClient(bench.broker.port) as newcomer:
        state = newcomer.state(NODE, "victim", lambda b: b["sync_state"] == "SYNCHRONIZED")
        assert state["desired"]["cpu_limit"] == 350
        for topic in (f"resources/capacity/{NODE}", f"node/{NODE}/actual", f"node/{NODE}/info"):
            newcomer.await_message(topic)
    assert bench.final(bench.ask(300))["outcome"] == "COMPLETED"
    bench.agrees()


ORDERS = {
    "in the order of the chain": ("monitoring_server", "policy_manager", *COMPONENTS[:2], "node_agent"),
    "the agent first": ("node_agent", *COMPONENTS[:-1]),
    "ResourceManager last": ("node_agent", "monitoring_server", "policy_manager", *COMPONENTS[1::-1]),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_whatever_is_started_first_drift_from_before_is_mended(bench: Place, order: tuple[str, ...]) -> None:
    desired = bench.final(bench.ask(300))["desired"]
    bench.agrees()
    for component in COMPONENTS:
        bench.fleet.kill(component)
    (bench.container.directory("cpu") / "cpu.cfs_quota_us").write_text("44000", encoding="utf-8")
    since = bench.client.mark()
    for component in order:
        bench.fleet.start(component)
        time.sleep(0.7)
    found = bench.client.await_message("resources/reconcile", since=since, timeout_s=30)
    assert found["desired"] == desired
    bench.client.state(NODE, "victim", lambda b: b["sync_state"] == "SYNCHRONIZED", since=since)
    assert bench.agrees()["desired"] == desired


@pytest.mark.parametrize(
    "frozen_s", [1.0, 12.0], ids=["shorter than a call may take", "until all attempts failed"]
)
def test_with_podmans_service_frozen_nothing_is_believed_that_is_not_so(bench: Place, frozen_s: float) -> None:
    before = bench.agrees()["desired"]["cpu_limit"]
    wanted = 600 - before
    os.kill(bench.podman.service_pid, signal.SIGSTOP)
    try:
        action = bench.ask(wanted)
        time.sleep(frozen_s)
    finally:
        os.kill(bench.podman.service_pid, signal.SIGCONT)
    final = bench.final(action)
    state = bench.agrees()
    assert state["desired"]["cpu_limit"] == (wanted if final["outcome"] == "COMPLETED" else before), final
    if final["outcome"] != "COMPLETED":
        assert final["reason"] in ("RUNTIME_TIMEOUT", "QUERY_FAILED", "RUNTIME_ERROR", "NODE_UNAVAILABLE"), final
    time.sleep(3)
    bench.agrees()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


@pytest.fixture
def network() -> Iterator[None]:
    """A network namespace of our own for the node, and a link from it to here."""
    require(os.geteuid() == 0 and shutil.which("ip") is not None, "root and iproute2 (apt-get install iproute2)")
    ip("netns", "add", NAMESPACE)
    try:
        ip("link", "add", HOST_LINK, "type", "veth", "peer", "name", NODE_LINK)
        ip("link", "set", NODE_LINK, "netns", NAMESPACE)
        ip("addr", "add", f"{HOST_ADDRESS}/30", "dev", HOST_LINK)
        ip("link", "set", HOST_LINK, "up")
        for words in (("addr", "add", f"{NODE_ADDRESS}/30", "dev", NODE_LINK), ("link", "set", NODE_LINK, "up")):
            ip("-n", NAMESPACE, *words)
        yield
    finally:
        ip("netns", "delete", NAMESPACE)


def test_a_node_cut_off_is_told_unavailable_and_heals_when_the_network_is_back(
    network: None,
) -> None:
    port = free_port()
    listener = (f"listener {port} {HOST_ADDRESS}", "allow_anonymous true")
    # Not `ip netns exec`, which mounts /sys anew, without the cgroups.
    prefix = ("nsenter", f"--net=/run/netns/{NAMESPACE}")
    url = f"mqtt://{HOST_ADDRESS}:{port}"
    with (
        running_broker(MosquittoConfiguration(extra=listener)) as broker,
        place(broker, prefix=prefix, agent_url=url) as bench,
    ):
        assert bench.final(bench.ask(300))["outcome"] == "COMPLETED"
        ip("link", "set", HOST_LINK, "down")
        final = bench.final(bench.ask(350))
        assert final["outcome"] in ("FAILED", "REJECTED"), final
        assert final["reason"] == "NODE_UNAVAILABLE", final
        bench.client.state(NODE, "victim", lambda b: b["sync_state"] == "FAILED")
        ip("link", "set", HOST_LINK, "up")
        assert bench.agrees()["desired"]["cpu_limit"] == 300
        assert bench.final(bench.ask(350))["outcome"] == "COMPLETED"
        bench.agrees()
