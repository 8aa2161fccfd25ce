"""An application on an ECU that measures itself, in Python. It knows a broker and a topic, no code of piriscale.

    python3 ecu.py HOST PORT NODE WORKLOAD

It works through camera frames as fast as it may, and publishes twice a second how long the slowest took and
how many it did per second: JSON over MQTT 3.1.1. NODE is what the node's agent is called, WORKLOAD the name of the
container. Needs paho-mqtt 2 (Debian 13: python3-paho-mqtt, else from PyPI).
"""

import hashlib
import json
import os
import sys
import time

import paho.mqtt.client as mqtt

PERIOD_S = 0.5
FRAME = os.urandom(8 * 1024 * 1024)


def work_on(frame: bytes) -> None:
    """Stands for what your application does with a frame; costs some milliseconds of CPU."""
    hashlib.sha256(frame).digest()


def measure(seconds: float) -> dict[str, float]:
    """Work for so long; the slowest frame in ms, and frames per second."""
    began = time.monotonic()
    slowest = frames = 0.0
    while time.monotonic() - began < seconds:
        start = time.monotonic()
        work_on(FRAME)
        slowest = max(slowest, time.monotonic() - start)
        frames += 1
    return {"latency_ms": round(slowest * 1000, 2), "fps": round(frames / (time.monotonic() - began), 2)}


def main() -> None:
    """Connect, and publish until killed; paho connects again by itself when the broker was away."""
    host, port, node, workload = sys.argv[1:]
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv311)
    client.connect(host, int(port))
    client.loop_start()
    while True:
        client.publish(f"metrics/{node}/app/{workload}", json.dumps(measure(PERIOD_S)))


if __name__ == "__main__":
    main()
