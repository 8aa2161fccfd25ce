"""`piriscale demo`, as a user runs it, and what it leaves behind: nothing."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from components.node_agent.podman.private import missing
from tests.fixtures.broker import has_mosquitto
from tests.requirements import require

COMMAND = [str(Path(sys.executable).with_name("piriscale")), "demo"]
WITHIN_S = 110


def left_behind(folder: Path) -> list[str]:
    """Files, mounts and processes that name the folder."""
    found = [str(path) for path in folder.iterdir()]
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # ended while we looked
        found += [command] if str(folder) in command else []
    return found


def start(folder: Path, *options: str, path: str | None = None) -> "subprocess.Popen[str]":
    environment = {**os.environ, "TMPDIR": str(folder)}
    if path is not None:
        environment["PATH"] = path
    return subprocess.Popen(
        [*COMMAND, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def folder() -> "Path":
    """A short name, since a socket below it has at most 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="ps-"))


@pytest.mark.parametrize("simulated", [False, True], ids=["podman", "simulated"])
def test_the_demo_makes_a_slow_application_fast_and_says_so(folder: Path, simulated: bool) -> None:
    require(has_mosquitto(), "mosquitto")
    require(simulated or missing() is None, missing() or "")
    demo = start(folder, "--json", *(["--simulated"] if simulated else []))
    out, err = demo.communicate(timeout=WITHIN_S)
    assert demo.returncode == 0, err
    told = json.loads(out.splitlines()[-1])
    assert told["simulated"] is simulated
    assert told["runtime"].startswith("simulated" if simulated else "podman ")
    assert told["sync_state"] == "SYNCHRONIZED"
    assert told["after"]["cpu_limit"] >= 2 * told["before"]["cpu_limit"]
    assert told["after"]["memory_limit"] == told["before"]["memory_limit"]
    assert told["after"]["latency_ms_p50"] < told["threshold_ms"] < told["before"]["latency_ms_p50"]
    assert told["event_to_verified_ms"] > 0
    assert told["action_id"]
    assert left_behind(folder) == []
    folder.rmdir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_the_middle_it_cleans_up(folder: Path, number: signal.Signals) -> None:
    require(has_mosquitto(), "mosquitto")
    require(missing() is None, missing() or "")
    demo = start(folder)
    assert demo.stdout is not None
    for line in demo.stdout:
        if "an ECU measures" in line:
            break
    time.sleep(0.3)
    demo.send_signal(number)
    demo.communicate(timeout=WITHIN_S)
    assert demo.returncode == 130
    assert left_behind(folder) == []
    folder.rmdir()


def test_a_reader_who_has_seen_enough_ends_it_and_it_cleans_up(folder: Path) -> None:
    require(has_mosquitto(), "mosquitto")
    demo = start(folder, "--simulated")
    assert demo.stdout is not None
    assert demo.stderr is not None
    for line in demo.stdout:
        if "an ECU measures" in line:
            break
    demo.stdout.close()
    said = demo.stderr.read()
    demo.stderr.close()
    assert (demo.wait(timeout=WITHIN_S), said) == (0, "")
    assert left_behind(folder) == []
    folder.rmdir()


def test_its_result_counts_though_nobody_reads_the_story(folder: Path) -> None:
    # Else a script that reads the JSON saw exit code 0, and no JSON.
    require(has_mosquitto(), "mosquitto")
    demo = start(folder, "--json", "--simulated")
    assert demo.stdout is not None
    assert demo.stderr is not None
    demo.stderr.close()
    out = demo.stdout.read()
    demo.stdout.close()
    assert demo.wait(timeout=WITHIN_S) == 0
    assert json.loads(out)["sync_state"] == "SYNCHRONIZED"
    assert left_behind(folder) == []
    folder.rmdir()


def test_without_podman_it_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    require(has_mosquitto(), "mosquitto")
    require(os.geteuid() == 0, "root")
    demo = start(folder, path=str(tmp_path))
    out, err = demo.communicate(timeout=WITHIN_S)
    assert demo.returncode == 1
    said = out + err
    if "podman" not in said:  # found where administrators' programs are, though PATH has it not
        pytest.skip("Podman is in a folder that is always searched")
    assert "apt-get install podman" in said
    assert "--simulated" in said
