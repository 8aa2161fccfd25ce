"""Rows, differences of pictures, words for reasons, and streams to slow browsers."""

import asyncio
import re

from hypothesis import given
from hypothesis import strategies as st

from components.dashboard import picture as shown
from components.dashboard.assets import FOLDER, read_assets
from components.dashboard.picture import Picture, difference
from components.dashboard.stream import FRAMES_WAITING_MAX, Stream, Streams
from components.dashboard.words import MEANING
from components.overview.overview import Overview
from components.overview.timeline import Timelines
from schemas.enums import Reason, SyncState
from tests.dashboard.desk import state

ROWS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2).map(lambda n: {"n": n}))
SECTIONS = st.dictionaries(st.sampled_from(["nodes", "workloads"]), ROWS)


@given(SECTIONS, SECTIONS)
def test_a_difference_leads_from_any_picture_to_any_other_of_the_same_sections(
    before: shown.Sections, after: shown.Sections
) -> None:
    after = {**{section: {} for section in before}, **after}
    change = difference(before, after)

    made = {section: dict(rows) for section, rows in before.items()}
    for section, keys in change.gone.items():
        for key in keys:
            del made[section][key]
    for section, rows in change.put.items():
        made.setdefault(section, {}).update(rows)

    assert made == {section: rows for section, rows in after.items() if rows or section in before}
    assert bool(change) == (made != before)


def test_every_reason_has_words() -> None:
    assert set(MEANING) == set(Reason)
    assert all(text.endswith(".") and len(text) < 100 for text in MEANING.values())
    assert len(set(MEANING.values())) == len(Reason)


def test_of_too_many_workloads_those_in_trouble_are_shown() -> None:
    seen = Overview()
    for number in range(shown.WORKLOADS_SHOWN_MAX + 50):
        seen.hear(state(f"w-{number}"))
    seen.hear(state("ill", sync_state=SyncState.FAILED, reason=Reason.RUNTIME_ERROR))

    sections = Picture(scale_form=True).sections(seen, Timelines(), 0)

    assert len(sections["workloads"]) == shown.WORKLOADS_SHOWN_MAX
    assert "hpc-1/ill" in sections["workloads"]
    assert sections["about"]["page"]["workloads"] == shown.WORKLOADS_SHOWN_MAX + 51


def test_rows_of_workloads_that_did_not_change_are_not_made_again() -> None:
    seen, picture = Overview(), Picture(scale_form=True)
    seen.hear(state("a"))
    seen.hear(state("b"))
    before = picture.sections(seen, Timelines(), 0)["workloads"]
    seen.hear(state("b", generation=9))
    after = picture.sections(seen, Timelines(), 0)["workloads"]

    assert after["hpc-1/a"] is before["hpc-1/a"]
    assert after["hpc-1/b"]["generation"] == 9


def test_a_browser_that_does_not_keep_up_is_cut_off_and_keeps_no_more_memory() -> None:
    async def slow() -> tuple[int, bool]:
        stream = Stream(asyncio.get_running_loop())
        for number in range(FRAMES_WAITING_MAX * 4):
            stream.send(b"%d" % number)
        await asyncio.sleep(0)
        stream.close()
        return len([frame async for frame in stream.frames()]), stream.cut_off

    assert asyncio.run(slow()) == (0, True)


def test_a_browser_that_keeps_up_gets_everything_in_order() -> None:
    async def quick() -> list[bytes]:
        stream = Stream(asyncio.get_running_loop())
        for number in range(FRAMES_WAITING_MAX - 1):
            stream.send(b"%d" % number)
        stream.close()
        return [frame async for frame in stream.frames()]

    assert asyncio.run(quick()) == [b"%d" % number for number in range(FRAMES_WAITING_MAX - 1)]


def test_only_so_many_browsers_watch_at_a_time() -> None:
    async def crowd() -> list[bool]:
        streams = Streams(2)
        first, second = streams.open(), streams.open()
        third = streams.open()
        assert first is not None
        streams.closed(first)
        fourth = streams.open()
        streams.end()
        return [one is not None for one in (first, second, third, fourth, streams.open())]

    assert asyncio.run(crowd()) == [True, True, False, True, False]


def test_nothing_of_the_page_comes_from_elsewhere() -> None:
    assets = read_assets()
    assert {"/", "/app.js", "/base.css", "/vendor/uplot/uPlot.iife.min.js"} <= set(assets)
    for path, asset in assets.items():
        text = asset.body.decode()
        loaded = re.findall(r"(?:src|href)=\"([^\"]+)\"|url\(([^)]+)\)|@import|from '([^']+)'", text)
        found = [one for groups in loaded for one in groups if one]
        assert not [one for one in found if "//" in one and "vendor" not in path], path
    assert (FOLDER / "vendor" / "uplot" / "LICENSE").read_text().startswith("The MIT License")


def test_licences_lie_beside_the_files_and_are_not_pages() -> None:
    assert not [path for path in read_assets() if "LICENSE" in path]
