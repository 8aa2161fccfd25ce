"""The page's server over real HTTP, with its component at work on an in-memory bus."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from broker.bus import BusEvent, Delivery, Identity, Subscription
from broker.memory import MemoryBroker, MemoryBus
from components.dashboard import build
from components.dashboard.dashboard import Dashboard
from components.settings import DashboardSettings, Settings
from components.shell.run import Process
from schemas.codec import decode, encode
from schemas.message import Message
from schemas.scaling import ScalingAction
from tests.fixtures.broker import free_port

WITHIN_S = 10.0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Site:
    """A running page, and a client on its bus."""

    def __init__(self, broker: MemoryBroker, port: int, process: Process, dashboard: Dashboard) -> None:
        self.port = port
        self.process = process
        self.dashboard = dashboard
        self.said: list[Message] = []
        self._bus = MemoryBus(broker, Identity("neighbour", (Subscription("scaling/action"),)), self._hear)
        self._bus.start()

    def _hear(self, event: BusEvent) -> bool:
        if isinstance(event, Delivery):
            message = decode(event.topic, event.payload)
            if isinstance(message, Message):
                self.said.append(message)
            self._bus.ack(event)
        return True

    def say(self, *messages: Message) -> None:
        for message in messages:
            self._bus.publish(encode(message))

    @property
    def actions(self) -> list[ScalingAction]:
        """Actions that were said, repeats included."""
        return [one for one in self.said if isinstance(one, ScalingAction)]

    def await_action(self, wanted: Callable[[ScalingAction], bool]) -> ScalingAction:
        """The first action for which `wanted` holds."""
        end = time.monotonic() + WITHIN_S
        while not (found := [one for one in self.actions if wanted(one)]):
            assert time.monotonic() < end, f"no such action: {self.actions}"
            time.sleep(0.01)
        return found[0]

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request as our own page makes it; `headers` with `_` for `-` replace or, if empty, drop ours."""
        sent = {"Host": f"127.0.0.1:{self.port}"}
        if method == "POST":
            sent |= {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, data, {name: value for name, value in sent.items() if value})
            return read(connection.getresponse())

    @contextlib.contextmanager
    def stream(self) -> Iterator[HTTPResponse]:
        """An event stream, as an EventSource opens it."""
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", "/api/events", headers={"Accept": "text/event-stream"})
            yield connection.getresponse()


def read(response: HTTPResponse) -> Answer:
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def next_event(response: HTTPResponse) -> tuple[str, Any]:
    """The next event of a stream."""
    event = response.readline().decode().strip().removeprefix("event: ")
    data = response.readline().decode().removeprefix("data: ")
    assert response.readline() == b"\n"
    return event, json.loads(data)


def event_where(response: HTTPResponse, wanted: Callable[[Any], bool]) -> Any:
    """The first event of a stream for whose body `wanted` holds."""
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end:
        _, body = next_event(response)
        if wanted(body):
            return body
    raise AssertionError("no such event")


@contextlib.contextmanager
def serving(**page: Any) -> Iterator[Site]:
    """A page while used as a context manager; `page` are keys of [dashboard]."""
    broker = MemoryBroker()
    broker.start()
    settings = Settings(dashboard=DashboardSettings(**{"port": free_port(), **page}))
    process = Process(lambda identity, deliver: MemoryBus(broker, identity, deliver), metrics_port=0)
    dashboard = process.add(lambda post: build(settings, post))
    assert isinstance(dashboard, Dashboard)
    process.start()
    try:
        end = time.monotonic() + WITHIN_S
        while process.problems():
            assert time.monotonic() < end, process.problems()
            time.sleep(0.01)
        yield Site(broker, settings.dashboard.port, process, dashboard)
    finally:
        assert process.stop()
