"""A foreign client asks for a scaling of its own, and sees it in the container's cgroup."""

import json
import uuid

import pytest

from tests.fixtures.podman import MakeBox
from tests.system.bench import NODE, Bench, states_of
from tests.system.foreign import read

FORMATS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize(("mqtt5", "packed"), FORMATS, ids=["3.1.1 json", "3.1.1 msgpack", "5 json", "5 msgpack"])
def test_any_client_in_either_format_can_scale(bench: Bench, box: MakeBox, mqtt5: bool, packed: bool) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    with bench.another_client(mqtt5=mqtt5, packed=packed) as client:
        action = client.scale(NODE, container.name, target={"cpu_limit": 400, "memory_limit": 128})
        final = client.final(action)
    assert final["state"] == "SUCCEEDED", final
    assert final["outcome"] == "COMPLETED"
    assert container.quota_and_period == (40_000, 100_000)
    assert container.memory == 128 * 1024 * 1024


def test_what_a_person_writes_into_mqtt_explorer_scales(bench: Bench, box: MakeBox) -> None:
    """It speaks MQTT 3.1.1, so without properties, sends with QoS 0 unless told otherwise, and indents JSON."""
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    action = f"by-hand-{uuid.uuid4().hex[:8]}"
    written = {"action_id": action, "node": NODE, "workload_id": container.name, "target": {"cpu_limit": 350}}
    with bench.another_client() as explorer:
        explorer.say("scaling/action", json.dumps(written, indent=2).encode() + b"\n", qos=0)
        assert explorer.final(action)["outcome"] == "COMPLETED"
        shown = explorer.await_message(
            "debug/scaling/status", lambda b: b["action_id"] == action and "outcome" in b
        )
    assert shown["outcome"] == "COMPLETED"
    assert container.quota_and_period[0] == 35_000


@pytest.mark.parametrize(
    ("target", "quota", "memory_mib"),
    [({"cpu_limit": 300}, 30_000, 64), ({"memory_limit": 100}, 20_000, 100)],
    ids=["CPU only", "memory only"],
)
def test_one_resource_alone_leaves_the_other_as_it_is(
    bench: Bench, box: MakeBox, target: dict[str, int], quota: int, memory_mib: int
) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    final = bench.client.final(bench.client.scale(NODE, container.name, target=target))
    assert final["outcome"] == "COMPLETED", final
    assert container.quota_and_period[0] == quota
    assert container.memory == memory_mib * 1024 * 1024


def test_the_state_goes_from_pending_over_applying_to_synchronized(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": 300}))
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED")
    states = states_of(bench.client, container.name)
    seen = [state for number, state in enumerate(states) if number == 0 or states[number - 1] != state]
    assert seen == ["UNKNOWN", "PENDING", "APPLYING", "SYNCHRONIZED"]


def test_a_json_action_is_answered_in_json_and_a_packed_one_packed(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    for packed in (False, True):
        with bench.another_client(packed=packed) as client:
            action = client.scale(NODE, container.name, target={"cpu_limit": 300 + packed * 100})
            client.final(action)
            mine = [p for p in client.payloads("scaling/status") if read(p)["action_id"] == action]
            assert mine
            assert all((p[:1] == b"{") is not packed for p in mine)


def test_the_full_container_id_works_as_the_name_does(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    final = bench.client.final(bench.client.scale(NODE, container.id, target={"cpu_limit": 250}))
    assert final["outcome"] == "COMPLETED", final
    assert final["workload_id"] == container.name


def test_a_dry_run_says_what_would_happen_and_does_nothing(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    before = container.everything
    yes = bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": 300}, dry_run=True))
    no = bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": 99_000}, dry_run=True))
    assert (yes["outcome"], yes["dry_run"]) == ("COMPLETED", True)
    assert (no["outcome"], no["reason"]) == ("REJECTED", "INFEASIBLE")
    assert container.everything == before
    assert "desired" not in bench.client.heard(f"resources/state/{NODE}/{container.name}")[-1]


def test_an_agent_answers_what_is_in_force(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.say(f"node/{NODE}/status/get", {"id": "q-1", "workload_id": container.name})
    reply = bench.client.await_message(f"node/{NODE}/status/reply", lambda b: b["in_reply_to"] == "q-1")
    assert reply["success"], reply
    assert reply["status"] == {"cpu_limit": 200, "memory_limit": 64, "runtime_id": container.id}


def test_an_update_sent_to_the_agent_by_hand_is_done_and_for_a_managed_container_drift(
    bench: Bench, box: MakeBox
) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    bench.client.final(bench.client.scale(NODE, container.name, target={"cpu_limit": 300}))
    since = bench.client.mark()
    bench.client.say(f"node/{NODE}/update", {"id": "hand-1", "workload_id": container.name, "cpu_limit": 350})
    reply = bench.client.await_message(f"node/{NODE}/update/reply", lambda b: b["in_reply_to"] == "hand-1")
    assert reply["success"], reply
    assert reply["status"]["actual_cpu_limit"] == 350
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "DRIFT_DETECTED", since=since)
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED", since=since)
    assert container.quota_and_period[0] == 30_000


def test_shares_and_cpus_are_scaled_compared_and_defended_like_limits(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.2, memory_mib=64)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    target = {"cpu_shares": 512, "cpuset_cpus": "0"}
    final = bench.client.final(bench.client.scale(NODE, container.name, target=target))
    assert final["outcome"] == "COMPLETED", final
    assert container.value("cpu", "cpu.shares") == "512"
    assert container.value("cpuset", "cpuset.cpus") == "0"
    assert container.quota_and_period[0] == 20_000, "what was not asked for stays"
    since = bench.client.mark()
    (container.directory("cpu") / "cpu.shares").write_text("2048", encoding="utf-8")
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "DRIFT_DETECTED", since=since)
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED", since=since)
    assert container.value("cpu", "cpu.shares") == "512"


def test_lowering_needs_no_room_and_stops_above_what_is_in_use(bench: Bench, box: MakeBox) -> None:
    container = box(cpus=0.4, memory_mib=128)
    bench.client.state(NODE, container.name, lambda b: "actual" in b)
    lower = bench.client.scale(NODE, container.name, target={"cpu_limit": 200, "memory_limit": 64})
    assert bench.client.final(lower)["outcome"] == "COMPLETED"
    assert (container.quota_and_period[0], container.memory) == (20_000, 64 * 1024 * 1024)
    too_low = bench.client.final(bench.client.scale(NODE, container.name, target={"memory_limit": 8}))
    assert too_low["reason"] == "BELOW_USAGE", too_low
    bench.client.state(NODE, container.name, lambda b: b["sync_state"] == "SYNCHRONIZED" and "last_failure" in b)
    assert container.memory == 64 * 1024 * 1024
