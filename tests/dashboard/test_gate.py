"""The gate: pages of strangers neither read ours nor scale through it; people do, by the names they use."""

from http import HTTPStatus

import pytest

from components.dashboard.gate import HEADERS, Gate

GATE = Gate(("127.0.0.1", "screen.car"))
OURS = {"host": "127.0.0.1:9465", "origin": "http://127.0.0.1:9465", "content-type": "application/json"}


def status_of(method: str, path: str, headers: dict[str, str], gate: Gate = GATE) -> HTTPStatus | None:
    refusal = gate.refusal(method, path, headers)
    return refusal[0] if refusal else None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9465",
        "localhost",
        "LOCALHOST:8080",
        "localhost.:1",
        "[::1]:9465",
        "screen.car",
        "screen.car:443",
    ],
)
def test_it_answers_to_its_names_whatever_the_port(host: str) -> None:
    assert status_of("GET", "/", {"host": host}) is None, "a tunnel or proxy has another port"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:9465", "192.0.2.1", "x@127.0.0.1"],
)
def test_a_foreign_name_that_points_here_reads_nothing(host: str) -> None:
    assert status_of("GET", "/", {"host": host}) is HTTPStatus.MISDIRECTED_REQUEST


def test_without_a_host_there_is_no_answer() -> None:
    assert status_of("GET", "/api/events", {}) is HTTPStatus.MISDIRECTED_REQUEST


def test_on_every_address_numbers_are_answered_but_no_names() -> None:
    everywhere = Gate(("0.0.0.0",))  # noqa: S104  # the gate is told where the server listens
    assert status_of("GET", "/", {"host": "192.0.2.1:9465"}, everywhere) is None
    assert status_of("GET", "/", {"host": "[2001:db8::1]:9465"}, everywhere) is None
    assert status_of("GET", "/", {"host": "evil.example"}, everywhere) is HTTPStatus.MISDIRECTED_REQUEST


def test_our_own_page_may_ask_for_a_scaling() -> None:
    assert status_of("POST", "/api/scale", OURS) is None
    assert status_of("POST", "/api/scale", {**OURS, "sec-fetch-site": "same-origin"}) is None
    proxied = {**OURS, "host": "screen.car", "origin": "https://screen.car"}
    assert status_of("POST", "/api/scale", proxied) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:8000"},
        {"origin": "http://localhost:9465"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "ftp://127.0.0.1:9465"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_foreign_page_asks_in_vain(changed: dict[str, str]) -> None:
    assert status_of("POST", "/api/scale", {**OURS, **changed}) is HTTPStatus.FORBIDDEN


def test_what_sends_no_origin_asks_in_vain() -> None:
    headers = {name: value for name, value in OURS.items() if name != "origin"}
    assert status_of("POST", "/api/scale", headers) is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_a_form_of_plain_html_cannot_pass_for_ours(kind: str) -> None:
    assert status_of("POST", "/api/scale", {**OURS, "content-type": kind}) is HTTPStatus.UNSUPPORTED_MEDIA_TYPE


def test_a_foreign_page_cannot_use_up_the_event_streams_but_may_link_to_us() -> None:
    foreign = {"host": "127.0.0.1:9465", "sec-fetch-site": "cross-site"}
    assert status_of("GET", "/api/events", foreign) is HTTPStatus.FORBIDDEN
    assert status_of("GET", "/", foreign) is None


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(method: str) -> None:
    assert status_of(method, "/", OURS) is HTTPStatus.METHOD_NOT_ALLOWED


def test_browsers_are_told_to_load_nothing_from_elsewhere_and_to_frame_us_nowhere() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy
