"""The server over real HTTP: what it serves, what it refuses, and that it stays small and ends quickly."""

import contextlib
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import pytest

from components.dashboard import build
from components.dashboard.gate import HEADERS
from components.dashboard.server import PortTakenError
from components.dashboard.stream import STREAMS_MAX
from components.dashboard.web import BODY_BYTES_MAX
from components.settings import DashboardSettings, Settings
from schemas.enums import ActionOutcome, Phase, Reason, TaskState
from schemas.scaling import ScalingStatus
from tests.dashboard.desk import NODE, WORKLOAD, capacity, state
from tests.dashboard.served import Site, event_where, next_event, serving

FORM: dict[str, Any] = {"node": NODE, "workload": WORKLOAD, "cpu": "2", "dry_run": False}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as running:
        yield running


def test_the_page_and_all_its_files_are_served_with_the_safe_headers(site: Site) -> None:
    page = site.ask("GET", "/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for path in ("/app.js", "/base.css", "/icon.svg", "/vendor/uplot/uPlot.iife.min.js"):
        assert site.ask("GET", path).status == 200, path
    for path in ("/", "/app.js", "/api/series?node=x&workload=y", "/nothing"):
        answer = site.ask("GET", path)
        assert {name: answer.headers.get(name.lower()) for name in HEADERS} == HEADERS, path


def test_a_file_that_did_not_change_is_not_sent_again(site: Site) -> None:
    first = site.ask("GET", "/app.js")
    again = site.ask("GET", "/app.js", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert first.headers["cache-control"] == "no-cache", "an update of the package is seen at once"


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/../web.py", "/%2e%2e/web.py", "/vendor/uplot/LICENSE", "//etc/passwd", "/api/", "/page/app.js"],
)
def test_nothing_else_is_served(site: Site, path: str) -> None:
    assert site.ask("GET", path).status == 404


def test_a_name_that_is_not_ours_gets_nothing(site: Site) -> None:
    answer = site.ask("GET", "/", host="evil.example")
    assert answer.status == 421
    assert "[dashboard] names" in answer.json["error"]


def test_a_browser_sees_the_picture_and_its_changes(site: Site) -> None:
    site.say(capacity())
    with site.stream() as stream:
        assert stream.getheader("content-type", "").startswith("text/event-stream")
        event, picture = next_event(stream)
        assert event == "picture"
        assert abs(picture["now"] - time.time() * 1000) < 60_000
        site.say(state("seen"))
        change = event_where(stream, lambda body: "workloads" in body["put"])
        assert change["put"]["workloads"][f"{NODE}/seen"]["desired_text"] == "1000m CPU, 512Mi"


def test_the_form_is_published_and_its_statuses_appear(site: Site) -> None:
    answer = site.ask("POST", "/api/scale", FORM)
    assert answer.status == 202
    action_id = answer.json["action_id"]
    with site.stream() as stream:
        next_event(stream)
        action = site.await_action(lambda one: one.action_id == action_id)
        assert action.source == "dashboard/main"
        final = ScalingStatus(
            action_id=action_id,
            node=NODE,
            workload_id=WORKLOAD,
            state=TaskState.FAILED,
            phase=Phase.DONE,
            outcome=ActionOutcome.REJECTED,
            reason=Reason.INSUFFICIENT_CPU,
            message="needs 1000m more CPU",
        )
        site.say(final)
        change = event_where(stream, lambda body: action_id in body["put"].get("actions", {}))
        assert change["put"]["actions"][action_id]["message"] == "needs 1000m more CPU"


def test_a_page_of_strangers_scales_nothing(site: Site) -> None:
    before = {one.action_id for one in site.actions}
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": ""},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"content_type": "text/plain"},
        {"host": "evil.example", "origin": "http://evil.example"},
    ):
        assert site.ask("POST", "/api/scale", FORM, **headers).status in (403, 415, 421), headers
    assert site.ask("GET", "/api/scale").status == 405
    assert {one.action_id for one in site.actions} == before


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"", 400, "no JSON"),
        (b"{", 400, "no JSON"),
        (b"\xff\xfe", 400, "no JSON"),
        (b"[" * 8000, 400, "no JSON"),
        ({**FORM, "cpu": "fast"}, 422, "no CPU quantity"),
        ({**FORM, "cpu": ""}, 422, "write a CPU limit"),
        ({**FORM, "node": "a/b"}, 422, "node"),
        ([], 422, "form"),
        ({**FORM, "cpu": "2" * BODY_BYTES_MAX}, 413, "bytes"),
    ],
)
def test_what_cannot_be_used_is_told_why(site: Site, body: Any, status: int, told: str) -> None:
    answer = site.ask("POST", "/api/scale", body)
    assert answer.status == status
    assert told in answer.json["error"]


