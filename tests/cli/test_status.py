"""`status` tells at a glance what is wrong, and then everything in tables that fit."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from components.cli.screen import console
from components.cli.status import ATTENTION_MAX, show
from components.overview.overview import Overview
from schemas.enums import Phase, Reason, SyncState
from tests.cli.fleet import NOW_MS, action, picture, status, use, well, workload


def printed(seen: Overview, screen: Console | None = None) -> list[str]:
    stream = io.StringIO()
    screen = screen or console(stream)
    screen.file = stream
    show(seen, screen)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def on_a_terminal(width: int = 80) -> Console:
    screen = console(io.StringIO())
    screen._force_terminal = True
    screen._width = width
    screen.no_color = True
    return screen


def test_all_is_well_is_the_first_line() -> None:
    assert printed(picture(well("hpc-1")))[0] == "✓ all is well"


def test_the_gravest_is_the_first_thing_said() -> None:
    seen = picture([*well("hpc-1"), workload("a", SyncState.DRIFT_DETECTED), workload("b", SyncState.FAILED)])

    assert printed(seen)[:3] == [
        "✗ 2 things need attention",
        "  b on hpc-1 FAILED: no reason given",
        "  a on hpc-1 drifted from its desired limits",
    ]


def test_many_things_are_counted_and_the_first_are_told() -> None:
    seen = picture([*well("hpc-1"), *(workload(f"w-{number}", SyncState.FAILED) for number in range(50))])
    lines = printed(seen)

    assert lines[0] == "✗ 50 things need attention"
    assert lines[2].startswith("  w-1 on"), "sorted as people do"
    assert lines[ATTENTION_MAX + 1] == f"  and {50 - ATTENTION_MAX} more"


def test_what_is_desired_in_force_and_used_stand_side_by_side() -> None:
    lines = printed(picture([*well("hpc-1"), workload("cam"), use("hpc-1", cam=1500)]))

    (row,) = [line for line in lines if " cam " in line]
    assert row.split()[:9] == [
        "hpc-1",
        "cam",
        "SYNCHRONIZED",
        "2000m",
        "512Mi",
        "2000m",
        "512Mi",
        "1500m",
        "150Mi",
    ]


def test_actions_under_way_are_told_with_what_they_wait_for() -> None:
    said = status("cam", Phase.WAITING, reason=Reason.INSUFFICIENT_CPU, message="needs 1000m more")
    lines = printed(picture([*well("hpc-1"), action("cam"), said], NOW_MS))

    (row,) = [line for line in lines if "PENDING" in line or "RUNNING" in line]
    assert "waiting" in row
    assert "3000m" in row
    assert row.endswith("INSUFFICIENT_CPU needs 1000m more")


def test_names_are_shown_whole_in_a_narrow_terminal() -> None:
    """They are told apart, and copied into other commands."""
    names = ("perception_camera-front", "perception_camera-rear")
    seen = picture([*well("hpc-1"), *map(workload, names)])
    rows = printed(seen, on_a_terminal(80))
    rows = rows[rows.index("workloads") :]

    assert not any("…" in row for row in rows)
    begin = rows[1].index("WORKLOAD")
    shown = "".join(row[begin : rows[1].index("STATE")].strip() for row in rows[2:])
    assert all(name in shown for name in names)


@pytest.mark.parametrize("width", [80, 160])
def test_in_a_terminal_texts_are_broken_at_words_and_rows_of_workloads_are_not_broken(width: int) -> None:
    failed = workload("sim-1", SyncState.FAILED).model_copy(
        update={"message": "the runtime said a lot of words " * 9}
    )
    seen = picture([*well("hpc-1"), failed, workload("sim-2"), use("hpc-1", **{"sim-2": 250})])
    lines = printed(seen, on_a_terminal(width))

    assert all(cell_len(line) <= width for line in lines)
    told = lines[1 : lines.index("")]
    assert len(told) > 1
    assert all(line.startswith("  ") for line in told)
    assert "".join(told).count("runtime") == 9, "no word is torn apart"
    assert [line for line in lines if "sim-2" in line and "64Mi" not in line and "25Mi" not in line] == []
