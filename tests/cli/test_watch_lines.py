"""`watch` without a terminal: one line for each change, for logs and scripts."""

import json
import signal
from pathlib import Path

import pytest

from components.cli.watch.lines import Lines
from components.overview.attention import attention
from components.overview.events import Event, Level
from schemas.codec import encode
from schemas.enums import Phase, SyncState
from tests.cli.fleet import NOW_MS, picture, status, well, workload
from tests.cli.system import NODE, Child, Configuration, configuration, publish, until
from tests.fixtures.broker import running_broker


def lines_until(child: Child, text: str) -> list[str]:
    """Its lines, up to the one with this text."""
    lines: list[str] = []
    while not lines or text not in lines[-1]:
        line = child.read_line()
        assert line, f"it ended before {text!r}: {child.out}{child.err}"
        lines.append(line)
    return lines


def test_a_scaling_is_told_line_by_line(system: Configuration) -> None:
    with system.child("watch") as child:
        first = lines_until(child, "")
        assert first[0].rstrip().endswith("Z good  all is well")

        assert system.cli("scale", "sim-3", "--cpu", "444m").exit_code == 0

        lines = lines_until(child, "COMPLETED")
        assert child.end(signal.SIGINT) == 0
    words = [line.split("Z ", 1)[1].rstrip() for line in lines]
    assert words[0] == f"busy  sim-3 on {NODE}: is to have 444m CPU (CLI)"
    assert f"good  sim-3 on {NODE}: SYNCHRONIZED" in words
    assert words[-1].startswith(f"good  sim-3 on {NODE}: COMPLETED; in force: 444m CPU, ")
    assert child.err == ""
    assert "\x1b" not in child.out


def test_as_json_each_line_is_an_object(system: Configuration) -> None:
    with system.child("watch", "--json") as child:
        lines_until(child, "all is well")
        assert system.cli("scale", "sim-3", "--cpu", "443m").exit_code == 0
        documents = [json.loads(line) for line in lines_until(child, "COMPLETED")]
        assert child.end(signal.SIGINT) == 0

    assert documents[0]["kind"] == "action"
    assert (documents[-1]["node"], documents[-1]["workload"]) == (NODE, "sim-3")
    assert documents[-1]["level"] == "good"
    assert documents[-1]["at_ms"] > NOW_MS - 10**12


def test_what_strangers_wrote_commands_no_terminal_as_json_either(capsys: pytest.CaptureFixture[str]) -> None:
    said = "\x1b[2J \x9b31m \u202e"
    Lines(as_json=True).event(Event(NOW_MS, Level.BAD, "state", said))

    line = capsys.readouterr().out
    assert line.rstrip("\n").isprintable()
    assert json.loads(line)["text"] == said


def test_a_lost_connection_is_told_and_its_return(tmp_path: Path) -> None:
    with running_broker() as broker:
        settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{broker.port}")
        publish(broker.port, *(encode(message) for message in well("hpc-1")))
        with settings.child("watch") as child:
            lines_until(child, "all is well")
            broker.kill()
            (lost,) = lines_until(child, "no connection")
            assert " bad   no connection, trying again: " in lost
            broker.start()
            lines_until(child, "connected again")
            publish(
                broker.port, encode(workload("cam", SyncState.APPLYING)), encode(workload("cam", SyncState.FAILED))
            )
            lines_until(child, "needs attention: cam on hpc-1 FAILED")
            assert child.end(signal.SIGINT) == 0


def test_a_reader_who_has_seen_enough_ends_it_without_a_trace(system: Configuration) -> None:
    with system.child("watch") as child:
        lines_until(child, "all is well")
        child.close_output()
        system.cli("scale", "sim-3", "--cpu", "442m")
        until(lambda: not child.running, "its end")
        assert child.finish() == 0
    assert child.err == ""


def test_a_need_is_told_when_it_comes_and_when_it_is_over_but_not_each_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines(as_json=False)
    seen = picture([*well("hpc-1"), status("cam", Phase.WAITING)], NOW_MS)
    lines.begin(attention(seen, NOW_MS), NOW_MS)
    for second in range(20):
        lines.needs(attention(seen, NOW_MS + second * 1000), NOW_MS + second * 1000)
    lines.needs([], NOW_MS + 20_000)

    said = [line.split("Z ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert said == [
        "good  all is well",
        "warn  needs attention: an action for cam on hpc-1 waits for 5 s",
        "good  no longer: an action for cam on hpc-1 waits for 19 s",
    ]


def test_what_strangers_sent_cannot_pretend_to_be_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Lines(as_json=False).event(
        Event(NOW_MS, Level.BAD, "state", "bad\n2027-01-01T00:00:00.000Z good  all is well")
    )

    assert len(capsys.readouterr().out.splitlines()) == 1
