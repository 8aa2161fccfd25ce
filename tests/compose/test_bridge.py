"""A vehicle's broker and a fleet's, bridged by the file that is shipped, through outages of the upper one."""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from broker.configuration import MosquittoConfiguration
from broker.plain import PlainClient
from schemas.topics import TOPICS, Role
from tests.broker.proxy import Proxy
from tests.fixtures.broker import RunningBroker, running_broker

BRIDGE = Path(__file__).parents[2] / "compose" / "mosquitto" / "bridge.conf"
VEHICLE = "vehicle-7"
WITHIN_S = 40.0
MORE_THAN_THE_DEFAULT_QUEUE = 1500

_numbers = itertools.count()


def bridge_to(port: int) -> tuple[str, ...]:
    """The lines of the file as a reader would fill them in; without certificates, since the upper one has none."""
    lines = BRIDGE.read_text(encoding="utf-8").replace("fleet.example:8884", f"127.0.0.1:{port}").splitlines()
    return tuple(
        line for line in lines if not line.startswith(("bridge_cafile", "bridge_certfile", "bridge_keyfile"))
    )


class Listener:
    """A client that notes what it hears."""

    def __init__(self, broker: RunningBroker, *filters: str) -> None:
        self.heard: list[tuple[str, bytes, bool]] = []
        self.client = PlainClient(
            broker.host,
            broker.port,
            f"listener-{next(_numbers)}",
            lambda topic, payload, retained: self.heard.append((topic, payload, retained)),
            filters,
        )

    def __enter__(self) -> Self:
        self.client.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.__exit__(None, None, None)

    def of(self, topic: str) -> list[bytes]:
        return [payload for where, payload, _ in list(self.heard) if where == topic]


