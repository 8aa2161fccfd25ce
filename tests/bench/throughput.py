"""Actions per second through the whole chain, against bare clients that only pass messages on."""

import itertools
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from schemas.topics import Role
from tests.bench.agents import node_name
from tests.bench.baselines import cpu_seconds
from tests.bench.plant import Plant, plant
from tests.bench.relay import NUMBER_BYTES, PREFIX, PREFIX_5, Relay, Rules, Seen, no_delay, rules_of
from tests.bench.report import Report, quantile
from tests.bench.scale import Progress, Scale
from tests.system.foreign import ForeignClient

COMPONENTS: Final = ("resource_manager", "action_controller")
ROLES: Final = (Role.ACTION_CONTROLLER, Role.RESOURCE_MANAGER, Role.NODE_AGENT, Role.CLI)
"""The one who may send a message is taken for its sender; a command may send several, so it comes last."""
WORKLOADS: Final = 5
AT_ONCE: Final = 100
"""Actions under way; each is on a workload of its own."""
STEP: Final = 50
"""Each action changes its workload's CPU by so many millicores, more than the tolerance."""
SILENCE_S: Final = 0.5
WITHIN_S: Final = 300.0


@dataclass
class Driver:
    """Keeps so many scalings under way, and notes when each ended."""

    port: int
    at_once: int
    publish: Callable[[Client, int], None]
    ended: Callable[[MQTTMessage], int | None]
    """The number of the scaling whose end a message is; None: it is no end."""
    subscribe: str
    ends: list[tuple[int, float]] = field(default_factory=list)
    begins: dict[int, float] = field(default_factory=dict)

    def run(self, count: int) -> float:
        """So many scalings; how many a second."""
        client = Client(CallbackAPIVersion.VERSION2)
        client.on_socket_open = no_delay
        client.max_inflight_messages_set(self.at_once)
        ready, done = threading.Event(), threading.Event()
        numbers = itertools.count(len(self.begins))
        last = len(self.begins) + count

        def begin_one(_client: Client) -> None:
            number = next(numbers)
            if number < last:
                self.begins[number] = time.perf_counter()
                self.publish(client, number)

        def hear(_client: Client, _data: Any, message: MQTTMessage) -> None:
            number = self.ended(message)
            if number is None:
                return
            self.ends.append((number, time.perf_counter()))
            begin_one(client)
            if len(self.ends) >= last:
                done.set()

        def connected(*_: Any) -> None:
            client.subscribe(self.subscribe, 1)

        client.on_message = hear
        client.on_connect = connected
        client.on_subscribe = lambda *_: ready.set()
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        assert ready.wait(10)
        began = time.perf_counter()
        for _ in range(self.at_once):
            begin_one(client)
        finished = done.wait(WITHIN_S)
        took = time.perf_counter() - began
        client.disconnect()
        client.loop_stop()
        assert finished, f"{len(self.ends)} of {last} ended within {WITHIN_S} s"
        return count / took


