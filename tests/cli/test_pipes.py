"""A reader, such as `head`, has seen enough and closes the pipe: no trace, and an exit code that is true."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from components.cli.demo.recorder import Heard, Recorder
from schemas.codec import encode
from schemas.enums import ActionOutcome, Phase
from schemas.scaling import ScalingControl
from tests.cli.system import PATIENCE_S, PROGRAM, Configuration
from tests.cli.test_scale import controller, status_of
from tests.fixtures.broker import RunningBroker

SCALE = ("scale", "cam", "--node", "n", "--cpu", "1")


@contextmanager
def closed_pipe() -> Iterator[int]:
    """The end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


def unread(
    settings: Configuration, *arguments: str, errors: int = subprocess.PIPE
) -> "subprocess.CompletedProcess[str]":
    """Run a command whose output nobody reads."""
    with closed_pipe() as pipe:
        return finished(settings, *arguments, out=pipe, errors=pipe if errors == subprocess.STDOUT else errors)


def finished(
    settings: Configuration, *arguments: str, out: int = subprocess.PIPE, errors: int
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=errors,
        env={**os.environ, **settings.environment},
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("option", [(), ("--json",)], ids=["text", "json"])
def test_who_has_seen_enough_ends_a_command_as_if_it_were_done(
    alone: Configuration, option: tuple[str, ...]
) -> None:
    result = unread(alone, "status", *option)

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("option", [(), ("--json",)], ids=["text", "json"])
def test_a_rejected_scaling_is_no_success_because_nobody_reads_of_it(
    alone: Configuration, broker: RunningBroker, option: tuple[str, ...]
) -> None:
    with controller(broker, lambda action: [status_of(action, Phase.DONE, ActionOutcome.REJECTED)]):
        result = unread(alone, *SCALE, *option)

    assert (result.returncode, result.stderr) == (3, "")


def test_nor_is_a_scaling_that_nobody_carried_out(alone: Configuration) -> None:
    assert unread(alone, *SCALE, "--wait", "700ms", errors=subprocess.STDOUT).returncode == 5


MISTAKES = (("scale", "x", "--cpu", "nonsense"), ("-c", "/nonexistent.toml", "status"), ("scale",))


@pytest.mark.parametrize("arguments", MISTAKES, ids=["value", "configuration", "usage"])
def test_a_mistake_is_one_though_nobody_reads_of_it(alone: Configuration, arguments: tuple[str, ...]) -> None:
    # Else a script took its own mistake for a command that failed, and tried it again.
    with closed_pipe() as pipe:
        result = finished(alone, *arguments, errors=pipe)

    assert (result.returncode, result.stdout) == (2, "")


def test_or_though_there_is_no_room_to_say_so(alone: Configuration) -> None:
    with Path("/dev/full").open("w") as full:
        assert finished(alone, *MISTAKES[0], errors=full.fileno()).returncode == 2


def test_the_demo_goes_on_hearing_and_its_story_ends_when_nobody_reads_it() -> None:
    def show(_heard: Heard) -> None:
        raise BrokenPipeError

    frame = encode(ScalingControl(paused=True))
    recorder = Recorder(show)
    recorder.hear(frame.topic, frame.payload, False)

    with pytest.raises(BrokenPipeError):
        recorder.wait(lambda: False, PATIENCE_S)
    assert recorder.latest(ScalingControl) is not None
