"""`watch` in a real terminal, on a running system."""

import os
import re
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from rich.cells import cell_len

from broker.plain import PlainClient
from components.cli.watch.watching import REDRAW_S
from schemas.codec import encode
from schemas.enums import SyncState
from tests.cli.fleet import well, workload
from tests.cli.pane import LEFT, Pane, watching
from tests.cli.system import Configuration, configuration, publish, retained, until
from tests.fixtures.broker import RunningBroker, running_broker

SIZES = [(80, 24), (160, 50)]


def row(pane: Pane, name: str) -> str:
    """The row of a workload; empty when there is none."""
    return next((line for line in pane.lines if line[2:].startswith(f"{name} ")), "")


def clock_at_the_edge(pane: Pane, width: int) -> bool:
    return pane.lines[0].endswith("UTC") and cell_len(pane.lines[0]) == width


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_scaling_is_seen_as_it_happens(system: Configuration, width: int, height: int) -> None:
    with watching(system, width, height) as pane:
        pane.wait("sim-3")
        assert "✓ all is well" in pane.text
        cpu = f"{width + 500}m"

        assert system.cli("scale", "sim-2", "--cpu", cpu).exit_code == 0

        pane.wait(f"COMPLETED; in force: {cpu} CPU"[: width - 34])
        until(lambda: "sync" in row(pane, "sim-2").lower(), "the state of sim-2")
        assert f"{(width + 500) / 1000:.3g}" in row(pane, "sim-2").split()
        lines = pane.lines
        assert len(lines) == height
        assert lines[0].endswith(" UTC")
        assert cell_len(lines[0]) == width, "the clock stands at the edge, uncut"
        assert [
            part for part in ("attention", "nodes", "workloads", "actions", "events") if part not in pane.text
        ] == []
        assert lines[-1].startswith("q quit")
        assert re.search(r"cpu [█▒░]+ ", pane.text)
        assert "\x1b[32m●" in pane.coloured, "green means good"


def test_it_leaves_the_terminal_as_it_was(system: Configuration) -> None:
    with watching(system) as pane:
        pane.press("q")

        pane.wait(f"{LEFT} 0")
        assert pane.given_back
        pane.type("stty -a")
        pane.press("Enter")
        pane.wait(" icanon ")
        assert " echo " in pane.text


def test_ctrl_c_is_a_way_to_leave_and_no_failure(system: Configuration) -> None:
    with watching(system) as pane:
        pane.press("C-c")

        pane.wait(f"{LEFT} 0")
        assert pane.given_back
        assert "Traceback" not in pane.text


@pytest.mark.slow
def test_a_signal_that_ends_it_restores_the_terminal(system: Configuration, tmp_path: Path) -> None:
    with watching(system) as pane:
        pane.press("C-z")
        pane.wait("Stopped")
        pane.type(f"jobs -p > {tmp_path}/pid; fg")
        pane.press("Enter")
        pane.wait("● live")
        pid = int((tmp_path / "pid").read_text())

        os.kill(pid, signal.SIGTERM)

        until(lambda: pane.given_back, "the terminal is given back")
        pane.type("stty -a")
        pane.press("Enter")
        pane.wait(" icanon ")
        assert "Traceback" not in pane.text


@pytest.mark.slow
def test_stopped_with_ctrl_z_it_gives_the_shell_its_terminal_and_goes_on_later(system: Configuration) -> None:
    with watching(system) as pane:
        pane.press("C-z")
        pane.wait("Stopped")
        assert pane.given_back
        pane.type("stty -a")
        pane.press("Enter")
        pane.wait(" icanon ")

        pane.type("fg")
        pane.press("Enter")

        pane.wait("● live")
        assert not pane.given_back
        pane.press("?")
        pane.wait("Keys")


def test_keys_filter_sort_and_help(system: Configuration) -> None:
    with watching(system) as pane:
        pane.wait("sim-3")

        pane.type("/m-2")
        pane.wait("name has: m-2")
        pane.press("Enter")
        pane.wait("1 of 3")
        assert row(pane, "sim-2")
        assert not row(pane, "sim-1")

        pane.press("Escape")
        until(lambda: bool(row(pane, "sim-1")), "all workloads again")
        pane.press("a")
        pane.wait("only what needs attention")
        assert not row(pane, "sim-1")
        pane.press("a", "s")
        pane.wait("sorted by node")
        pane.press("n")
        pane.wait("node hpc-1")
        pane.press("?")
        pane.wait("choose the part to scroll")
        pane.press("Enter")
        pane.wait_gone("choose the part to scroll")


