"""The two worlds that a bus can live in, real and in memory, with the same things to do to them."""

import shutil
import threading
import time
from collections.abc import Callable
from typing import Protocol

from broker.bus import Bus, BusEvent, Connected, Deliver, Delivery, Disconnected, Identity
from broker.client import MqttBus
from broker.memory import MemoryBroker, MemoryBus
from broker.options import BrokerOptions
from broker.takeover import SETTLED_S
from broker.window import WINDOW
from schemas.codec import Frame
from tests.broker.proxy import Proxy
from tests.fixtures.broker import RunningBroker

WAIT_S = 20.0


class Client:
    """A bus and all that came from it. Deliveries are acknowledged while waiting, unless told otherwise."""

    def __init__(self, make: Callable[[Deliver], Bus], *, acks: bool = True) -> None:
        self.acks = acks
        self.events: list[BusEvent] = []
        self.refuse_next = 0
        """So many events find no room."""
        self.fail_next = 0
        """So many events make the inbox raise."""
        self.takes_s = 0.0
        """How long the inbox takes for each event."""
        self._acknowledged = 0
        self._came = threading.Condition()
        self.bus = make(self._deliver)
        self.bus.start()

    def _deliver(self, event: BusEvent) -> bool:
        if self.takes_s:
            time.sleep(self.takes_s)
        with self._came:
            if self.refuse_next:
                self.refuse_next -= 1
                return False
            if self.fail_next:
                self.fail_next -= 1
                raise RuntimeError("an inbox that fails")
            self.events.append(event)
            self._came.notify_all()
            return True

    @property
    def deliveries(self) -> list[Delivery]:
        return [event for event in self.events if isinstance(event, Delivery)]

    @property
    def connections(self) -> list[Connected]:
        return [event for event in self.events if isinstance(event, Connected)]

    @property
    def disconnections(self) -> list[Disconnected]:
        return [event for event in self.events if isinstance(event, Disconnected)]

    @property
    def messages(self) -> list[tuple[str, bytes]]:
        return [(each.topic, each.payload) for each in self.deliveries]

    def wait(self, what: Callable[[], bool]) -> None:
        until = time.monotonic() + WAIT_S
        while True:
            for each in self.deliveries[self._acknowledged :] if self.acks else ():
                self._acknowledged += 1
                self.bus.ack(each)
            with self._came:
                if what():
                    return
                assert time.monotonic() < until, f"waited in vain; what came: {self.events[-20:]}"
                self._came.wait(0.02)

    def wait_connected(self, times: int = 1) -> Connected:
        self.wait(lambda: len(self.connections) >= times)
        return self.connections[-1]

    def wait_messages(self, *payloads: bytes) -> None:
        """Wait until the last messages are these."""
        self.wait(lambda: [payload for _, payload in self.messages[-len(payloads) :]] == list(payloads))

    def round_trip(self) -> None:
        """Wait until the broker has read, and acknowledged, all that was sent before."""
        published = self.bus.counts.published
        for _ in range(WINDOW + 1):  # so that the last acknowledgement is for one of these
            self.bus.publish(Frame("round/trip", b""))
        self.wait(lambda: self.bus.counts.published > published + WINDOW)

    def wait_fatal(self) -> str:
        self.wait(lambda: any(event.fatal for event in self.disconnections))
        return self.disconnections[-1].reason


class World(Protocol):
    """What can be done to clients and their broker; clients are named by client id."""

    def connect(
        self, identity: Identity, *, prefix: str = "", queue_frames: int = 10_000, acks: bool = True
    ) -> Client:
        """A started client."""

    def cut(self, client_id: str) -> None:
        """Break the connection; the client comes back."""

    def isolate(self, client_id: str) -> None:
        """Break the connection; the client stays away until `rejoin`."""

    def rejoin(self, client_id: str) -> None: ...

    def hold_acks(self, client_id: str) -> None:
        """Keep back the broker's acknowledgements of what the client publishes."""

    def release_acks(self, client_id: str) -> None: ...

    def settle(self, client: Client) -> None:
        """Make a client believe that it has been connected for long."""

    def stop_broker(self) -> None:
        """In good order; it remembers."""

    def start_broker(self) -> None: ...

    def replace_broker(self) -> None:
        """It dies, and another one takes its place, which remembers nothing."""


class RealWorld:
    """Mosquitto, with a proxy before each client."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self.proxies: dict[str, Proxy] = {}
        self._clients: list[Client] = []

    def close(self) -> None:
        for client in self._clients:
            client.bus.stop(drain_s=0)
        for proxy in self.proxies.values():
            proxy.close()

    def connect(
        self, identity: Identity, *, prefix: str = "", queue_frames: int = 10_000, acks: bool = True
    ) -> Client:
        if identity.client_id not in self.proxies:
            self.proxies[identity.client_id] = Proxy(self.broker.host, self.broker.port)
        port = self.proxies[identity.client_id].port
        options = BrokerOptions(port=port, topic_prefix=prefix, queue_frames=queue_frames)
        client = Client(lambda deliver: MqttBus(options, identity, deliver), acks=acks)
        self._clients.append(client)
        return client

    def cut(self, client_id: str) -> None:
        self.proxies[client_id].cut()

    def isolate(self, client_id: str) -> None:
        self.proxies[client_id].refuse()

    def rejoin(self, client_id: str) -> None:
        self.proxies[client_id].admit()

    def hold_acks(self, client_id: str) -> None:
        self.proxies[client_id].hold_acks()

    def release_acks(self, client_id: str) -> None:
        self.proxies[client_id].release_acks()

    def settle(self, client: Client) -> None:
        assert isinstance(client.bus, MqttBus)
        client.bus._takeover._granted_first = time.monotonic() - SETTLED_S

    def stop_broker(self) -> None:
        self.broker.stop()

    def start_broker(self) -> None:
        self.broker.start()

    def replace_broker(self) -> None:
        self.broker.kill()
        shutil.rmtree(self.broker.directory / "data")
        self.broker.start()


class MemoryWorld:
    """The in-process twin."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(packet_max=2 * 1024 * 1024)

    def connect(
        self, identity: Identity, *, prefix: str = "", queue_frames: int = 10_000, acks: bool = True
    ) -> Client:
        return Client(lambda deliver: MemoryBus(self.broker, identity, deliver, prefix, queue_frames), acks=acks)

    def cut(self, client_id: str) -> None:
        self.broker.drop(client_id)
        self.broker.reconnect(client_id)

    def isolate(self, client_id: str) -> None:
        self.broker.drop(client_id)

    def rejoin(self, client_id: str) -> None:
        self.broker.reconnect(client_id)

    def hold_acks(self, client_id: str) -> None:
        self.broker.hold_acks(client_id)

    def release_acks(self, client_id: str) -> None:
        self.broker.release_acks(client_id)

    def settle(self, client: Client) -> None:
        """It does not matter here: the broker says who is the first."""

    def stop_broker(self) -> None:
        self.broker.stop()

    def start_broker(self) -> None:
        self.broker.start()

    def replace_broker(self) -> None:
        self.broker.stop()
        self.broker.forget_everything()
        self.broker.start()