def eventually(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def await_bridge(lower: Listener, upper: Listener) -> None:
    """Until something said below is heard above."""
    word = f"try {next(_numbers)}".encode()

    def said_and_heard() -> bool:
        lower.client.publish("perf/outcome", word, 1)
        time.sleep(0.1)
        return word in upper.of(f"{VEHICLE}/perf/outcome")

    eventually(said_and_heard, "the bridge does not connect")


@pytest.fixture
def fleet() -> Iterator[RunningBroker]:
    with running_broker() as upper:
        yield upper


@pytest.fixture
def road(fleet: RunningBroker) -> Iterator[Proxy]:
    """What lies between the two. It opens when there is somebody in the fleet who listens."""
    proxy = Proxy(fleet.host, fleet.port)
    yield proxy
    proxy.close()


@pytest.fixture
def vehicle(road: Proxy) -> Iterator[RunningBroker]:
    with running_broker(MosquittoConfiguration(extra=bridge_to(road.port))) as lower:
        yield lower


@pytest.fixture
def below(vehicle: RunningBroker) -> Iterator[Listener]:
    with Listener(vehicle, "#") as listener:
        yield listener


def test_the_fleet_hears_of_a_vehicle_under_its_name_and_speaks_to_it(
    fleet: RunningBroker, below: Listener
) -> None:
    with Listener(fleet, "#") as above:
        await_bridge(below, above)
        below.client.publish("resources/state/hpc-1/nav", b"state", 1, retain=True)
        below.client.publish("metrics/hpc-1/node", b"measure")
        eventually(lambda: above.of(f"{VEHICLE}/metrics/hpc-1/node"), "metrics")
        eventually(lambda: above.of(f"{VEHICLE}/resources/state/hpc-1/nav"), "state")
        above.client.publish(f"{VEHICLE}/scaling/action", b"action", 1)
        eventually(lambda: below.of("scaling/action"), "the action")
        assert below.of("scaling/action") == [b"action"]
    with Listener(fleet, f"{VEHICLE}/#") as late:
        eventually(lambda: late.of(f"{VEHICLE}/resources/state/hpc-1/nav"), "what is retained below is so above")
        assert {retained for _, _, retained in late.heard} == {True}


def test_debug_and_the_conversation_of_components_stay_in_the_vehicle(
    fleet: RunningBroker, below: Listener
) -> None:
    with Listener(fleet, "#") as above:
        await_bridge(below, above)
        private = [
            "debug/perf/degraded",
            "debug/resources/state/hpc-1/nav",
            "resources/validate",
            "node/hpc-1/update",
        ]
        for topic in (*private, "scaling/status"):
            below.client.publish(topic, b"said", 1)
        eventually(lambda: above.of(f"{VEHICLE}/scaling/status"), "the last of them")
        heard = {topic for topic, _, _ in above.heard}
        assert heard == {f"{VEHICLE}/scaling/status", f"{VEHICLE}/perf/outcome"}


def test_the_fleet_cannot_speak_for_a_vehicles_components(fleet: RunningBroker, below: Listener) -> None:
    with Listener(fleet, "#") as above:
        await_bridge(below, above)
        for topic in ("node/hpc-1/update", "resources/state/hpc-1/nav", "resources/desired", "scaling/status"):
            above.client.publish(f"{VEHICLE}/{topic}", b"forged", 1)
        above.client.publish("vehicle-8/scaling/action", b"of another vehicle", 1)
        above.client.publish(f"{VEHICLE}/scaling/action", b"wish", 1)
        eventually(lambda: below.of("scaling/action"), "the last of them")
        assert [topic for topic, payload, _ in below.heard if payload != b"wish" and b"try" not in payload] == []


def test_what_the_fleet_said_of_pauses_does_not_end_one_of_the_vehicle(
    fleet: RunningBroker, road: Proxy, vehicle: RunningBroker
) -> None:
    with Listener(vehicle, "#") as below, Listener(fleet, "#") as above:
        await_bridge(below, above)
        above.client.publish(f"{VEHICLE}/control/scaling", b"resume", 1, retain=True)
        below.client.publish("control/scaling", b"pause", 1, retain=True)
        eventually(lambda: below.of("control/scaling"), "the pause")
    road.refuse()
    fleet.stop()
    fleet.start()
    with Listener(vehicle, "#") as below, Listener(fleet, "#") as above:
        road.admit()
        await_bridge(below, above)
        above.client.publish(f"{VEHICLE}/scaling/action", b"wish", 1)
        eventually(lambda: below.of("scaling/action"), "what came down with the connection has come")
        assert below.of("control/scaling") == [b"pause"]


def said_in_an_outage(below: Listener) -> list[bytes]:
    """More than Mosquitto keeps by default."""
    words = [f"status {number}".encode() for number in range(MORE_THAN_THE_DEFAULT_QUEUE)]
    for word in words:
        below.client.publish("scaling/status", word, 1)
    eventually(lambda: len(below.of("scaling/status")) == len(words), "the vehicle itself does not go on")
    return words


def test_what_is_said_during_an_outage_of_the_fleet_arrives_whole_and_in_order(
    fleet: RunningBroker, road: Proxy, below: Listener
) -> None:
    with Listener(fleet, f"{VEHICLE}/#") as above:
        await_bridge(below, above)
    road.refuse()
    fleet.kill()
    words = said_in_an_outage(below)
    fleet.start()
    with Listener(fleet, f"{VEHICLE}/#") as above:
        road.admit()
        await_bridge(below, above)
        assert above.of(f"{VEHICLE}/scaling/status") == words


def test_what_waits_for_the_fleet_survives_a_restart_of_the_vehicles_broker(
    fleet: RunningBroker, road: Proxy, vehicle: RunningBroker
) -> None:
    with Listener(vehicle, "#") as below:
        with Listener(fleet, f"{VEHICLE}/#") as above:
            await_bridge(below, above)
        road.refuse()
        words = said_in_an_outage(below)
    vehicle.stop()
    vehicle.start()
    with Listener(fleet, f"{VEHICLE}/#") as above, Listener(vehicle, "#") as below:
        road.admit()
        await_bridge(below, above)
        assert above.of(f"{VEHICLE}/scaling/status") == words


def test_every_bridged_topic_is_one_of_the_registry() -> None:
    lines = [line.split() for line in BRIDGE.read_text(encoding="utf-8").splitlines() if line.startswith("topic ")]
    bridged = {words[1]: words[2] for words in lines}
    templates = {topic.filter(): topic for topic in TOPICS}
    for pattern, direction in bridged.items():
        stem = pattern.removesuffix("/#")
        matching = [
            topic for found, topic in templates.items() if found == pattern or found.startswith(f"{stem}/")
        ]
        assert matching, pattern
        if direction == "in":
            assert all(Role.CLI in topic.writers for topic in matching), f"{pattern} is not for people"
