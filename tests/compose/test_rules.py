"""Alert rules: valid, tried by promtool both ways, and each with a runbook that exists."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.requirements import require

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "compose" / "prometheus"
RULES = PROMETHEUS / "rules.yml"
RULE_TESTS = Path(__file__).parent / "prometheus" / "rules_test.yml"


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


NAMES = sorted({rule["alert"] for rule in alerts()})


def promtool(*arguments: str | Path) -> str:
    """What it said. Fails when it found anything wrong."""
    require(shutil.which("promtool") is not None, "promtool (apt-get install prometheus)")
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def anchors(markdown: Path) -> set[str]:
    """The headings of a document, as links name them."""
    headings = re.findall(r"^#+ (.+)$", markdown.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}


def tried(name: str) -> list[bool]:
    """Whether each trial of an alert expects it to fire."""
    tests = yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))["tests"]
    trials = [trial for test in tests for trial in test["alert_rule_test"] if trial["alertname"] == name]
    return [bool(trial.get("exp_alerts")) for trial in trials]


def test_the_rules_and_the_configuration_are_valid() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    promtool("check", "config", "--lint=all", "--lint-fatal", PROMETHEUS / "prometheus.yml")


def test_every_alert_fires_when_it_should_and_not_when_it_should_not() -> None:
    assert "SUCCESS" in promtool("test", "rules", RULE_TESTS)


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_was_tried_both_ways(name: str) -> None:
    assert set(tried(name)) == {True, False}


@pytest.mark.parametrize(
    "rule", alerts(), ids=lambda rule: f"{rule['alert']}-{rule['labels'].get('resource', '')}"
)
def test_an_alert_says_what_is_wrong_in_numbers_and_what_to_do(rule: dict[str, Any]) -> None:
    notes = rule["annotations"]
    assert notes["summary"]
    assert "query" in notes["description"] or "$value" in notes["description"], "no numbers"
    assert rule["labels"]["severity"] in ("warning", "critical")
    document, _, heading = notes["runbook"].partition("#")
    assert heading == rule["alert"].lower()
    assert heading in anchors(ROOT / document)


def test_every_service_of_the_configuration_is_scraped_once() -> None:
    configuration = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    targets = [t for job in configuration["scrape_configs"] for c in job["static_configs"] for t in c["targets"]]
    assert len(targets) == len(set(targets))
    assert configuration["rule_files"] == [RULES.name]
