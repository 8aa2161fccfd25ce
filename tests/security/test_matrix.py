"""Every identity × every topic × saying and hearing: what is forbidden has no effect, what is allowed has."""

from collections.abc import Iterator

import pytest

from broker.access import COMPONENTS, Person
from broker.options import TlsFiles
from broker.tls import ask_why
from schemas.topics import TOPICS, Role, lookup
from tests.security.secured import OBSERVER, Foreign, Secured, secured, until
from tests.security.truth import CONTRACT, IDENTITIES, RIGHTS, hearable, sayable

MARK = "marker"
"""A topic of the observer: what came before it has come."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Secured]:
    known = [name for short, name in IDENTITIES.items() if short != "XX"]
    with secured(known, [IDENTITIES["XX"]]) as running:
        yield running


@pytest.fixture
def observer(broker: Secured) -> Iterator[Foreign]:
    """Sees everything that the broker takes from anybody, and leaves nothing retained."""
    with broker.client(OBSERVER) as client:
        client.subscribe("#")
        yield client
        client.publish_all([*RIGHTS, MARK], b"", retain=True)


def settle(observer: Foreign, payload: bytes = b"settled") -> None:
    """Wait until the observer has heard all that the broker took before."""
    observer.publish(MARK, payload)
    until(lambda: payload in [one.payload for one in observer.heard if one.topic == MARK], "the marker came")


def test_the_table_speaks_of_every_topic_and_every_kind_of_identity() -> None:
    spoken_of = {found[0].template for line in CONTRACT.split() if (found := lookup(line))}
    assert spoken_of == {topic.template for topic in TOPICS}
    kinds = {name.partition("/")[0] for name in IDENTITIES.values()}
    assert kinds >= {*COMPONENTS, *Person, *Role} - {Role.ANYONE}


@pytest.mark.parametrize("who", IDENTITIES)
def test_an_identity_says_what_it_may_and_nothing_else(who: str, broker: Secured, observer: Foreign) -> None:
    with broker.client(IDENTITIES[who]) as client:
        refused = client.publish_all(RIGHTS, b"said")
    settle(observer)

    assert observer.topics(b"said") == sayable(who)
    assert refused == RIGHTS.keys() - sayable(who), "MQTT 5 tells its client"


@pytest.mark.parametrize("who", IDENTITIES)
@pytest.mark.parametrize("filters", ["each", "#", "$share/group/#"])
def test_an_identity_hears_what_it_may_and_nothing_else(
    who: str, filters: str, broker: Secured, observer: Foreign
) -> None:
    with broker.client(IDENTITIES[who]) as client:
        client.subscribe(*(RIGHTS if filters == "each" else [filters]))
        observer.publish_all(RIGHTS, b"heard")
        until(lambda: client.topics(b"heard") >= hearable(who), "what is allowed comes")
        _end_of_what_comes(client, who, broker)

    assert client.topics(b"heard") == hearable(who)


def _end_of_what_comes(client: Foreign, who: str, broker: Secured) -> None:
    """A round trip to the broker: what it sent before has come."""
    assert client.connected
    client.subscribe(f"round/trip/{who}")
    assert broker.log


@pytest.mark.parametrize("who", IDENTITIES)
def test_what_is_retained_is_kept_from_those_who_may_not_hear_it(
    who: str, broker: Secured, observer: Foreign
) -> None:
    observer.publish_all(RIGHTS, b"kept", retain=True)
    with broker.client(IDENTITIES[who]) as client:
        client.subscribe("#", "car-7/#", "+/+/+", "+/+/+/+")
        until(lambda: client.topics(b"kept") >= hearable(who), "what is allowed comes")
        _end_of_what_comes(client, who, broker)

    assert client.topics(b"kept") == hearable(who)


@pytest.mark.parametrize("who", IDENTITIES)
def test_nobody_deletes_what_another_retained(who: str, broker: Secured, observer: Foreign) -> None:
    observer.publish_all(RIGHTS, b"kept", retain=True)
    with broker.client(IDENTITIES[who]) as client:
        client.publish_all(RIGHTS, b"", retain=True)
    with broker.client(OBSERVER) as fresh:
        fresh.subscribe("#")
        _end_of_what_comes(fresh, who, broker)
        left = {one.topic for one in fresh.heard if one.retained and one.topic != MARK}

    assert RIGHTS.keys() - left == sayable(who)


@pytest.mark.parametrize("who", ["NAV", "A", "CLI"])
def test_a_client_of_mqtt_3_1_1_is_held_to_the_same(who: str, broker: Secured, observer: Foreign) -> None:
    with broker.client(IDENTITIES[who], mqtt5=False) as client:
        client.subscribe("#")
        client.publish_all(RIGHTS, b"said")  # acknowledged one and all: this protocol knows no refusal
        settle(observer)
        assert observer.topics(b"said") == sayable(who)
        observer.publish_all(RIGHTS, b"heard")
        until(lambda: client.topics(b"heard") >= hearable(who), "what is allowed comes")
        _end_of_what_comes(client, who, broker)
    assert client.topics(b"heard") == hearable(who)


@pytest.mark.parametrize(
    ("who", "topic", "said"),
    [
        ("NAV", "scaling/action", False),
        ("NAV", "component/action_controller/main", False),
        ("A", "component/node_agent/b", False),
        ("B", "component/node_agent/b", True),
    ],
)
def test_a_will_is_no_way_around(who: str, topic: str, said: bool, broker: Secured, observer: Foreign) -> None:
    with broker.client(IDENTITIES[who], will=topic) as client:
        client.break_off()
        until(lambda: not client.connected, "it is gone")
        _gone(broker, client)
    settle(observer)

    assert (topic in observer.topics(b"will")) is said


def _gone(broker: Secured, client: Foreign) -> None:
    name = client.identity if client.identity.startswith("application/") else client._client._client_id.decode()
    until(
        lambda: f"Client {name} closed its connection" in broker.log or f"Client {name} disc" in broker.log, name
    )


class TestClientIds:
    """Whoever connects with a client id that is in use ends the other's connection; no access rule forbids it."""

    def test_an_ecu_cannot_throw_a_component_off_the_broker(self, broker: Secured) -> None:
        with broker.client(IDENTITIES["AC"], client_id="controller") as controller:
            with broker.client(IDENTITIES["NAV"], client_id="controller") as ecu:
                assert ecu.publish_all(["metrics/a/app/nav"], b"said") == set(), (
                    "it works, under another client id"
                )
                assert controller.publish_all(["scaling/status"], b"said") == set()
            assert controller.connected

    def test_nor_another_ecu(self, broker: Secured) -> None:
        with broker.client(IDENTITIES["ECU"], client_id="one") as other:
            with broker.client(IDENTITIES["NAV"], client_id=IDENTITIES["ECU"]):
                assert other.publish_all(["metrics/a/app/nav"], b"said") == set()
            assert other.connected

    @pytest.mark.parametrize("who", ["NAV", "CAR"])
    def test_its_certificate_opens_no_other_listener(self, who: str, broker: Secured) -> None:
        assert _refused(broker, IDENTITIES[who], broker.port)

    @pytest.mark.parametrize("who", ["AC", "A", "CLI"])
    def test_nor_does_ours_open_the_listener_of_guests(self, who: str, broker: Secured) -> None:
        assert _refused(broker, IDENTITIES[who], broker.guests_port)


def _refused(broker: Secured, identity: str, port: int) -> bool:
    folder = broker.certificates / identity
    context = TlsFiles(folder / "ca.pem", folder / "cert.pem", folder / "key.pem").context()
    return "does not trust the authority" in (ask_why("127.0.0.1", port, context, 5.0) or "")
