"""`up` and `run`: how components start, end, and fail."""

import json
import signal
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.bus import Identity
from broker.client import MqttBus
from broker.options import BrokerOptions
from broker.statistics import BrokerStatistics
from components.cli.up import _statistics
from components.settings import BrokerSettings, MonitoringSettings, Settings
from tests.cli.system import NODE, Configuration, configuration, get, guarded_broker, status, until
from tests.fixtures.broker import RunningBroker, free_port, running_broker


def test_up_serves_health_and_metrics_of_all_components(system: Configuration) -> None:
    health = get(system.metrics_port, "/healthz")
    metrics = get(system.metrics_port, "/metrics")

    assert health == (200, "ok\n")
    assert metrics is not None
    for component in (
        "resource_manager",
        "action_controller",
        "policy_manager",
        "monitoring_server",
        "node_agent",
    ):
        assert f'piriscale_component_up{{component="{component}"}} 1.0' in metrics[1]
    assert 'piriscale_messages_total{component="node_agent",direction="out"}' in metrics[1]
    names = [family.name for family in text_string_to_metric_families(metrics[1])]
    assert len(names) == len(set(names)), "a family told twice fails the whole scrape"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_prints_a_table_and_ends_in_order(tmp_path: Path, broker: RunningBroker, number: int) -> None:
    settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{broker.port}")

    with settings.child("up", "--log-json") as child:
        lines = []
        while "Ctrl-C" not in (line := child.read_line()):
            assert child.running, child.err
            lines.append(line)
        until(lambda: get(settings.metrics_port, "/healthz") == (200, "ok\n"), "healthy")
        code = child.end(number)

    assert code == 0, child.err
    table = "".join(lines)
    for shown in (f"127.0.0.1:{broker.port}", f"node {NODE}, simulated", "resource_manager.sqlite3", "/metrics"):
        assert shown in table
    events = [json.loads(line) for line in child.err.splitlines()]
    assert any(event["event"].startswith("ending") for event in events)
    assert all(event["time"].endswith("Z") for event in events)
    states = {one["component"]: one["state"] for one in status(settings)["components"]}
    assert set(states.values()) == {"disconnected"}
    assert len(states) == 6
    _forget(broker)


def test_a_component_runs_alone_and_by_either_spelling(alone: Configuration, broker: RunningBroker) -> None:
    port = free_port()

    with alone.child("run", "debug-tap", "--metrics-port", str(port)) as child:
        until(lambda: get(port, "/healthz") == (200, "ok\n"), "healthy")
        (one,) = status(alone)["components"]
        assert (one["component"], one["state"]) == ("debug_tap", "ready")
        assert child.end() == 0
    _forget(broker)


def test_port_0_serves_no_metrics_as_in_the_configuration(alone: Configuration, broker: RunningBroker) -> None:
    with alone.child("run", "debug-tap", "--metrics-port", "0") as child:
        lines = [child.read_line()]
        while "Ctrl-C" not in lines[-1]:
            assert child.running, child.err
            lines.append(child.read_line())
        assert child.end() == 0

    assert "/metrics" not in "".join(lines)
    _forget(broker)


def test_parts_of_monitoring_server_hear_of_the_broker_beside_each_other(broker: RunningBroker) -> None:
    def part(number: int) -> BrokerStatistics:
        url = f"mqtt://127.0.0.1:{broker.port}"
        monitoring = MonitoringSettings(partition=f"{number}/2")
        return _statistics(Settings(broker=BrokerSettings(url=url), monitoring=monitoring))

    with part(1) as first, part(2) as second:
        until(lambda: first.dropped_messages is not None, "the first hears")
        until(lambda: None not in (first.dropped_messages, second.dropped_messages), "both hear", 10)


def test_an_unknown_component_is_a_mistake(alone: Configuration) -> None:
    result = alone.cli("run", "manager")

    assert result.exit_code == 2
    assert "resource_manager" in result.stderr


def test_an_unknown_log_level_is_a_mistake(alone: Configuration) -> None:
    result = alone.cli("run", "debug_tap", "--log-level", "loud")

    assert result.exit_code == 2
    assert "debug, info, warning, error" in result.stderr


def test_a_port_that_is_taken_is_told_with_what_to_do(system: Configuration, tmp_path: Path) -> None:
    same_broker = configuration(tmp_path, port=system.broker_port)
    with same_broker.child("up") as child:
        code = child.finish()
    assert code == 1
    assert (
        f"port {system.broker_port} on 127.0.0.1 is taken by another process (mosquitto, process id" in child.err
    )
    assert "`piriscale up` run already" in child.err
    assert f'[broker] url = "mqtt://127.0.0.1:{system.broker_port}"' in child.err

    with system.child("run", "debug_tap", "--metrics-port", str(system.metrics_port)) as child:
        code = child.finish()
    assert code == 1
    assert f"port {system.metrics_port} for metrics" in child.err


def test_a_database_in_an_impossible_place_is_told_in_one_line(tmp_path: Path, broker: RunningBroker) -> None:
    settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{broker.port}")
    text = settings.path.read_text()
    settings.path.write_text(text.replace(f"{tmp_path}/resource_manager.sqlite3", "/dev/null/rm.sqlite3"))

    with settings.child("run", "resource_manager") as child:
        code = child.finish()

    assert code == 1
    last = child.err.splitlines()[-1]
    assert last.startswith("piriscale: resource_manager cannot start:")
    assert "Traceback" not in child.err


def test_a_second_instance_ends_the_first_which_says_why(alone: Configuration, broker: RunningBroker) -> None:
    with alone.child("run", "debug_tap") as first:
        until(lambda: [one["state"] for one in status(alone)["components"]] == ["ready"], "the first is ready")
        with alone.child("run", "debug_tap") as second:
            until(lambda: not (first.running and second.running), "one of them ends")
            ended, stays = (first, second) if not first.running else (second, first)
            assert ended.finish() == 1
            assert "second instance" in ended.err
            assert "piriscale-debug_tap-main" in ended.err
            until(lambda: [one["state"] for one in status(alone)["components"]] == ["ready"], "the other is ready")
            assert stays.end() == 0
    _forget(broker)


def test_a_wrong_password_ends_a_component_with_the_reason(tmp_path: Path) -> None:
    with guarded_broker() as guarded:
        settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{guarded.port}", broker='username = "nobody"')

        with settings.child("run", "debug_tap") as child:
            code = child.finish()

    assert code == 1
    assert "Not authorized" in child.err.splitlines()[-1]


def test_a_broker_that_goes_and_comes_is_no_reason_to_end(tmp_path: Path) -> None:
    port = free_port()
    with running_broker() as broker:
        settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{broker.port}")
        with settings.child("run", "debug_tap", "--metrics-port", str(port), "--log-level", "error") as child:
            until(lambda: get(port, "/healthz") == (200, "ok\n"), "healthy")
            broker.kill()
            until(lambda: (get(port, "/healthz") or (0,))[0] == 503, "unhealthy")
            answer = get(port, "/healthz")
            assert answer is not None
            assert "debug_tap: not connected to the broker" in answer[1]
            broker.start()
            until(lambda: get(port, "/healthz") == (200, "ok\n"), "healthy again")
            assert child.end() == 0


def _forget(broker: RunningBroker) -> None:
    """Leave nothing retained on the shared broker, nor any session."""
    broker.kill()
    for left in (broker.directory / "data").iterdir():
        left.unlink()
    broker.start()
    bus = MqttBus(BrokerOptions(port=broker.port), Identity("look"), lambda _: True)
    bus.start()
    bus.stop()
