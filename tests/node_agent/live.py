"""A NodeAgent as it runs in a vehicle: in its shell, on a bus, with its own files and event watcher."""

import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from broker.bus import BusEvent, Connected, Delivery, Identity, Subscription
from broker.memory import MemoryBroker, MemoryBus
from components.node_agent import build
from components.settings import Settings
from components.shell.inbox import Inbox
from components.shell.shell import Shell
from schemas.codec import decode, encode
from schemas.message import Message
from schemas.node import ContainerReport, NodeSnapshot, UpdateReply, UpdateRequest

NODE = "hpc-1"
M = TypeVar("M", bound=Message)


class LiveAgent:
    """One agent, and a client that hears all it says."""

    def __init__(self, podman_url: str, directory: Path, **settings: object) -> None:
        body = {
            "node": NODE,
            "podman_url": podman_url,
            "state_dir": directory,
            "metrics_interval_s": 0.2,
            **settings,
        }
        self._heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._replies = 0
        self.messages: list[Message] = []
        broker = MemoryBroker()
        inbox = Inbox()
        self.agent = build(Settings.model_validate({"node_agent": body}), inbox.post)
        self._client = MemoryBus(broker, Identity("person", (Subscription("#"),)), self._hear)
        self._client.start()
        self.shell = Shell(self.agent, inbox, lambda identity, deliver: MemoryBus(broker, identity, deliver))
        self.shell.start()

    def _hear(self, event: BusEvent) -> bool:
        if isinstance(event, Delivery):
            message = decode(event.topic, event.payload)
            self._client.ack(event)
            if isinstance(message, Message):
                self._heard.put(message)
        return isinstance(event, Delivery | Connected)

    def stop(self) -> None:
        self.shell.stop()
        assert self.shell.join(10)
        self._client.stop()

    def wait(self, kind: type[M], what: Callable[[M], bool] = lambda _: True, seconds: float = 15.0) -> M:
        """The next message of a kind for which something is so."""
        give_up = time.monotonic() + seconds
        while True:
            message = self._heard.get(timeout=max(0.01, give_up - time.monotonic()))
            self.messages.append(message)
            if isinstance(message, kind) and what(message):
                return message

    def heard(self, kind: type[M]) -> list[M]:
        """All messages of a kind so far."""
        while not self._heard.empty():
            self.messages.append(self._heard.get())
        return [message for message in self.messages if isinstance(message, kind)]

    def wait_for_report(self, name: str, what: Callable[[ContainerReport], bool]) -> NodeSnapshot:
        """The next snapshot in which something is so of a container."""
        return self.wait(
            NodeSnapshot, lambda snapshot: any(r.workload_id == name and what(r) for r in snapshot.containers)
        )

    def send(self, **fields: object) -> str:
        """Ask for an update, by hand unless a generation is given; the id of the request."""
        self._replies += 1
        request = UpdateRequest.model_validate({"id": f"u{self._replies}", "node": NODE, **fields})
        self._client.publish(encode(request))
        return request.id

    def update(self, **fields: object) -> UpdateReply:
        """Ask for an update, and wait for the answer."""
        request_id = self.send(**fields)
        return self.wait(UpdateReply, lambda reply: reply.in_reply_to == request_id)
