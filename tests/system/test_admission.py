"""Room is never given twice, whoever asks at the same moment."""

import pytest

from tests.fixtures.podman import MakeBox
from tests.system.bench import NODE, Bench

RACES = (pytest.param(40), pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(400)]))
STEP = 200
"""What each of the two asks for more, millicores."""


@pytest.mark.parametrize("races", RACES)
def test_two_requests_at_once_for_the_last_room_exactly_one_is_granted(
    races: int, bench: Bench, box: MakeBox
) -> None:
    first, second = (box(cpus=0.2, memory_mib=32) for _ in range(2))
    for container in (first, second):
        bench.client.state(NODE, container.name, lambda b: "actual" in b)
    free = bench.free_cpu()
    since = bench.client.mark()
    filler = box(cpus=(free - STEP) / 1000, memory_mib=32)
    bench.client.await_message(f"resources/capacity/{NODE}", lambda b: b["available"]["cpu"] == STEP, since=since)
    for race in range(races):
        asked = [bench.client.scale(NODE, c.name, target={"cpu_limit": 200 + STEP}) for c in (first, second)]
        outcomes = [bench.client.final(action) for action in asked]
        granted = [final for final in outcomes if final["outcome"] == "COMPLETED"]
        refused = [final for final in outcomes if final["outcome"] == "REJECTED"]
        assert (len(granted), len(refused)) == (1, 1), (race, outcomes)
        assert refused[0]["reason"] == "INSUFFICIENT_CPU"
        assert sum(c.quota_and_period[0] for c in (first, second)) == (400 + STEP) * 100
        back = bench.client.scale(NODE, granted[0]["workload_id"], target={"cpu_limit": 200})
        assert bench.client.final(back)["outcome"] == "COMPLETED"
    assert filler.quota_and_period[0] == (free - STEP) * 100


def test_a_shortage_is_told_with_its_numbers(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=32)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    since = bench.client.mark()
    box(cpus=0.3, memory_mib=32)
    bench.client.await_message(f"resources/capacity/{NODE}", lambda b: b["allocated"]["cpu"] >= 500, since=since)
    capacity = bench.client.heard(f"resources/capacity/{NODE}")[-1]
    most = capacity["total"]["cpu"] - capacity["reserved"]["cpu"]
    final = bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": most}))
    assert (final["outcome"], final["reason"]) == ("REJECTED", "INSUFFICIENT_CPU")
    now = bench.client.heard(f"resources/capacity/{NODE}")[-1]
    assert final["message"] == (
        f"needs {most - 200}m more CPU, node {NODE} has {now['available']['cpu']}m available: "
        f"total {now['total']['cpu']}m − allocated {now['allocated']['cpu']}m − reserved {now['reserved']['cpu']}m"
    )


def test_an_action_that_waits_is_served_when_room_comes(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=32)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    free = bench.free_cpu()
    since = bench.client.mark()
    filler = box(cpus=(free - 100) / 1000, memory_mib=32)
    bench.client.await_message(f"resources/capacity/{NODE}", lambda b: b["available"]["cpu"] == 100, since=since)
    action = bench.client.scale(NODE, container.name, target={"cpu_limit": 400}, on_shortage="wait", wait_s=30)
    waiting = bench.client.await_message(
        "scaling/status", lambda b: b["action_id"] == action and b["phase"] == "waiting"
    )
    assert (waiting["state"], waiting["reason"]) == ("PENDING", "INSUFFICIENT_CPU")
    bench.client.final(bench.client.scale(NODE, filler.name, target={"cpu_limit": 100}))
    assert bench.client.final(action)["outcome"] == "COMPLETED"
    assert container.quota_and_period[0] == 40_000
