"""Any process may be killed at any moment of a scaling; started again, nothing is lost, doubled or left over.

Each component, the broker and Podman's service die at each phase; then the invariants of the protocol are
checked against the bus, the databases, and the kernel's own files.
"""

import itertools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from components.node_agent.podman.private import PrivatePodman
from tests.fixtures.broker import RunningBroker, running_broker
from tests.fixtures.podman import Box
from tests.system.fleet import COMPONENTS, NODE, Fleet
from tests.system.foreign import Body, ForeignClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PHASES = (
    "scaling/action",
    "resources/validate",
    "resources/validate/reply",
    "resources/desired",
    "resources/desired/reply",
    f"node/{NODE}/update",
    f"node/{NODE}/update/reply",
    "resources/actual",
    "resources/actual/reply",
)
VICTIMS = (*COMPONENTS, "broker", "podman")
REPEAT_S = 1.0
FINAL_WITHIN_S = 90.0
DOWN_FOR_S = 0.3


@dataclass
class Place:
    """All that runs, one container, and what was seen of it so far."""

    fleet: Fleet
    broker: RunningBroker
    podman: PrivatePodman
    client: ForeignClient
    container: Box
    generations: list[int] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def kill(self, victim: str) -> None:
        if victim == "broker":
            self.broker.kill()
        elif victim == "podman":
            self.podman.kill_service()
        else:
            self.fleet.kill(victim)

    def revive(self, victim: str) -> None:
        if victim == "broker":
            self.broker.start()
        elif victim == "podman":
            self.podman.start_service()
        else:
            self.fleet.start(victim)

    def final(self, action: Body) -> Body:
        """The action's end; its sender repeats it until then, as the protocol asks of senders."""
        end = time.monotonic() + FINAL_WITHIN_S
        while True:
            finals = self.finals(action["action_id"])
            if finals:
                return finals[0]
            assert time.monotonic() < end, f"no end of {action}\n{self.fleet.logs()}"
            self.client.say("scaling/action", action)
            time.sleep(REPEAT_S)

    def finals(self, action_id: str) -> list[Body]:
        return [
            body
            for body in self.client.heard("scaling/status")
            if body.get("action_id") == action_id and "outcome" in body
        ]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="ps-kill-"))
    sections = {
        "action_controller": {"retry_interval_s": 0.5, "deadline_ms": 3000},
        "resource_manager": {"lease_s": 10},
    }
    with running_broker() as broker, PrivatePodman(folder / "p") as podman:
        container = Box(podman, "victim", podman.run("victim", cpus=0.2, memory_mib=64))
        agent = {"podman_url": podman.url, "sync_interval_s": 2, "settle_s": 2, "call_timeout_s": 2}
        url = f"mqtt://{broker.host}:{broker.port}"
        with Fleet(folder, url, agent, sections) as fleet, ForeignClient(broker.port) as client:
            fleet.await_ready(client)
            client.state(NODE, "victim", lambda b: "actual" in b)
            yield Place(fleet, broker, podman, client, container)


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("phase", PHASES)
def test_killed_at_a_phase_and_started_again_all_agrees(place: Place, phase: str, victim: str) -> None:
    number = next(place.numbers)
    cpu = 250 + 50 * (number % 5)
    action: Body = {
        "action_id": f"kill-{number}",
        "node": NODE,
        "workload_id": "victim",
        "target": {"cpu_limit": cpu, "memory_limit": 64 + 8 * (number % 3)},
    }
    since = place.client.mark()
    place.client.say("scaling/action", action)
    place.client.await_message(phase, since=since, timeout_s=30)
    place.kill(victim)
    time.sleep(DOWN_FOR_S)
    place.revive(victim)
    final = place.final(action)
    state = place.fleet.await_rest(place.client, "victim")

    ends = {
        (end["outcome"], end.get("reason"), end.get("generation")) for end in place.finals(action["action_id"])
    }
    assert len(ends) == 1, f"one distinct end each: {ends}"
    desired = state["desired"]
    quota, period = place.container.quota_and_period
    assert quota * 1000 // period == desired["cpu_limit"], "the kernel shows what is desired"
    assert place.container.memory == desired["memory_limit"] * 1024 * 1024
    if final["outcome"] == "COMPLETED":
        assert desired["cpu_limit"] == cpu
    else:
        assert desired["cpu_limit"] != cpu or place.generations, final
    place.generations.append(state["generation"])
    assert place.generations == sorted(place.generations)
    capacity = place.client.heard(f"resources/capacity/{NODE}")[-1]
    assert capacity["allocated"]["cpu"] == desired["cpu_limit"], "nothing stays reserved"
    assert capacity["allocated"]["cpu"] + capacity["reserved"]["cpu"] <= capacity["total"]["cpu"]
