"""A limit must leave room for what a container used a moment ago, not only for what it uses now."""

from components.node_agent.podman.peaks import REMEMBERED_S, MemoryUse, RecentPeaks

RUN = ("c" * 64, 4711)


def test_a_container_that_uses_little_now_is_remembered_for_what_it_used_a_moment_ago() -> None:
    peaks = RecentPeaks()
    peaks.seen(RUN, MemoryUse(64), 0.0)
    assert peaks.seen(RUN, MemoryUse(4), 1.0) == 64
    assert peaks.seen(RUN, MemoryUse(16), 2.0) == 64


def test_what_was_freed_a_minute_ago_may_be_taken_away() -> None:
    peaks = RecentPeaks()
    peaks.seen(RUN, MemoryUse(64), 0.0)
    peaks.seen(RUN, MemoryUse(32), 1.0)
    assert peaks.seen(RUN, MemoryUse(4), REMEMBERED_S + 0.5) == 32
    assert peaks.seen(RUN, MemoryUse(4), REMEMBERED_S + 1.5) == 4


def test_a_restarted_container_begins_anew() -> None:
    peaks = RecentPeaks()
    peaks.seen(RUN, MemoryUse(64, highest=64), 0.0)
    assert peaks.seen((RUN[0], 4712), MemoryUse(4, highest=4), 1.0) == 4


def test_growth_is_seen_at_once() -> None:
    peaks = RecentPeaks()
    peaks.seen(RUN, MemoryUse(4), 0.0)
    assert peaks.seen(RUN, MemoryUse(64), 1.0) == 64


def test_what_was_used_before_the_first_look_counts_for_a_minute() -> None:
    """An agent that has just started has not looked before."""
    peaks = RecentPeaks()
    assert peaks.seen(RUN, MemoryUse(4, highest=64), 0.0) == 64
    assert peaks.seen(RUN, MemoryUse(4, highest=64), REMEMBERED_S + 1) == 4


def test_what_was_used_between_two_looks_counts() -> None:
    peaks = RecentPeaks()
    peaks.seen(RUN, MemoryUse(4, highest=8), 0.0)
    assert peaks.seen(RUN, MemoryUse(4, highest=64), REMEMBERED_S + 1) == 64


def test_page_cache_that_can_be_dropped_needs_no_room() -> None:
    assert RecentPeaks().seen(RUN, MemoryUse(4, droppable=100, highest=110), 0.0) == 10
