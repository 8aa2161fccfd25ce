"""A bare paho client that hears metrics and only counts them: `python -m tests.bench.listener`."""

import sys
import threading
import time
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from tests.bench.relay import no_delay


def main(port: str) -> None:
    """Print how many were heard, ten times a second, until SIGTERM."""
    heard = [0]

    def count(*_: Any) -> None:
        heard[0] += 1

    def subscribe(client: Client, *_: Any) -> None:
        client.subscribe([("metrics/+/node", 0), ("metrics/+/containers", 0), ("metrics/+/app/+", 1)])

    def tell() -> None:
        while True:
            time.sleep(0.1)
            print(heard[0], flush=True)

    client = Client(CallbackAPIVersion.VERSION2)
    client.on_socket_open = no_delay
    client.on_connect = subscribe
    client.on_message = count
    client.connect("127.0.0.1", int(port))
    threading.Thread(target=tell, daemon=True).start()
    client.loop_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
