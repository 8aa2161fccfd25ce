"""/metrics and /healthz as Prometheus and a supervisor see them."""

import http.client
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from urllib.parse import urlsplit

import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from broker.bus import BusCounts
from components.shell.counters import Counters, new_registry
from components.shell.http import CONNECTIONS_MAX, HealthServer, PortTakenError


class Numbers:
    """A component as far as its numbers go."""

    def __init__(self, component: str, *, up: bool = True, problem: str | None = None) -> None:
        self.component = component
        self.up = up
        self.problem = problem
        self.counters = Counters(received=3, sent=2, rejected=Counter(invalid=1), dead_letters_withheld=4)
        self.bus_counts = BusCounts(dropped_in=5, dropped_out=6, reconnects=7, negative_acks=8)
        self.dropped_posts = 9

    def samples(self) -> list[Metric]:
        family = GaugeMetricFamily("piriscale_own", "Own", labels=("of",))
        family.add_metric([self.component], 1)
        return [family]


@contextmanager
def serving(*components: Numbers, problems: list[str] | None = None) -> Iterator[str]:
    server = HealthServer(0, new_registry(components), lambda: problems or [])
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


def get(url: str) -> tuple[int, str]:
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=5)) as connection:
        connection.request("GET", parts.path)
        response = connection.getresponse()
        return response.status, response.read().decode()


def scrape(url: str) -> dict[tuple[str, ...], float]:
    """Samples by name and label values. Raises when a family is told twice."""
    _, text = get(url + "/metrics")
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), "a family told twice fails the whole scrape"
    return {
        (sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples
    }


def test_what_a_shell_counts_is_served() -> None:
    with serving(Numbers("resource_manager")) as url:
        samples = scrape(url)

    expected = {
        ("piriscale_messages_total", "resource_manager", "in"): 3,
        ("piriscale_messages_total", "resource_manager", "out"): 2,
        ("piriscale_messages_rejected_total", "resource_manager", "invalid"): 1,
        ("piriscale_messages_dropped_total", "resource_manager", "in"): 14,
        ("piriscale_messages_dropped_total", "resource_manager", "out"): 10,
        ("piriscale_broker_reconnects_total", "resource_manager"): 7,
        ("piriscale_publishes_refused_total", "resource_manager"): 8,
        ("piriscale_component_up", "resource_manager"): 1,
        ("piriscale_component_healthy", "resource_manager"): 1,
        ("piriscale_own", "resource_manager"): 1,
    }
    assert {key: samples.get(key) for key in expected} == expected
    assert any(name == "process_resident_memory_bytes" for name, *_ in samples)


def test_two_agents_in_one_process_are_one_series_that_is_up_only_when_both_are() -> None:
    with serving(Numbers("node_agent"), Numbers("node_agent", up=False), Numbers("cli")) as url:
        samples = scrape(url)

    assert samples["piriscale_messages_total", "node_agent", "in"] == 6
    assert samples["piriscale_component_up", "node_agent"] == 0
    assert samples["piriscale_component_up", "cli"] == 1
    assert samples["piriscale_own", "cli"] == 1, "a family that several components offer has the samples of all"


def test_a_component_that_is_connected_and_yet_cannot_work_is_not_healthy() -> None:
    with serving(Numbers("node_agent"), Numbers("node_agent", problem="no Podman"), Numbers("cli")) as url:
        samples = scrape(url)

    assert samples["piriscale_component_up", "node_agent"] == 1
    assert samples["piriscale_component_healthy", "node_agent"] == 0
    assert samples["piriscale_component_healthy", "cli"] == 1


def test_healthz_says_ok_or_what_is_wrong() -> None:
    with serving() as url:
        assert get(url + "/healthz") == (200, "ok\n")
    with serving(problems=["node_agent: no Podman", "resource_manager: disk full"]) as url:
        assert get(url + "/healthz") == (503, "node_agent: no Podman\nresource_manager: disk full\n")
        assert get(url + "/other")[0] == 404


def test_a_port_that_is_taken_is_refused_with_what_to_do() -> None:
    with serving() as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(PortTakenError, match=rf"port {port} .*--metrics-port"):
            HealthServer(port, new_registry([]), list)


def test_it_listens_where_it_is_told_and_on_loopback_alone_by_default() -> None:
    for told, address in ({}, "127.0.0.1"), ({"host": "0.0.0.0"}, "0.0.0.0"):  # noqa: S104 - a test of just that
        server = HealthServer(0, new_registry([]), list, **told)
        assert server.address == (address, server.port)
        server.stop()


def test_who_only_opens_connections_takes_no_more_threads_than_are_his() -> None:
    with serving() as url:
        place = urlsplit(url)
        before = threading.active_count()
        with ExitStack() as opened:
            slow = [
                opened.enter_context(socket.create_connection((place.hostname, place.port)))
                for _ in range(CONNECTIONS_MAX + 20)
            ]
            ended, _, _ = select.select(slow[CONNECTIONS_MAX:], [], [], 2.0)
            assert ended, "what is too much is closed at once"
            assert threading.active_count() <= before + CONNECTIONS_MAX
        eventually_served(f"{url}/healthz")


def eventually_served(url: str, within_s: float = 10.0) -> None:
    until = time.monotonic() + within_s
    while True:
        try:
            assert get(url)[0] == 200
        except (http.client.HTTPException, OSError):
            assert time.monotonic() < until, "there is no room although all have gone"
            time.sleep(0.02)
        else:
            return


def test_an_address_that_is_not_this_machines_is_named() -> None:
    with pytest.raises(PortTakenError, match=r"cannot be opened on 192\.0\.2\.1"):
        HealthServer(0, new_registry([]), list, host="192.0.2.1")


class Told:
    """What a broker tells of itself."""

    def __init__(self, dropped_messages: int | None) -> None:
        self.dropped_messages = dropped_messages


@pytest.mark.parametrize(("told", "shown"), [(None, {}), (7, {("piriscale_broker_dropped_messages_total",): 7})])
def test_what_the_broker_drops_is_shown_where_it_tells(
    told: int | None, shown: dict[tuple[str, ...], float]
) -> None:
    registry = new_registry([], Told(told))
    samples = [sample for family in registry.collect() for sample in family.samples]
    found = {
        (s.name, *s.labels.values()): s.value for s in samples if s.name.startswith("piriscale_broker_dropped")
    }
    assert found == shown


def test_when_a_certificate_ends_is_shown_of_each_component_that_has_one() -> None:
    expiries: dict[str, float] = {}
    registry = new_registry([], expiries=expiries)
    expiries["node_agent"] = 1_800_000_000.5  # known when it connects, and so after the registry was made
    samples = [sample for family in registry.collect() for sample in family.samples]
    found = [(s.name, s.labels, s.value) for s in samples if "certificate" in s.name]
    assert found == [
        ("piriscale_certificate_expires_timestamp_seconds", {"component": "node_agent"}, 1_800_000_000.5)
    ]
