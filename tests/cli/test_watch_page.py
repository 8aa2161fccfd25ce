"""The page of `watch`: every line fits, columns align, what is chosen is what is shown."""

import pytest
from rich.cells import cell_len

from components.cli.connection import Session
from components.cli.watch.figures import ASCII_OF
from components.cli.watch.page import Moment, page
from components.cli.watch.view import Order, Part, View
from components.cli.watch.watching import Watching
from components.overview.overview import Overview
from components.overview.words import natural
from components.settings import MonitoringSettings, Settings
from schemas.enums import ActionOutcome, ConnectionState, Phase, Reason, SyncState
from schemas.limits import Amount
from schemas.metrics import AppMetrics
from schemas.performance import Indicator, PerfDegraded
from schemas.topics import Role
from tests.cli.fleet import NOW_MS, action, capacity, component, picture, status, use, well, workload
from tests.shell.doubles import RecordingBus

SIZES = [(80, 24), (160, 50), (60, 10), (100, 30), (119, 33), (250, 80)]


def shown(
    seen: Overview, view: View | None = None, width: int = 80, height: int = 24, **moment: object
) -> list[str]:
    at = Moment("127.0.0.1:1883", NOW_MS, **moment)  # type: ignore[arg-type]  # keyword arguments of the test
    return [line.plain for line in page(seen, view or View(), at, width, height)]


def the_line(lines: list[str], beginning: str) -> str:
    (line,) = [line for line in lines if line[2:].startswith(beginning) or line.startswith(beginning)]
    return line


def names(lines: list[str]) -> list[str]:
    """Workloads shown, in order."""
    first = next(number for number, line in enumerate(lines) if line.startswith("  WORKLOAD")) + 1
    last = next(number for number, line in enumerate(lines) if line.startswith("actions"))
    return [line.split()[1] for line in lines[first:last] if line.strip()]


def busy() -> Overview:
    """Something of everything."""
    long = "a-workload-with-a-name-that-is-far-too-long-for-any-column-of-a-terminal"
    return picture(
        [
            *well("hpc-1", "hpc-2"),
            component(Role.NODE_AGENT, "hpc-2", ConnectionState.LOST),
            capacity("hpc-1", Amount(cpu=7900, memory=16_384)),
            workload("cam"),
            workload("nav", SyncState.FAILED, reason=Reason.RUNTIME_ERROR),
            workload("lidar", SyncState.DRIFT_DETECTED, actual_cpu=1000),
            workload("radar", SyncState.APPLYING, "hpc-2"),
            workload("idle", SyncState.UNKNOWN),
            workload(long),
            workload("pending", SyncState.PENDING).model_copy(update={"workload_id": "日本語の名前" * 9}),
            use("hpc-1", cam=1990, nav=20),
            AppMetrics(node="hpc-1", workload_id="cam", latency_ms=12.5),
            PerfDegraded(
                event_id="e",
                episode_id="p",
                node="hpc-1",
                workload_id="nav",
                indicators=(Indicator(metric="latency_ms", value=450, threshold=300),),
            ),
            action("cam"),
            status("cam", Phase.UPDATING),
            status("nav", Phase.WAITING, reason=Reason.INSUFFICIENT_CPU, message="needs 3000m\x1b[2J more\n" * 9),
            status("lidar", Phase.DONE, ActionOutcome.REJECTED, Reason.INFEASIBLE),
        ]
    )


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("part", list(Part))
@pytest.mark.parametrize("lost", [None, "the broker went away" * 20])
def test_the_page_has_exactly_the_lines_of_the_screen_and_none_is_wider(
    width: int, height: int, part: Part, lost: str | None
) -> None:
    lines = shown(busy(), View(part=part, text="a"), width, height, lost=lost)

    assert len(lines) == height
    assert [line for line in lines if cell_len(line) > width] == []


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_help_fits_too(width: int, height: int) -> None:
    lines = shown(busy(), View(help=True), width, height)

    assert len(lines) == height
    assert all(cell_len(line) <= width for line in lines)
    assert any("page down" in line for line in lines) or height < 20


def test_what_strangers_sent_is_shown_and_commands_no_terminal() -> None:
    text = "\n".join(shown(busy(), View(part=Part.ACTIONS), 250, 60))

    assert "needs 3000m\\x1b[2J more" in text
    assert "\x1b" not in text


def test_numbers_stand_below_their_heads() -> None:
    lines = shown(picture([*well("hpc-1"), workload("cam"), use("hpc-1", cam=1990)]))
    heads, row = the_line(lines, "WORKLOAD"), the_line(lines, "cam")

    ends = [heads.index(head) + 3 for head in ("DES", "ACT", "USE")]
    assert [row[:end].split()[-1] for end in ends] == ["2", "2", "1.99"]
    memory = heads.rindex("DES") + 3
    assert row[:memory].split()[-1] == "512M"


