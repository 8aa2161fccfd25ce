"""A whole system of simulated containers with its page, for browsers: `piriscale up` as a user starts it."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from tests.fixtures.broker import free_port
from tests.system.bench import NODE, Bench, running
from tests.system.foreign import ForeignClient

SLOW_MS, FAST_MS = 430.0, 120.0
ENOUGH_CPU = 1000
"""Millicores from which on the simulated application is fast."""


@dataclass(frozen=True)
class Stage:
    """The running system and the address of its page."""

    bench: Bench
    page_port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.page_port}/"

    @property
    def client(self) -> ForeignClient:
        return self.bench.client


@contextlib.contextmanager
def staged(**page: Any) -> Iterator[Stage]:
    """Start it; `page` are further keys of [dashboard]."""
    port = free_port()
    with running(
        {"runtime": "simulated", "simulated_containers": 4, "sync_interval_s": 5},
        monitoring={
            "window": 3,
            "needed": 2,
            "repeat_s": 5,
            "thresholds": [{"workload": "sim-*", "latency_ms": 300, "cpu_percent": 1000, "memory_percent": 1000}],
        },
        policy=[{"workload": "*", "cpu_percent": 20, "cooldown_s": 1}],
        dashboard={"port": port, **page},
    ) as bench:
        yield Stage(bench, port)


class Application:
    """An ECU that measures a workload: slow until it has enough CPU."""

    def __init__(self, stage: Stage, workload: str, *, every_s: float = 0.25) -> None:
        self._stage = stage
        self._workload = workload
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _measure(self) -> None:
        number = 0
        while not self._ended.wait(self._every_s):
            number += 1
            wobble = 12 * (number % 3)
            latency = (FAST_MS if self._enough() else SLOW_MS) + wobble
            self._stage.client.say(f"metrics/{NODE}/app/{self._workload}", {"latency_ms": latency}, qos=0)

    def _enough(self) -> bool:
        states = self._stage.client.heard(f"resources/state/{NODE}/{self._workload}")
        actual = states[-1].get("actual", {}) if states else {}
        return bool(actual.get("cpu_limit", 0) >= ENOUGH_CPU)


def names_of(stage: Stage) -> list[str]:
    """Workloads of the node."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        snapshot = stage.client.heard(f"node/{NODE}/actual")
        if snapshot and snapshot[-1]["containers"]:
            return sorted(one["workload_id"] for one in snapshot[-1]["containers"])
        time.sleep(0.05)
    raise AssertionError("no containers")
