"""The Grafana dashboard and its provisioning: well-formed, complete, and laid out without overlaps."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

COMPOSE = Path(__file__).parents[2] / "compose"
GRAFANA = COMPOSE / "grafana"
FILE = GRAFANA / "dashboards" / "piriscale.json"
DASHBOARD = json.loads(FILE.read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
GRAPHS = [panel for panel in PANELS if panel["type"] != "row"]
COLUMNS = 24
PANEL_TYPES = {"row", "stat", "timeseries", "state-timeline"}
UNITS = {"none", "s", "bytes", "ops", "suffix: cores"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def titled(panel: dict[str, Any]) -> str:
    return str(panel["title"])


def asked(panel: dict[str, Any]) -> str:
    return " ".join(target["expr"] for target in panel["targets"])


def panels_of(row: str) -> list[dict[str, Any]]:
    """The panels between a row and the next."""
    found: dict[str, list[dict[str, Any]]] = {}
    for panel in PANELS:
        if panel["type"] == "row":
            under = found.setdefault(panel["title"].partition(":")[0], [])
        else:
            under.append(panel)
    return found[row]


def test_panels_have_ids_titles_and_types_that_grafana_brings() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    assert len(set(map(titled, PANELS))) == len(PANELS)
    assert {panel["type"] for panel in PANELS} == PANEL_TYPES
    assert DASHBOARD["uid"] == "piriscale"
    assert DASHBOARD["id"] is None, "an id belongs to one Grafana's database"


def test_no_two_panels_lie_on_each_other_and_all_lie_within_the_width() -> None:
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, f"{one} and {other}"
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["w"] > 0, titled(panel)
        assert place["h"] > 0, titled(panel)
        assert 0 <= place["x"] <= place["x"] + place["w"] <= COLUMNS, titled(panel)


@pytest.mark.parametrize("panel", GRAPHS, ids=titled)
def test_a_panel_explains_itself_has_a_unit_and_asks_the_chosen_source(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["datasource"] == SOURCE
    assert all(target["datasource"] == SOURCE for target in panel["targets"])
    references = [target["refId"] for target in panel["targets"]]
    assert references == list("ABCDEFGH"[: len(references)])


@pytest.mark.parametrize("panel", GRAPHS, ids=titled)
def test_the_unit_of_a_panel_is_that_of_its_metrics(panel: dict[str, Any]) -> None:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    names = set(re.findall(r"\b(?:piriscale|process)_[a-z_]+", asked(panel)))
    wanted = {"bytes": "_bytes", "suffix: cores": "_cores", "s": "_seconds"}.get(unit)
    if wanted is not None:
        assert all(wanted in name or name == "process_cpu_seconds_total" for name in names)
    else:
        assert not any(name.endswith(("_bytes", "_cores", "_seconds_bucket")) for name in names)


def test_what_is_watched_is_all_there() -> None:
    fleet, node, workload = (" ".join(map(asked, panels_of(row))) for row in ("Fleet", "Node", "Workload"))
    assert "sum by (state) (piriscale_sync_state)" in fleet
    assert "piriscale_scaling_duration_seconds" in fleet
    for metric in ("piriscale_node_capacity_cores", "piriscale_node_capacity_bytes"):
        assert all(f'kind="{kind}"' in node for kind in ("allocated", "reserved", "available", "total")), metric
    for kind in ("desired_cpu_cores", "actual_cpu_cores", "desired_memory_bytes", "actual_memory_bytes"):
        assert f"piriscale_{kind}" in workload


def test_capacity_is_stacked_but_its_total_is_a_line_above() -> None:
    for panel in panels_of("Node")[:2]:
        assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
        (total,) = [each for each in panel["fieldConfig"]["overrides"] if each["matcher"]["options"] == "total"]
        assert {"id": "custom.stacking", "value": {"mode": "none", "group": "A"}} in total["properties"]


def test_the_rows_of_nodes_and_workloads_follow_the_choice() -> None:
    for panel in panels_of("Node"):
        assert all('node=~"$node"' in target["expr"] for target in panel["targets"]), titled(panel)
    for panel in panels_of("Workload"):
        assert all('workload=~"$workload"' in target["expr"] for target in panel["targets"]), titled(panel)
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", FILE.read_text(encoding="utf-8")))
    assert used == set(variables)
    assert variables["datasource"]["query"] == "prometheus"
    assert all(variables[name]["multi"] and variables[name]["includeAll"] for name in ("node", "workload"))


def test_grafana_finds_the_dashboard_and_its_source_where_compose_puts_them() -> None:
    sources = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yaml").read_text(encoding="utf-8"))
    providers = yaml.safe_load((GRAFANA / "provisioning/dashboards/piriscale.yaml").read_text(encoding="utf-8"))
    compose = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))["services"]
    (source,) = sources["datasources"]
    (provider,) = providers["providers"]
    assert source["uid"] == DASHBOARD["templating"]["list"][0]["current"]["value"]
    host, _, port = source["url"].removeprefix("http://").partition(":")
    assert compose[host]["ports"] == [f"127.0.0.1:{port}:{port}"]
    mounted = dict(volume.split(":")[:2] for volume in compose["grafana"]["volumes"])
    assert mounted["./grafana/provisioning"] == "/etc/grafana/provisioning"
    assert mounted["./grafana/dashboards"] == provider["options"]["path"]
