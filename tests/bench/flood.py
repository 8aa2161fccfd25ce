"""Metrics of many nodes, published from a process of their own: `python -m tests.bench.flood`."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from tests.bench.agents import node_name
from tests.bench.relay import no_delay

CPU_LIMIT = 1000
MEMORY_LIMIT = 256
QUIET_CPU = 100
LOUD_CPU = 990
UNSENT_MAX = 64 * 1024
PERIOD_S = 1.0


def payloads(node: int, containers: int, loud: frozenset[int]) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    """One period of a node: itself, and its containers, of which `loud` use nearly all their CPU."""
    name = node_name(node)
    whole = {
        "node": name,
        "cpu_usage": 20.0,
        "cpu_count": 8,
        "used_memory": 4 << 30,
        "total_memory": 16 << 30,
        "rx_bytes": 123_456_789,
        "tx_bytes": 123_456_789,
        "read_bytes": 123_456_789,
        "write_bytes": 123_456_789,
    }
    each = [
        {
            "workload_id": f"app-{number}",
            "runtime_id": f"{node:032x}{number:032x}",
            "usage": {"cpu": LOUD_CPU if number in loud else QUIET_CPU, "memory": 64},
            "limits": {"cpu_limit": CPU_LIMIT, "memory_limit": MEMORY_LIMIT},
        }
        for number in range(containers)
    ]
    return (
        (f"metrics/{name}/node", msgpack.packb(whole)),
        (f"metrics/{name}/containers", msgpack.packb({"node": name, "containers": each})),
    )


class Flood:
    """A publisher of QoS 0 that keeps its pace, or goes as fast as the broker reads."""

    def __init__(self, port: int) -> None:
        self.sent = 0
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.on_socket_open = no_delay
        self._client.connect("127.0.0.1", port)

    def publish(self, messages: Iterator[tuple[str, bytes]], *, over_s: float, until: float) -> None:
        """All messages, spread evenly; none after `until`."""
        listed = list(messages)
        began = time.monotonic()
        for number, (topic, payload) in enumerate(listed):
            due = began + over_s * number / len(listed)
            while (wait := due - time.monotonic()) > 0:
                time.sleep(min(wait, 0.01))
                self._client.loop(0.0)
            if time.monotonic() > until:
                break
            self._client.publish(topic, payload)
            self.sent += 1
            while self._client.want_write():
                self._client.loop(0.001)
        self._client.loop(0.0)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop(0.1)


def main(port: str, plan: str) -> None:
    """Publish as the plan says, a JSON object; what was sent goes to stdout."""
    wanted = json.loads(plan)
    nodes, containers, seconds = wanted["nodes"], wanted["containers"], wanted["seconds"]
    loud = {int(node): frozenset(numbers) for node, numbers in wanted["loud"].items()}
    quiet = [payloads(node, containers, frozenset()) for node in range(nodes)]
    degraded = [payloads(node, containers, loud.get(node, frozenset())) for node in range(nodes)]
    flood = Flood(int(port))
    began = time.monotonic()
    periods = 0
    while time.monotonic() < began + seconds:
        chosen = degraded if periods >= wanted["quiet_periods"] else quiet
        if chosen is degraded and periods == wanted["quiet_periods"] and wanted["mark"]:
            Path(wanted["mark"]).write_text(str(time.time()), encoding="utf-8")
        over_s = PERIOD_S if wanted["paced"] else 0.0
        flood.publish((one for pair in chosen for one in pair), over_s=over_s, until=began + seconds + 1)
        periods += 1
    flood.close()
    print(json.dumps({"sent": flood.sent, "took_s": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