def test_a_wide_screen_has_full_words_bars_of_use_and_notes() -> None:
    lines = shown(busy(), width=200, height=50)

    cam = next(line for line in lines if line.startswith("● cam"))
    assert "SYNCHRONIZED" in cam
    assert "██████████" in cam, "1.99 of 2 CPUs is a full bar"
    assert "latency 12.5 ms" in cam
    assert any("RUNTIME_ERROR; degraded: latency_ms 450 (threshold 300)" in line for line in lines)


def test_bars_of_a_node_show_what_is_allocated_reserved_and_available() -> None:
    half = capacity("hpc-1", Amount(cpu=4000, memory=8192))
    row = the_line(shown(picture([*well("hpc-1"), half]), width=160), "hpc-1")

    cpu = row[row.index("cpu ") + 4 :].split(" ", 1)[0]
    assert cpu.count("█") == round(len(cpu) / 2)
    assert cpu.count("▒") == round(len(cpu) / 10)
    assert set(cpu) == {"█", "▒", "░"}
    assert "4 + 0.8 + 3.2 = 8" in row
    assert "3.2 of 8 free" in the_line(shown(picture([*well("hpc-1"), half])), "hpc-1")


def test_a_node_that_promised_more_than_it_has_shows_it_in_red() -> None:
    over = capacity("hpc-1", Amount(cpu=7900, memory=8192))
    lines = page(picture([*well("hpc-1"), over]), View(), Moment("b", NOW_MS), 160, 24)
    (row,) = [line for line in lines if line.plain.startswith("● hpc-1")]

    assert "7.9 + 0.8 > 8" in row.plain
    red = [row.plain[span.start : span.end] for span in row.spans if span.style == "bold red"]
    assert any("█" in part for part in red)


def test_a_node_without_its_agent_says_so() -> None:
    for width in (80, 160):
        lines = shown(busy(), View(part=Part.NODES), width)
        ready, lost = the_line(lines, "hpc-1   "), the_line(lines, "hpc-2   ")
        assert "agent lost" in lost
        assert ready.index("cpu ") == lost.index("cpu "), "bars stand below each other"
        assert ready.index("mem ") == lost.index("mem ")


def test_all_is_well_or_what_is_not() -> None:
    assert shown(picture(well("hpc-1")))[1].startswith("attention  ✓ all is well")
    lines = shown(busy(), View(part=Part.ATTENTION), 160, 50)
    assert lines[1].startswith("attention  ✗ ")
    assert lines[2].startswith("✗ the agent of hpc-2 is lost")


def test_a_need_that_is_too_long_for_one_line_goes_on_in_a_second() -> None:
    lines = shown(busy(), View(part=Part.ATTENTION))

    assert lines[2].startswith("✗ the agent of hpc-2 is lost: nothing can be scaled there.")
    assert "piriscale forget-node hpc-2" in lines[3]


def test_actions_that_work_come_before_those_that_wait_and_those_that_ended() -> None:
    lines = shown(busy(), View(part=Part.ACTIONS), 160, 50)
    title = the_line(lines, "actions")
    rows = lines[lines.index(title) + 1 :][:3]

    assert title.startswith("actions  1 running  1 waiting  1 ended in the last minute")
    assert [row.split()[1] for row in rows] == ["cam", "nav", "lidar"]
    assert "updating" in rows[0]
    assert "→ 3000m CPU" in rows[0]
    assert "waiting" in rows[1]
    assert "REJECTED" in rows[2]
    assert "INFEASIBLE" in rows[2]


def test_events_are_told_the_latest_first() -> None:
    seen = picture([*well("hpc-1"), workload("cam", SyncState.APPLYING)], NOW_MS - 5_000)
    seen.hear(workload("cam"), NOW_MS - 1_000)
    lines = shown(seen)
    first, second = lines[lines.index(the_line(lines, "events")) + 1 :][:2]

    assert "cam on hpc-1" in first
    assert "SYNCHRONIZED" in first
    assert "APPLYING" in second


def fleet(count: int = 30) -> Overview:
    return picture(
        [
            *well("hpc-1", "hpc-2"),
            *(workload(f"cam-{number}", node=f"hpc-{number % 2 + 1}") for number in range(count)),
            workload("nav", SyncState.FAILED),
        ]
    )


def test_names_are_sorted_as_people_do() -> None:
    assert names(shown(fleet(12), height=50))[:12] == [f"cam-{number}" for number in range(12)]
    assert sorted(["a10", "a9", "b", "a"], key=natural) == ["a", "a9", "a10", "b"]


def test_a_name_chooses_workloads_and_nodes_by_a_part_of_it() -> None:
    lines = shown(fleet(), View(text="NAV"))

    assert names(lines) == ["nav"]
    assert the_line(lines, "hpc-1   "), "the node it is on is shown with it"
    assert not [line for line in lines if line[2:].startswith("hpc-2")]
    assert "1 of 31" in the_line(lines, "workloads")
    assert "name has 'NAV'" in the_line(lines, "workloads")


