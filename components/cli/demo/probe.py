"""The ECU of the demo: measures the service's latency from outside, and publishes it as JSON over MQTT 3.1.1.

It knows the broker's address and one topic, and nothing of piriscale's code.
"""

import http.client
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

PERIOD_S: Final = 0.2
"""A request begins this long after the last one began, or when that has ended."""
REQUEST_TIMEOUT_S: Final = 10.0
KEEP: Final = 2000

Measure = Callable[[], float]
"""Does one request and returns how long it took, ms. Raises OSError when there was no answer."""


def http_measure(port: int) -> Measure:
    """Measure requests to the service on a loopback port."""

    def measure() -> float:
        begin = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_TIMEOUT_S)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except http.client.HTTPException as error:
            raise OSError(f"no answer: {error}") from error
        finally:
            connection.close()
        return (time.perf_counter() - begin) * 1000

    return measure


class Probe(threading.Thread):
    """Measures again and again, and hands every latency to `publish(topic, payload)`."""

    def __init__(self, measure: Measure, topic: str, publish: Callable[[str, bytes], None]) -> None:
        super().__init__(name="probe", daemon=True)
        self._measure = measure
        self._topic = topic
        self._publish = publish
        self._stopped = threading.Event()
        self.samples: deque[tuple[float, float]] = deque(maxlen=KEEP)
        """(monotonic seconds at its end, latency in ms)."""

    def run(self) -> None:
        """Measure until stopped."""
        while not self._stopped.is_set():
            begin = time.monotonic()
            try:
                latency = self._measure()
            except OSError:
                self._stopped.wait(PERIOD_S)
                continue
            self.samples.append((time.monotonic(), latency))
            self._publish(self._topic, json.dumps({"latency_ms": round(latency, 2)}).encode())
            self._stopped.wait(max(0.0, begin + PERIOD_S - time.monotonic()))

    def stop(self) -> None:
        """Stop after the present request."""
        self._stopped.set()
        self.join(REQUEST_TIMEOUT_S)

    def latencies(self, since: float, until: float = float("inf")) -> list[float]:
        """Latencies of requests that ended in the given time, ms."""
        return [latency for at, latency in list(self.samples) if since <= at <= until]
