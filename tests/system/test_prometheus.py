"""A real Prometheus scrapes a running system: what it sees, and whether rules and dashboard fit that."""

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from schemas.enums import SyncState
from tests.requirements import require
from tests.system.bench import NODE, Bench, running
from tests.system.prometheus import PROMETHEUS, Prometheus, eventually, scraping

DASHBOARD = PROMETHEUS.parent / "grafana" / "dashboards" / "piriscale.json"
CAPPED, DRIFTING, SCALED = "sim-1", "sim-2", "sim-3"
"""Simulated containers, and what happens to each before anything is asked."""
WITHOUT_SAMPLES = "piriscale_certificate_expires_timestamp_seconds"
"""There is no certificate here."""
OURS = re.compile(r"\b(piriscale_[a-z_]+|process_[a-z_]+)")


@pytest.fixture(scope="module")
def system() -> Iterator[Bench]:
    """One workload is degraded at its maximum, one drifts and is left so, one was scaled, one scaling refused."""
    with running(
        {"runtime": "simulated", "simulated_containers": 4, "sync_interval_s": 1},
        monitoring={
            "window": 2,
            "needed": 2,
            "repeat_s": 1,
            "thresholds": [{"workload": CAPPED, "latency_ms": 300}],
        },
        policy=[{"workload": CAPPED, "cpu_percent": 10, "max": {"cpu": "500m"}, "cooldown_s": 0}],
        resource_manager={"drift": "report"},
    ) as bench:
        assert bench.client.final(scaled(bench, SCALED, 750))["outcome"] == "COMPLETED"
        assert bench.client.final(scaled(bench, SCALED, 1_000_000))["outcome"] == "REJECTED"
        assert bench.client.final(scaled(bench, DRIFTING, 600, memory_limit=320))["outcome"] == "COMPLETED"
        bench.client.say("perf/degraded", b"{garbage")
        bench.client.say(f"node/{NODE}/update", {"id": "by-hand", "workload_id": DRIFTING, "cpu_limit": 700})
        bench.client.state(NODE, DRIFTING, lambda b: b["sync_state"] == "DRIFT_DETECTED")
        degrade(bench)
        bench.client.await_message("perf/outcome", lambda b: b["reason"] == "AT_MAXIMUM")
        yield bench


@pytest.fixture(scope="module")
def prometheus(system: Bench) -> Iterator[Prometheus]:
    with scraping(system.metrics_port, system.folder / "prometheus") as watching:
        watching.await_data("count_over_time(up[30s]) >= 3")
        watching.await_data("piriscale_broker_dropped_messages_total")  # told every 10 s
        yield watching


def scaled(bench: Bench, workload: str, cpu: int, **more: int) -> str:
    return bench.client.scale(NODE, workload, target={"cpu_limit": cpu, **more})


def degrade(bench: Bench) -> None:
    for _ in range(3):
        measured = {"latency_ms": 450, "throughput": 12.5, "fps": 9}
        bench.client.say(f"metrics/{NODE}/app/{CAPPED}", measured)