def test_a_body_without_an_end_is_cut_off(site: Site) -> None:
    with contextlib.closing(site.connect()) as connection:
        connection.putrequest("POST", "/api/scale")
        connection.putheader("Origin", f"http://127.0.0.1:{site.port}")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                connection.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert connection.getresponse().status == 413


@pytest.mark.slow
def test_a_body_that_does_not_come_is_not_waited_for(site: Site) -> None:
    with contextlib.closing(site.connect()) as connection:
        connection.putrequest("POST", "/api/scale")
        connection.putheader("Origin", f"http://127.0.0.1:{site.port}")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "100")
        connection.endheaders()
        answer = connection.getresponse()
    assert answer.status == 408


def test_headers_without_an_end_are_cut_off(site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as raw:
        with contextlib.suppress(ConnectionError):
            raw.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000)
        got = b""
        with contextlib.suppress(ConnectionError):
            got = raw.recv(1024)
    assert not got.startswith(b"HTTP/1.1 200")
    assert site.ask("GET", "/").status == 200, "and all others are served"


@pytest.mark.parametrize("after", ["-1", "x", "1e9", "9" * 30, "0" * 5000, "٣"])
def test_a_moment_that_is_none_is_told(site: Site, after: str) -> None:
    assert site.ask("GET", f"/api/series?node={NODE}&workload={WORKLOAD}&after={quote(after)}").status == 400


def test_only_so_many_browsers_watch_and_one_that_leaves_makes_room(site: Site) -> None:
    with contextlib.ExitStack() as open_streams:
        streams = [open_streams.enter_context(site.stream()) for _ in range(STREAMS_MAX)]
        assert {one.status for one in streams} == {200}
        refused = site.ask("GET", "/api/events")
        assert refused.status == 503
        assert "too many" in refused.json["error"]
    end = time.monotonic() + 10
    while True:
        with site.stream() as stream:
            if stream.status == 200:
                break
        assert time.monotonic() < end, "closed streams make room"
        time.sleep(0.05)


def test_the_switch_of_the_form_is_kept_by_the_server_itself() -> None:
    with serving(scale_form=False) as site:
        answer = site.ask("POST", "/api/scale", FORM)
        assert answer.status == 403
        assert "[dashboard] scale_form" in answer.json["error"]
        assert site.ask("POST", "/api/scale", {**FORM, "dry_run": True}).status == 202
        assert site.await_action(lambda one: True).dry_run
        assert {one.dry_run for one in site.actions} == {True}


def test_further_names_are_answered() -> None:
    with serving(names=("screen.car",)) as site:
        assert site.ask("GET", "/", host="screen.car").status == 200


def test_it_ends_quickly_although_browsers_watch(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as site, contextlib.ExitStack() as open_streams:
        for _ in range(3):
            next_event(open_streams.enter_context(site.stream()))
        began = time.monotonic()
        assert site.process.stop()
        assert time.monotonic() - began < 8
        assert [one.message for one in caplog.records if one.name.startswith("uvicorn")] == [], "and in order"
        with pytest.raises(ConnectionError):
            HTTPConnection("127.0.0.1", site.port, timeout=5).request("GET", "/")


def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=rf"port {port} on 127.0.0.1 .* \[dashboard\] port"):
            build(Settings(dashboard=DashboardSettings(port=port)), lambda _: None)


def test_switched_off_it_cannot_be_run() -> None:
    with pytest.raises(ValueError, match="switched off"):
        build(Settings(dashboard=DashboardSettings(port=0)), lambda _: None)
