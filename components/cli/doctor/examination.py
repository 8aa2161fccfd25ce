"""All checks, one after the other, and their report."""

import json
from dataclasses import asdict
from typing import Final

from rich.console import Console

from components.cli.doctor.broker import check_broker
from components.cli.doctor.cgroups import check_cgroups, read_cgroups
from components.cli.doctor.finding import Finding, Level
from components.cli.doctor.podman import check_podman
from components.cli.doctor.storage import check_storage
from components.cli.errors import EXIT_FAILURE, EXIT_OK
from components.cli.screen import console
from components.settings import Settings

_MARKS: Final = {Level.OK: ("✓", "green"), Level.NOTE: ("•", "yellow"), Level.WRONG: ("✗", "bold red")}


def examine(settings: Settings, *, as_json: bool) -> int:
    """Look at everything and say what was found. Exit code 1 when something is wrong."""
    cgroups = read_cgroups()
    findings = [
        *check_broker(settings.broker),
        *check_podman(settings.node_agent, cgroups),
        *check_cgroups(cgroups),
        *check_storage(settings),
    ]
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        report(findings, console())
    return EXIT_FAILURE if any(finding.level is Level.WRONG for finding in findings) else EXIT_OK


def report(findings: list[Finding], screen: Console) -> None:
    """One line for what works, two for what does not."""
    for finding in findings:
        mark, style = _MARKS[finding.level]
        screen.print(f"{mark} {finding.area:<8} {finding.text}", style=style, soft_wrap=True)
        if finding.remedy:
            screen.print(f"  {'':<8} → {finding.remedy}", soft_wrap=True)
    wrong = sum(finding.level is Level.WRONG for finding in findings)
    verdict = f"{wrong} to mend" if wrong else "everything that is needed works"
    screen.print(verdict, style="bold red" if wrong else "bold green")