def test_a_node_chooses_what_is_on_it() -> None:
    view = View()
    shown(fleet(4), view)
    view.press("n")
    view.press("n")

    lines = shown(fleet(4), view)

    assert view.node == "hpc-2"
    assert names(lines) == ["cam-1", "cam-3"]
    assert not [line for line in lines if line.startswith("● hpc-1")]


def test_only_what_needs_attention_can_be_shown() -> None:
    lines = shown(fleet(), View(only_attention=True))

    assert names(lines) == ["nav"]
    assert "only what needs attention" in the_line(lines, "workloads")


def test_workloads_can_be_sorted_by_state_use_and_age() -> None:
    seen = picture(
        [
            *well("hpc-1"),
            workload("a", since_ms=NOW_MS - 90_000),
            workload("b", SyncState.FAILED, since_ms=NOW_MS - 80_000),
            workload("c", since_ms=NOW_MS - 1_000),
            workload("d", SyncState.UNKNOWN),
            use("hpc-1", a=100, b=5, c=1500),
        ]
    )

    assert names(shown(seen, View(order=Order.STATE))) == ["b", "a", "c", "d"]
    assert names(shown(seen, View(order=Order.CPU))) == ["c", "a", "b", "d"]
    assert names(shown(seen, View(order=Order.MEMORY)))[0] == "c"
    assert names(shown(seen, View(order=Order.AGE)))[0] == "c"
    assert names(shown(seen, View(order=Order.NAME, reverse=True))) == ["d", "c", "b", "a"]


def test_more_rows_than_lines_are_scrolled_and_the_title_says_where_one_is() -> None:
    view = View()
    seen = fleet()
    first = names(shown(seen, view))
    assert f"1–{len(first)} of 31" in the_line(shown(seen, view), "workloads")

    view.press("page down")
    second = names(shown(seen, view))
    assert second[0] == f"cam-{len(first)}"

    view.press("G")
    last = names(shown(seen, view))
    assert last[-1] == "nav"
    assert "of 31" in the_line(shown(seen, view), "workloads")
    view.press("home")
    assert names(shown(seen, view)) == first


def test_a_list_that_became_shorter_is_not_scrolled_into_the_void() -> None:
    view = View()
    shown(fleet(), view)
    view.press("end")

    assert len(names(shown(fleet(3), view))) == 4


def test_the_chosen_part_gets_the_lines() -> None:
    seen = fleet()
    for _ in range(2):
        for number in range(30):
            seen.hear(workload(f"cam-{number}", SyncState.APPLYING, f"hpc-{number % 2 + 1}"), NOW_MS)
            seen.hear(workload(f"cam-{number}", node=f"hpc-{number % 2 + 1}"), NOW_MS)

    usual = len(names(shown(seen)))
    less = len(names(shown(seen, View(part=Part.EVENTS))))

    assert usual > less >= 3, "and the others stay in sight"


def test_a_lost_connection_is_said_first_and_what_is_shown_is_of_the_past() -> None:
    at = Moment("127.0.0.1:1883", NOW_MS, lost="connection refused", lost_ms=NOW_MS - 12_000)
    lines = page(busy(), View(), at, 80, 24)

    assert "✗ no connection for 12 s, trying again: connection refused" in lines[0].plain
    assert all(any(span.style == "dim" for span in line.spans) for line in lines[1:-1] if line.plain.strip())
    assert "live" not in lines[0].plain


def test_while_a_name_is_typed_the_last_line_shows_it() -> None:
    lines = shown(fleet(), View(typing=True, text="ca"))

    assert lines[-1].startswith(" name has: ca▏")
    assert "enter keeps it, esc clears it" in lines[-1]


def test_twenty_thousand_workloads_are_drawn_by_what_is_seen_of_them() -> None:
    seen = picture([*well("hpc-1"), *(workload(f"w-{number}") for number in range(20_000))])

    assert len(names(shown(seen, View(part=Part.WORKLOADS)))) < 20


def test_every_sign_has_a_letter_for_terminals_that_know_no_unicode() -> None:
    text = "".join(
        line
        for view in (View(), View(help=True), View(typing=True), View(reverse=True))
        for line in shown(busy(), view, 160, 50)
        if "日本" not in line
    )

    assert text.translate(ASCII_OF).isascii()


def test_a_degradation_that_is_told_seldom_by_configuration_outlasts_a_lost_connection() -> None:
    settings = Settings(monitoring=MonitoringSettings(repeat_s=600))
    seen = Watching(Session(settings.broker, (), RecordingBus), settings).seen
    seen.hear(PerfDegraded(event_id="e", episode_id="p", node="hpc-1", workload_id="cam"), NOW_MS)
    seen.reconnected(NOW_MS)
    for later_ms in range(0, 1_000_000, 200_000):
        seen.hear(use("hpc-1", cam=100), NOW_MS + later_ms)

    assert list(seen.degraded) == [("hpc-1", "cam")]
