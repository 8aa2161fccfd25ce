"""CPU in use is what was used between two looks."""

from dataclasses import replace

from components.node_agent.runtime import Container, ContainerState, Enforced
from components.node_agent.usage import UsageMeter
from schemas.limits import Limits

APP = Container("app", "id", ContainerState.RUNNING, started_at=1_000_000)
SECOND_US = 1_000_000


def reading(cpu_s: float, memory_mib: int = 0) -> Enforced:
    return Enforced(Limits(), cpu_time_us=round(cpu_s * SECOND_US), memory_bytes=memory_mib * 1024 * 1024)


def test_the_first_look_counts_over_the_containers_life() -> None:
    assert UsageMeter().usage(APP, reading(50), 1.0, APP.started_at + 100_000).cpu == 500


def test_a_container_that_has_just_started_counts_as_idle_at_first() -> None:
    """The CPU time of a start, over the few milliseconds since, would be more than the machine has."""
    assert UsageMeter().usage(APP, reading(0.1), 1.0, APP.started_at + 10).cpu == 0


def test_later_looks_count_since_the_one_before() -> None:
    meter = UsageMeter()
    meter.usage(APP, reading(50), 1.0, APP.started_at + 100_000)
    assert meter.usage(APP, reading(53, memory_mib=7), 3.0, APP.started_at + 102_000).cpu == 1500


def test_a_look_right_after_another_tells_the_same_instead_of_noise() -> None:
    meter = UsageMeter()
    meter.usage(APP, reading(50), 1.0, APP.started_at + 100_000)
    meter.usage(APP, reading(51), 2.0, APP.started_at + 101_000)
    assert meter.usage(APP, reading(51.004), 2.001, APP.started_at + 101_001).cpu == 1000
    assert meter.usage(APP, reading(51.5), 3.0, APP.started_at + 102_000).cpu == 500


def test_after_a_restart_counting_begins_anew() -> None:
    meter = UsageMeter()
    meter.usage(APP, reading(50), 1.0, APP.started_at + 100_000)
    again = replace(APP, started_at=APP.started_at + 100_000)
    assert meter.usage(again, reading(1), 11.0, APP.started_at + 110_000).cpu == 100


def test_containers_that_are_gone_are_forgotten() -> None:
    meter = UsageMeter()
    meter.usage(APP, reading(50), 1.0, APP.started_at + 100_000)
    meter.keep_only(set())
    assert meter._samples == {}