def shown(bench: Bench) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{bench.metrics_port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def panels() -> list[Any]:
    found: list[Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return found


def as_grafana_asks(expression: str) -> str:
    """With its variables filled in."""
    filled = expression.replace("$__rate_interval", "30s").replace("$node", ".*").replace("$workload", ".*")
    assert "$" not in filled, f"a variable that the dashboard has not: {expression}"
    return filled


ASKED = sorted({(p["title"], as_grafana_asks(t["expr"])) for p in panels() for t in p.get("targets", [])})
RULES = [
    rule
    for group in yaml.safe_load((PROMETHEUS / "rules.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]


def families(bench: Bench) -> dict[str, str]:
    """Help texts by name."""
    return dict(re.findall(r"^# HELP (\S+) (.*)$", shown(bench), flags=re.MULTILINE))


def test_promtool_finds_nothing_to_say_about_the_metrics(system: Bench) -> None:
    require(shutil.which("promtool") is not None, "promtool (apt-get install prometheus)")
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=shown(system), capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_every_family_says_what_it_is_with_its_unit(system: Bench) -> None:
    for name, text in families(system).items():
        for unit in ("cores", "bytes", "seconds"):
            if name.removesuffix("_total").endswith(f"_{unit}"):
                assert unit in text.lower(), f"{name}: {text}"
        assert len(text) > 15, f"{name}: {text}"


def test_prometheus_takes_in_every_family(system: Bench, prometheus: Prometheus) -> None:
    assert prometheus.value("up") == 1
    taken_in = set(prometheus.ask("label/__name__/values"))
    samples = set(re.findall(r"^(piriscale_[a-z_]+)[{ ]", shown(system), flags=re.MULTILINE))
    assert len(samples) > 38
    assert samples <= taken_in


def test_prometheus_sees_one_state_of_each_workload(prometheus: Prometheus) -> None:
    assert prometheus.value("count(count by (workload) (piriscale_sync_state))") == 4
    sums = prometheus.query("sum by (workload) (piriscale_sync_state)")
    assert {sample["value"][1] for sample in sums} == {"1"}
    states = prometheus.query("count by (state) (piriscale_sync_state)")
    assert {sample["metric"]["state"] for sample in states} == set(SyncState)
    assert prometheus.value(f'piriscale_sync_state{{workload="{DRIFTING}",state="DRIFT_DETECTED"}}') == 1
    assert prometheus.value(f'piriscale_desired_cpu_cores{{workload="{DRIFTING}"}}') == 0.6
    assert prometheus.value(f'piriscale_actual_cpu_cores{{workload="{DRIFTING}"}}') == 0.7


def test_the_rules_are_in_force_and_each_rests_on_metrics_that_exist(
    system: Bench, prometheus: Prometheus
) -> None:
    loaded = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert sorted(rule["name"] for rule in loaded) == sorted(rule["alert"] for rule in RULES)
    assert WITHOUT_SAMPLES in families(system)
    names = {*prometheus.ask("label/__name__/values"), WITHOUT_SAMPLES}
    for rule in loaded:
        assert set(OURS.findall(rule["query"])) <= names, rule["name"]
    asked = {name for rule in RULES for name in OURS.findall(rule["annotations"]["description"])}
    assert asked <= names
    eventually(lambda: {r["health"] for r in _rules(prometheus)} == {"ok"}, f"not evaluated: {_rules(prometheus)}")


def _rules(prometheus: Prometheus) -> list[Any]:
    return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]


def test_what_is_wrong_is_noticed(system: Bench, prometheus: Prometheus) -> None:
    def noticed() -> dict[str, str]:
        degrade(system)
        alerts = prometheus.ask("alerts")["alerts"]
        return {alert["labels"]["alertname"]: alert["labels"].get("workload", "") for alert in alerts}

    expected = {"PiriscaleDriftLasting": DRIFTING, "PiriscaleWorkloadAtMaximum": CAPPED}
    eventually(lambda: noticed().items() >= expected.items(), f"noticed: {noticed()}")
    texts = {alert["labels"]["alertname"]: alert["annotations"] for alert in prometheus.ask("alerts")["alerts"]}
    assert "desired 0.6 cores, in force 0.7 cores" in texts["PiriscaleDriftLasting"]["description"]
    assert "it uses 0.25 of 0.5 cores" in texts["PiriscaleWorkloadAtMaximum"]["description"]
    assert "error" not in str(texts)


@pytest.mark.parametrize(("title", "expression"), ASKED)
def test_the_dashboard_asks_what_prometheus_can_answer(
    system: Bench, prometheus: Prometheus, title: str, expression: str
) -> None:
    degrade(system)
    names = set(prometheus.ask("label/__name__/values"))
    assert set(OURS.findall(expression)) <= names
    prometheus.await_data(expression)


def test_the_dashboards_choices_can_be_made(prometheus: Prometheus) -> None:
    variables = json.loads(DASHBOARD.read_text(encoding="utf-8"))["templating"]["list"]
    asked = [variable["query"]["query"] for variable in variables if variable["type"] == "query"]
    for query in asked:
        series, label = re.fullmatch(r"label_values\((.*), ([a-z]+)\)", query).groups()  # type: ignore[union-attr] # or fails
        found = prometheus.query(f"count by ({label}) ({as_grafana_asks(series)})")
        assert {sample["metric"][label] for sample in found} >= ({NODE} if label == "node" else {CAPPED})
