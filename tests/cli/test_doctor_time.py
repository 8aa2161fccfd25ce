"""`doctor` comes back whatever hangs: the worst moment is when everything does, and then it is needed."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from components.cli.doctor.checks import Check, run_all
from components.cli.doctor.examination import checks_of
from components.cli.doctor.finding import Finding, Level, ok
from components.settings import Settings
from tests.cli.findings import only_wrong
from tests.cli.system import Configuration

TOTAL_S = 30.0


def check(run: object, within_s: float = 5.0, area: str = "disk") -> Check:
    return Check(area, run, within_s, "see whether it hangs")  # type: ignore[arg-type]  # some are to fail


def test_what_hangs_is_a_finding_and_holds_up_nobody_else() -> None:
    release = threading.Event()

    def hang() -> list[Finding]:
        release.wait(TOTAL_S)
        return [ok("disk", "too late")]

    began = time.monotonic()
    findings = run_all([check(hang, 0.2), check(lambda: [ok("broker", "there")], area="broker")])
    elapsed_s = time.monotonic() - began
    release.set()

    assert elapsed_s < TOTAL_S / 3
    assert only_wrong(findings).text == "no answer within 0.2 s"
    assert findings[1].level is Level.OK


def test_a_check_that_breaks_is_a_finding_and_the_others_are_told() -> None:
    def broken() -> list[Finding]:
        raise ZeroDivisionError("nobody thought of that")

    findings = run_all([check(broken), check(lambda: [ok("broker", "there")], area="broker")])

    assert "nobody thought of that" in only_wrong(findings).text
    assert findings[1].level is Level.OK


def test_the_checks_begin_together_so_that_the_longest_is_the_time_for_all() -> None:
    both = threading.Barrier(2, timeout=5)

    def meet() -> list[Finding]:
        both.wait()
        return []

    assert run_all([check(meet), check(meet)]) == []


def test_no_check_may_take_longer_than_half_a_minute() -> None:
    assert max(one.within_s for one in checks_of(Settings(), ())) < TOTAL_S


@contextmanager
def silence(family: int, address: object) -> Iterator[socket.socket]:
    """Takes connections, and never answers."""
    with socket.socket(family) as listening:
        listening.bind(address)  # type: ignore[arg-type]  # as the family wants it
        listening.listen(100)
        yield listening


@pytest.mark.slow
def test_everything_hangs_and_the_doctor_still_comes_back_in_time(tmp_path: Path) -> None:
    path = tmp_path / "piriscale.toml"
    podman = tmp_path / "podman.sock"
    with silence(socket.AF_INET, ("127.0.0.1", 0)) as broker, silence(socket.AF_UNIX, str(podman)):
        path.write_text(
            f"[broker]\nurl = 'mqtt://127.0.0.1:{broker.getsockname()[1]}'\n"
            f"[node_agent]\npodman_url = 'unix://{podman}'\n"
        )
        began = time.monotonic()
        with Configuration(path, 1).child("doctor") as child:
            code = child.finish()
        elapsed_s = time.monotonic() - began

    assert elapsed_s < TOTAL_S
    assert code == 1
    assert "✗ broker" in child.out
    assert "✗ podman" in child.out
