"""A fleet's broker with access rules: vehicles come over bridges, and people look at several of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.configuration import MosquittoConfiguration
from broker.plain import PlainClient
from tests.fixtures.broker import RunningBroker, running_broker
from tests.security.secured import Foreign, Secured, secured, until

BRIDGE = Path(__file__).parents[2] / "compose" / "mosquitto" / "bridge.conf"


@pytest.fixture(scope="module")
def fleet() -> Iterator[Secured]:
    people = ("cli/alice", "debug_tap")
    with secured(
        (*people, "bridge/vehicle-7", "bridge/vehicle-8"), topic_prefixes=("vehicle-7", "vehicle-8")
    ) as running:
        yield running


@pytest.fixture
def vehicle(fleet: Secured) -> Iterator[RunningBroker]:
    """The broker of vehicle-7, with the bridge as it is shipped."""
    key = fleet.certificates / "bridge" / "vehicle-7" / "key.pem"
    key.chmod(0o644)  # the brokers of this test run as several users
    text = BRIDGE.read_text(encoding="utf-8").replace("/etc/piriscale/certs", str(fleet.certificates))
    lines = text.replace("fleet.example:8884", f"127.0.0.1:{fleet.guests_port}").splitlines()
    with running_broker(MosquittoConfiguration(extra=tuple(lines))) as lower:
        yield lower


def test_over_the_bridge_people_hear_a_vehicle_and_speak_to_it(fleet: Secured, vehicle: RunningBroker) -> None:
    heard: list[tuple[str, bytes]] = []
    with (
        fleet.client("cli/alice") as alice,
        PlainClient(
            vehicle.host, vehicle.port, "below", lambda topic, payload, _: heard.append((topic, payload)), ("#",)
        ) as below,
    ):
        alice.subscribe("#")

        def said_and_heard() -> bool:
            below.publish("scaling/status", b"done", 1)
            return "vehicle-7/scaling/status" in alice.topics(b"done")

        until(said_and_heard, "the bridge carries it up")
        alice.publish("vehicle-7/scaling/action", b"wish")
        until(lambda: ("scaling/action", b"wish") in heard, "the bridge carries it down")


def hears(client: Foreign) -> set[str]:
    """Where it heard what was told; not before it heard anything."""
    until(lambda: bool(client.topics(b"told")), "the one that is allowed is heard")
    return client.topics(b"told")


def test_a_bridge_speaks_for_its_own_vehicle_alone(fleet: Secured) -> None:
    with (
        fleet.client("cli/alice") as alice,
        fleet.client("debug_tap") as tap,
        fleet.client("bridge/vehicle-8") as bridge,
    ):
        alice.subscribe("#")
        tap.subscribe("#")
        topics = {"vehicle-8/scaling/status", "vehicle-7/scaling/status", "scaling/status"}
        assert bridge.publish_all(sorted(topics), b"told") == topics - {"vehicle-8/scaling/status"}
        for each in (alice, tap):
            assert hears(each) == {"vehicle-8/scaling/status"}
