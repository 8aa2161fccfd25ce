"""`up` and `run dashboard` as a user starts them: where the page is, and what a port that is taken means."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.system import Configuration, configuration, get, until
from tests.fixtures.broker import RunningBroker, free_port, running_broker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


def configured(tmp_path: Path, broker: RunningBroker, page_port: int) -> Configuration:
    settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{broker.port}")
    text = settings.path.read_text(encoding="utf-8")
    settings.path.write_text(
        text.replace("[dashboard]\nport = 0", f"[dashboard]\nport = {page_port}"), encoding="utf-8"
    )
    return settings


def test_up_says_where_the_page_is_and_serves_it(tmp_path: Path, broker: RunningBroker) -> None:
    port = free_port()
    settings = configured(tmp_path, broker, port)
    with settings.child("up") as child:
        lines = []
        while "Ctrl-C" not in (line := child.read_line()):
            assert child.running, child.err
            lines.append(line)
        until(lambda: get(settings.metrics_port, "/healthz") == (200, "ok\n"), "healthy")
        answer = get(port, "/")
        metrics = get(settings.metrics_port, "/metrics")
        code = child.end()
    assert f"http://127.0.0.1:{port}/" in "".join(lines)
    assert answer is not None and answer[0] == 200
    assert "<title>piriscale</title>" in answer[1]
    assert metrics is not None
    assert 'piriscale_component_up{component="dashboard"} 1.0' in metrics[1]
    assert "piriscale_dashboard_watching 0.0" in metrics[1]
    assert code == 0, child.err
    assert "Traceback" not in child.err


def test_scaling_goes_on_without_the_page_when_its_port_is_taken(tmp_path: Path, broker: RunningBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = configured(tmp_path, broker, taken.getsockname()[1])
        with settings.child("up") as child:
            until(lambda: get(settings.metrics_port, "/healthz") == (200, "ok\n"), "healthy")
            assert child.end() == 0
    assert "dashboard cannot start, the others go on without it" in child.err
    assert "[dashboard] port" in child.err


def test_alone_it_ends_with_what_to_do_when_its_port_is_taken(tmp_path: Path, broker: RunningBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = configured(tmp_path, broker, taken.getsockname()[1])
        with settings.child("run", "dashboard") as child:
            assert child.finish() == 1
    last = child.err.splitlines()[-1]
    assert last.startswith("piriscale: dashboard cannot start: port")
    assert "[dashboard] port" in last


def test_alone_it_serves_beside_a_system_that_runs_elsewhere(tmp_path: Path, broker: RunningBroker) -> None:
    port = free_port()
    with configured(tmp_path, broker, port).child("run", "dashboard") as child:
        until(lambda: (get(port, "/") or (0,))[0] == 200, "the page is served")
        assert child.end() == 0, child.err


def test_switched_off_it_is_not_run(tmp_path: Path, broker: RunningBroker) -> None:
    with configured(tmp_path, broker, 0).child("run", "dashboard") as child:
        assert child.finish() == 1
    assert "switched off" in child.err
