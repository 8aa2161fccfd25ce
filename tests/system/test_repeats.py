"""A message that comes again, any of them, changes nothing."""

import time

from tests.fixtures.podman import MakeBox
from tests.system.bench import NODE, Bench

CHAIN = (
    "scaling/action",
    "resources/validate",
    "resources/validate/reply",
    "resources/desired",
    "resources/desired/reply",
    f"node/{NODE}/update",
    f"node/{NODE}/update/reply",
    "resources/actual",
    "resources/actual/reply",
    "scaling/status",
    f"node/{NODE}/actual",
    f"node/{NODE}/info",
)


def test_every_message_of_a_scaling_said_again_changes_nothing(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    since = bench.client.mark()
    action = bench.client.scale(NODE, container.name, target={"cpu_limit": 400, "memory_limit": 96})
    final = bench.client.final(action)
    state = bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED", since=since)
    kernel = container.everything
    said = {topic: bench.client.payloads(topic, since) for topic in CHAIN}
    for topic in CHAIN[:10]:
        assert said[topic], f"nothing was said on {topic}"
    again = bench.client.mark()
    for _ in range(3):
        for topic, payloads in said.items():
            for payload in payloads:
                bench.client.say(topic, payload)
    time.sleep(2)
    finals = [s for s in bench.client.heard("scaling/status") if s.get("action_id") == action and "outcome" in s]
    assert {(s["outcome"], s.get("reason"), s["generation"]) for s in finals} == {
        ("COMPLETED", None, final["generation"])
    }
    assert container.everything == kernel
    states = bench.client.heard(f"resources/state/{NODE}/{container.name}")
    assert states[-1]["generation"] == state["generation"]
    assert {s["sync_state"] for s in bench.client.heard(f"resources/state/{NODE}/{container.name}", again)} <= {
        "SYNCHRONIZED"
    }
    other = bench.client.scale(NODE, container.name, target={"cpu_limit": 300})
    assert bench.client.final(other)["outcome"] == "COMPLETED"