@pytest.mark.slow
def test_a_window_that_changes_its_size_is_filled_anew(system: Configuration) -> None:
    with watching(system) as pane:
        for width, height in ((132, 40), (72, 18), (80, 24)):
            pane.resize(width, height)
            until(partial(clock_at_the_edge, pane, width), f"the clock at column {width}")
            assert pane.lines[-1].startswith("q quit")
            assert len(pane.lines) == height


def test_more_workloads_than_lines_are_scrolled(alone: Configuration, broker: RunningBroker) -> None:
    states = [workload(f"cam-{number:02}") for number in range(40)]
    with retained(broker.port, *well("hpc-1"), *states), watching(alone) as pane:
        until(lambda: "of 40" in pane.text, "all workloads are known")
        assert row(pane, "cam-00")
        assert not row(pane, "cam-39")

        pane.press("End")

        until(lambda: bool(row(pane, "cam-39")), "the last workload")
        assert not row(pane, "cam-00")
        pane.press("PageUp")
        until(lambda: not row(pane, "cam-39"), "a page before")
        pane.press("Home")
        until(lambda: bool(row(pane, "cam-00")), "the first workload")


def test_what_needs_attention_is_said_in_words(alone: Configuration, broker: RunningBroker) -> None:
    failed = workload("cam", SyncState.FAILED).model_copy(update={"message": "runc: exit code 1\x1b[2J"})
    with retained(broker.port, *well("hpc-1"), failed), watching(alone) as pane:
        pane.wait("✗ 1 thing needs attention")
        assert "✗ cam on hpc-1 FAILED: runc: exit code 1\\x1b[2J" in pane.text


@pytest.mark.slow
def test_a_lost_broker_is_said_and_connected_to_again(tmp_path: Path) -> None:
    with running_broker() as broker:
        settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{broker.port}")
        publish(broker.port, *(encode(message) for message in (*well("hpc-1"), workload("cam"))))
        with watching(settings) as pane:
            until(lambda: bool(row(pane, "cam")), "the workload")
            broker.kill()

            pane.wait("✗ no connection for")
            assert row(pane, "cam"), "what was known is still shown"

            broker.start()
            publish(broker.port, *(encode(message) for message in (*well("hpc-1"), workload("nav"))))
            pane.wait("● live")
            until(lambda: bool(row(pane, "nav")), "what is new")
            pane.press("q")
            pane.wait(f"{LEFT} 0")


@pytest.mark.slow
def test_a_flood_of_messages_is_drawn_a_few_times_a_second(
    alone: Configuration, broker: RunningBroker, tmp_path: Path
) -> None:
    record = tmp_path / "output"
    with retained(broker.port, *well("hpc-1")), watching(alone) as pane:
        pane.record(record)
        seconds, sent = 3.0, 0
        with PlainClient(broker.host, broker.port, "flood") as client:
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                state = SyncState.APPLYING if sent % 2 else SyncState.SYNCHRONIZED
                client.publish("resources/state/hpc-1/cam", encode(workload("cam", state)).payload, 1)
                sent += 1
                time.sleep(0.01)  # as fast as no screen should follow
        until(lambda: "cam" in pane.text, "the flood arrived")
        newest_event = next(number for number, line in enumerate(pane.lines, 1) if line.startswith("events")) + 1
        draws = record.read_bytes().count(f"\x1b[{newest_event};1H".encode())

    assert sent > 100
    assert 1 <= draws <= (seconds + 2) / REDRAW_S


def test_without_a_broker_it_says_so_and_leaves_the_terminal_alone(tmp_path: Path) -> None:
    settings = configuration(tmp_path, url="mqtt://127.0.0.1:1")

    result = settings.cli("watch")

    assert result.exit_code == 1
    assert "piriscale up" in result.stderr
    assert "\x1b" not in result.stdout
