"""When a metric counts as over, and when as well under again."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.monitoring_server.window import Threshold, Window, thresholds_of
from components.settings import MonitoringSettings, ThresholdSettings

LATENCY = Threshold("latency_ms", 300)
THROUGHPUT = Threshold("throughput", 20, lower_is_worse=True)


def window(threshold: Threshold, samples: list[float], gap_s: float = 1.0) -> Window:
    """A window of 5, needed 3, stale after 10 s, hysteresis 10 %, with samples `gap_s` apart."""
    filled = Window(threshold, MonitoringSettings())
    for number, sample in enumerate(samples):
        filled.add(sample, number * gap_s)
    return filled


@pytest.mark.parametrize(
    ("expectation", "threshold", "samples", "over", "clear"),
    [
        ("nothing measured: neither", LATENCY, [], False, False),
        ("one spike: not over", LATENCY, [100, 900, 100], False, False),
        ("two of five: not over", LATENCY, [900, 900, 100, 100, 100], False, False),
        ("three of five: over", LATENCY, [900, 100, 900, 100, 900], True, False),
        ("three in a row: over before the window is full", LATENCY, [900, 900, 900], True, False),
        ("three, but one long ago: not over", LATENCY, [900, 900, 1, 1, 1, 900], False, False),
        ("exactly at the threshold: not over", LATENCY, [300, 300, 300], False, False),
        ("under, but by less than the hysteresis: not clear", LATENCY, [271, 271, 271], False, False),
        ("under by the hysteresis: clear", LATENCY, [270, 270, 270], False, True),
        ("under, but too few samples to tell: not clear", LATENCY, [1, 1], False, False),
        ("spikes that left the window: clear", LATENCY, [900, 900, 900, 1, 1, 1, 1, 1], False, True),
        ("four quiet after a spike: not clear yet", LATENCY, [900, 1, 1, 1, 1], False, False),
        ("low throughput: over", THROUGHPUT, [10, 10, 10], True, False),
        ("throughput at its least: not over", THROUGHPUT, [20, 20, 20], False, False),
        ("throughput above by less than the hysteresis: not clear", THROUGHPUT, [21.9, 22, 22], False, False),
        ("throughput above by the hysteresis: clear", THROUGHPUT, [22, 22, 22], False, True),
    ],
)
def test_a_metric_is(
    expectation: str, threshold: Threshold, samples: list[float], over: bool, clear: bool
) -> None:
    filled = window(threshold, samples)
    assert (filled.over, filled.clear) == (over, clear), expectation


def test_samples_before_a_gap_say_nothing_about_the_time_after_it() -> None:
    assert window(LATENCY, [900, 900, 900], gap_s=10).over
    assert not window(LATENCY, [900, 900, 900], gap_s=10.1).over


def test_a_sample_grows_stale() -> None:
    filled = window(LATENCY, [900])
    assert filled.fresh(10)
    assert not filled.fresh(10.1)
    assert not window(LATENCY, []).fresh(0)


@given(
    st.lists(st.floats(0, 1000), max_size=40),
    st.integers(1, 12).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))),
    st.booleans(),
)
def test_a_window_judges_like_one_that_keeps_its_samples(
    samples: list[float], shape: tuple[int, int], lower_is_worse: bool
) -> None:
    size, needed = shape
    fast = Window(Threshold("m", 500, lower_is_worse), MonitoringSettings(window=size, needed=needed))
    kept: deque[float] = deque(maxlen=size)
    for sample in samples:
        fast.add(sample, 0)
        kept.append(sample)
        over = [value < 500 if lower_is_worse else value > 500 for value in kept]
        assert fast.over == (sum(over) >= needed)
        assert fast.calm == (not any(over))
        well = [value >= 550 if lower_is_worse else value <= 450 for value in kept]
        assert fast.clear == (len(well) >= needed and all(well))


def test_every_threshold_of_the_configuration_becomes_one() -> None:
    found = ThresholdSettings(workload="a", latency_ms=1, throughput_min=2, cpu_percent=3, memory_percent=4)
    assert thresholds_of(found) == [
        Threshold("latency_ms", 1),
        Threshold("throughput", 2, lower_is_worse=True),
        Threshold("cpu_percent", 3),
        Threshold("memory_percent", 4),
    ]
    assert thresholds_of(ThresholdSettings(workload="a")) == []
