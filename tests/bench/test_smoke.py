"""Every benchmark runs, loses nothing and finds nothing wrong. Its numbers mean nothing here."""

import pytest
from rich.console import Console

from components.node_agent.podman.private import missing
from tests.bench.__main__ import BENCHMARKS, measure
from tests.bench.growth import exponent
from tests.bench.report import Figure, quantile, show
from tests.bench.scale import Progress, Scale
from tests.fixtures.broker import has_mosquitto
from tests.requirements import require


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_short_run_finds_nothing_wrong(name: str) -> None:
    require(has_mosquitto(), "mosquitto (apt-get install mosquitto)")
    require(missing() is None, missing() or "")
    screen = Console()
    with Progress(screen) as progress:
        report = measure(name, Scale(short=True), progress)
    show(report, screen)
    assert report.figures
    assert not report.wrong


def test_a_goal_is_of_the_ratio_or_of_the_value_itself() -> None:
    assert Figure("slow", 30.0, "ms", baseline=10.0, most=2).met is False
    assert Figure("quick", 15.0, "ms", baseline=10.0, most=2).met is True
    assert Figure("many", 6.0, "/s", baseline=10.0, least=0.5).met is True
    assert Figure("small", 30.0, "MiB", most=45, absolute=True).met is True
    assert Figure("shown", 30.0, "MiB").met is None


def test_a_quantile_is_a_value_that_was_measured() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([3.0, 1.0, 2.0], 1) == 3.0


def test_what_doubles_with_the_size_has_the_exponent_one_and_what_stays_has_none() -> None:
    assert exponent({10: 5.0, 100: 50.0, 1000: 500.0}) == pytest.approx(1.0)
    assert exponent({10: 5.0, 100: 5.0, 1000: 5.0}) == pytest.approx(0.0)
