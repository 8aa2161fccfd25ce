"""When a worker ticks."""

from itertools import pairwise

import pytest

from components.shell.pace import IDLE_TICK_S, TICK_S, Pace


def ticks_until(pace: Pace, end: float) -> list[float]:
    """The moments of the ticks that take no time."""
    ticks = []
    while pace.next_at < end:
        ticks.append(pace.next_at)
        pace.ticked(pace.next_at)
    return ticks


def test_the_first_tick_is_due_at_once() -> None:
    assert Pace(7.0).next_at == 7.0


def test_ticks_of_an_idle_worker_come_further_and_further_apart_up_to_a_limit() -> None:
    ticks = ticks_until(Pace(0.0), 10.0)

    pauses = [after - before for before, after in pairwise(ticks)]
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(TICK_S)
    assert pauses[-1] == pytest.approx(IDLE_TICK_S)


def test_whatever_arrives_brings_the_next_tick_nearer() -> None:
    pace = Pace(0.0)
    last = ticks_until(pace, 10.0)[-1]

    pace.busy(last + 0.01)

    assert pace.next_at == pytest.approx(last + 0.01 + TICK_S)
    pace.ticked(pace.next_at)
    assert pace.next_at == pytest.approx(last + 0.01 + 2 * TICK_S)


def test_whatever_arrives_never_puts_a_tick_off() -> None:
    pace = Pace(0.0)
    pace.ticked(0.0)
    due = pace.next_at

    for hundredth in range(20):
        pace.busy(hundredth / 100)

    assert pace.next_at == due
