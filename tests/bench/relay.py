"""A chain of bare paho clients that pass messages on and think nothing: `python -m tests.bench.relay`.

It has the hops of a scaling and the sizes of its messages, as they were seen on the bus; so what is left between
it and piriscale is decoding, deciding, and writing to disk.
"""

import json
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from schemas.topics import Role, Topic, lookup

NUMBER_BYTES = 8
"""Each message begins with the number of its scaling."""
PREFIX = "relay/"
PREFIX_5 = "relay5/"
"""For the relay that speaks MQTT 5, as the components do; beside the other one."""

Rules = dict[str, dict[str, list[tuple[str, int]]]]
"""Role → topic it hears → messages it says then, each with its size in bytes; empty: it only hears it."""


@dataclass(frozen=True)
class Seen:
    """One message of a real scaling, in the order of the bus."""

    topic: str
    size: int

    @property
    def kind(self) -> str:
        """Its topic without names."""
        return known(self.topic).template.replace("{", "").replace("}", "")


def rules_of(seen: Sequence[Seen], roles: Sequence[Role]) -> Rules:
    """Who says what upon what: a message belongs to what its sender heard last before it."""
    rules: Rules = {role: defaultdict(list) for role in roles}
    last: dict[Role, str] = {}
    for number, message in enumerate(seen):
        topic = known(message.topic)
        sender = next((role for role in roles if role in topic.writers), None)
        address = f"{message.kind}/{number}"
        if sender is not None and sender in last:
            rules[sender][last[sender]].append((address, message.size))
        for role in roles:
            if role in topic.readers and role is not sender:
                rules[role].setdefault(address, [])
                last[role] = address
    return rules


def known(address: str) -> Topic:
    """The registry's row of a topic that was seen."""
    found = lookup(address)
    assert found is not None, address
    return found[0]


class Relay(AbstractContextManager["Relay"]):
    """One process a role, as the components are."""

    def __init__(self, port: int, rules: Rules, prefix: str = PREFIX) -> None:
        self._port = port
        self._rules = rules
        self._prefix = prefix
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for role, own in self._rules.items():
            command = [sys.executable, "-m", "tests.bench.relay", str(self._port), self._prefix, role]
            command.append(json.dumps(own))
            self.processes[role] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for process in self.processes.values():
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.terminate()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def no_delay(_client: Client, _data: Any, opened: Any) -> None:
    """Without it each hop may wait 40 ms for an acknowledgement of TCP."""
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def main(port: str, prefix: str, role: str, rules: str) -> None:
    """Pass on, until SIGTERM."""
    said: dict[str, list[tuple[str, int]]] = json.loads(rules)

    def pass_on(client: Client, _data: Any, message: MQTTMessage) -> None:
        for topic, size in said[message.topic[len(prefix) :]]:
            client.publish(prefix + topic, message.payload[:NUMBER_BYTES].ljust(size, b"."), 1)

    def subscribe(client: Client, *_: Any) -> None:
        client.subscribe([(prefix + topic, 1) for topic in said])

    protocol = MQTTProtocolVersion.MQTTv5 if prefix == PREFIX_5 else MQTTProtocolVersion.MQTTv311
    client = Client(CallbackAPIVersion.VERSION2, f"{prefix[:-1]}-{role}", protocol=protocol)
    client.on_socket_open = no_delay
    client.on_message = pass_on
    client.on_connect = subscribe
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.connect("127.0.0.1", int(port))
    client.loop_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