def run(scale: Scale, progress: Progress) -> Report:
    """The chain and the relay in turns, on the same broker."""
    report = Report("chain throughput")
    nodes, count = scale.of(200, short=5), scale.of(1500, short=200)
    with plant(COMPONENTS) as running:
        running.add_nodes(nodes, WORKLOADS)
        with ForeignClient(running.broker.port) as client:
            running.await_states(client, nodes * WORKLOADS)
            rules, last = _calibrate(client)
        at_once = min(AT_ONCE, nodes * WORKLOADS // 2)
        scaling, bare = chain(running, nodes, at_once, report.wrong), _bare(running, last, at_once)
        bare_5 = _bare(running, last, at_once, PREFIX_5)
        rates: list[float] = []
        bare_rates: list[float] = []
        rates_5: list[float] = []
        port = running.broker.port
        with Relay(port, rules) as relay, Relay(port, rules, PREFIX_5) as relay_5:
            every = (running.processes, relay.processes, relay_5.processes)
            before = [_spent(processes) for processes in every]
            for _ in progress.each(range(scale.of(3, short=1)), "chain and bare relays in turns"):
                bare_rates.append(bare.run(count))
                rates_5.append(bare_5.run(count))
                rates.append(scaling.run(count))
            spent, bare_spent, spent_5 = (
                {name: seconds - then[name] for name, seconds in _spent(processes).items()}
                for processes, then in zip(every, before, strict=True)
            )
        _check(running, scaling, nodes, report)
    hops = sum(len(said) for role in rules.values() for said in role.values()) + 1
    report.add("actions a second", max(rates), "/s", baseline=max(bare_rates), least=0.5)
    report.add("actions a second, against a relay that speaks MQTT 5", max(rates), "/s", baseline=max(rates_5))
    took = [end - scaling.begins[number] for number, end in scaling.ends]
    bare_took = [end - bare.begins[number] for number, end in bare.ends]
    for share in (0.5, 0.99):
        report.add(
            f"one action, {at_once} at once, p{share * 100:.0f}",
            quantile(took, share) * 1000,
            "ms",
            baseline=quantile(bare_took, share) * 1000,
        )
    for name, role in (("action_controller",) * 2, ("resource_manager",) * 2, ("agents", "node_agent")):
        each = 1000 / len(scaling.ends)
        report.add(f"CPU an action: {name}", spent[name] * each, "ms", baseline=bare_spent[role] * each)
        report.add(f"  the same, MQTT 5: {name}", spent[name] * each, "ms", baseline=spent_5[role] * each)
    report.remarks.append(
        f"{nodes} nodes × {WORKLOADS} workloads; {hops} messages an action; baseline: the same "
        f"messages passed on by bare paho clients, one process a role; best of {len(rates)} turns of {count}"
    )
    return report


def _spent(processes: "Mapping[str, subprocess.Popen[bytes]]") -> dict[str, float]:
    return {name: cpu_seconds(process.pid) for name, process in processes.items()}


def _calibrate(client: ForeignClient) -> tuple[Rules, str]:
    """The messages of one scaling, as rules for a relay, and the address of the last."""
    _await_silence(client)
    since = client.mark()
    told = client.final(client.scale(node_name(0), "sim-1", target={"cpu_limit": 550}))
    assert told["outcome"] == "COMPLETED", told
    _await_silence(client)
    seen = [Seen(topic, size) for topic, size in client.order(since)]
    assert seen[0].topic == "scaling/action"
    ends = [number for number, one in enumerate(seen) if one.topic == "scaling/status"]
    return rules_of(seen, ROLES), f"scaling/status/{ends[-1]}"


def _await_silence(client: ForeignClient) -> None:
    before = -1
    while client.mark() != before:
        before = client.mark()
        time.sleep(SILENCE_S)


def chain(running: Plant, nodes: int, at_once: int, wrong: list[str], workloads: int = WORKLOADS) -> Driver:
    every = [(node_name(node), f"sim-{one}") for one in range(1, workloads + 1) for node in range(nodes)]

    def publish(client: Client, number: int) -> None:
        node, workload = every[number % len(every)]
        cpu = 600 + STEP * (number // len(every) % 20)
        body = {"action_id": f"b-{number}", "node": node, "workload_id": workload, "target": {"cpu_limit": cpu}}
        client.publish("scaling/action", msgpack.packb(body), 1)

    def ended(message: MQTTMessage) -> int | None:
        if b"outcome" not in message.payload:
            return None
        body = msgpack.unpackb(message.payload)
        own = "outcome" in body and body["action_id"].startswith("b-")
        if own and body["outcome"] != "COMPLETED":
            wrong.append(f"{body['action_id']}: {body['outcome']} {body.get('message')}")
        return int(body["action_id"][2:]) if own else None

    return Driver(running.broker.port, at_once, publish, ended, "scaling/status")


def _bare(running: Plant, last: str, at_once: int, prefix: str = PREFIX) -> Driver:
    def publish(client: Client, number: int) -> None:
        client.publish(f"{prefix}scaling/action/0", str(number).encode().ljust(NUMBER_BYTES).ljust(120, b"."), 1)

    def ended(message: MQTTMessage) -> int | None:
        return int(message.payload[:NUMBER_BYTES]) if message.topic == prefix + last else None

    return Driver(running.broker.port, at_once, publish, ended, f"{prefix}scaling/status/+")


def _check(running: Plant, scaling: Driver, nodes: int, report: Report) -> None:
    """Nothing lost, nothing twice, and ledger, states and nodes say the same."""
    numbers = [number for number, _ in scaling.ends]
    if sorted(numbers) != list(range(len(scaling.begins))):
        report.wrong.append(f"{len(scaling.begins)} actions, {len(numbers)} ends, {len(set(numbers))} distinct")
    left = running.rows("resource_manager", "SELECT action_id FROM actions WHERE closed_ms = 0")
    if left:
        report.wrong.append(f"{len(left)} rows of the ledger are open: {left[:3]}")
    with ForeignClient(running.broker.port) as client:
        running.await_states(client, nodes * WORKLOADS)
        states = [client.heard(topic)[-1] for topic in client.topics("resources/state/")]
    report.wrong += _disagreements(states)


def _disagreements(states: Sequence[dict[str, Any]]) -> list[str]:
    managed = [state for state in states if state.get("desired") is not None]
    wrong = [
        state
        for state in managed
        if state["sync_state"] != "SYNCHRONIZED"
        or state["desired"].get("cpu_limit") != state["actual"]["cpu_limit"]
    ]
    return [f"disagreement: {state}" for state in wrong[:5]]
