"""A MonitoringServer on a test bench: its clock, its samples and what it says, all through the real codec."""

import itertools
from typing import Any

from components.component import Instant
from components.monitoring_server.server import MonitoringServer
from components.settings import MonitoringSettings, Settings, ThresholdSettings
from schemas.codec import Cleared, decode, encode
from schemas.enums import ConnectionState, EventOutcome
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse
from schemas.operations import ComponentStatus
from schemas.performance import PerfEvent, PerfOutcome

EPOCH_MS = 1_750_000_000_000
NAV = ThresholdSettings(workload="nav", latency_ms=300, throughput_min=20)
"""CPU and memory from 80 % on, by the default policy."""


class Car:
    """One MonitoringServer with `needed` 3 of 5, stale after 10 s, an event every 30 s, hysteresis 10 %."""

    def __init__(self, *thresholds: ThresholdSettings, **monitoring: Any) -> None:
        numbers = itertools.count(1)
        settings = Settings(monitoring=MonitoringSettings(thresholds=thresholds or (NAV,), **monitoring))
        self.server = MonitoringServer(settings, new_id=lambda: f"id-{next(numbers)}")
        self.now = 100.0
        self.server.start(self.instant)

    @property
    def instant(self) -> Instant:
        return Instant(self.now, EPOCH_MS + round(self.now * 1000))

    def hear(self, message: Message | Cleared) -> list[PerfEvent]:
        """The events that come of a message as it arrives from the bus."""
        item: object = message
        if isinstance(message, Message):
            frame = encode(message)
            item = decode(frame.topic, frame.payload)
        return self.spoken(self.server.handle(item, self.instant))

    def spoken(self, said: list[Any]) -> list[PerfEvent]:
        """What it says, as others read it."""
        events = []
        for message in said:
            frame = encode(message)
            read = decode(frame.topic, frame.payload)
            assert isinstance(read, PerfEvent)
            events.append(read)
        return events

    def latency(self, *values: float, workload: str = "nav", node: str = "hpc-1") -> list[PerfEvent]:
        """One sample of the application a second."""
        events = []
        for value in values:
            events += self.wait(1)
            events += self.hear(AppMetrics(node=node, workload_id=workload, latency_ms=value))
        return events

    def use(
        self, cpu: int, memory: int = 100, limits: Limits | None = None, *, node: str = "hpc-1"
    ) -> list[PerfEvent]:
        """One batch of a container that uses so many millicores and MiB, of 1000 and 1000 if not said."""
        self.now += 1
        limits = Limits(cpu_limit=1000, memory_limit=1000) if limits is None else limits
        use = ContainerUse(workload_id="nav", usage=Amount(cpu=cpu, memory=memory), limits=limits)
        return self.hear(ContainerMetrics(node=node, containers=(use,)))

    def wait(self, seconds: float) -> list[PerfEvent]:
        """What is said in this time, with nothing measured."""
        events, end = [], self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 0.5)
            events += self.spoken(self.server.tick(self.instant))
        return events

    def answer(self, event: PerfEvent, outcome: EventOutcome = EventOutcome.NOT_REQUIRED) -> None:
        """PolicyManager's outcome of an event."""
        known = {"node": event.node, "workload_id": event.workload_id}
        assert self.hear(PerfOutcome(event_id=event.event_id, outcome=outcome, **known)) == []

    def agent(self, state: ConnectionState, boot_id: int = 1, node: str = "hpc-1") -> list[PerfEvent]:
        """A node agent's status topic."""
        return self.hear(ComponentStatus(component="node_agent", instance=node, state=state, boot_id=boot_id))
