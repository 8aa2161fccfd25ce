"""All checks, at the same time, and their report."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from rich.console import Console

from components.cli.assembly import role_of
from components.cli.doctor.broker import check_broker
from components.cli.doctor.certificates import check_certificates
from components.cli.doctor.cgroups import check_cgroups, read_cgroups
from components.cli.doctor.checks import Check, run_all
from components.cli.doctor.finding import Finding, Level
from components.cli.doctor.podman import check_podman
from components.cli.doctor.storage import check_storage
from components.cli.errors import EXIT_FAILURE, EXIT_OK
from components.cli.screen import console
from components.settings import Settings
from schemas.topics import Role

BROKER_WITHIN_S: Final = 27.0
OTHERS_WITHIN_S: Final = 15.0
_MARKS: Final = {Level.OK: ("✓", "green"), Level.NOTE: ("•", "yellow"), Level.WRONG: ("✗", "bold red")}


def examine(settings: Settings, components: Sequence[str] = (), *, as_json: bool) -> int:
    """Look at everything and say what was found. Exit code 1 when something is wrong.

    `components`: whose rights on the broker are needed; none: those that the broker's user is named after, or all.
    """
    roles = [Role.CLI if name == Role.CLI else role_of(name) for name in components]
    findings = run_all(checks_of(settings, roles))
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        report(findings, console())
    return EXIT_FAILURE if any(finding.level is Level.WRONG for finding in findings) else EXIT_OK


def checks_of(settings: Settings, roles: Sequence[Role]) -> list[Check]:
    """All there is to look at; at once, so that the longest `within_s` is the time for all."""

    def podman() -> list[Finding]:
        return check_podman(settings.node_agent, read_cgroups())

    return [
        Check("broker", lambda: check_broker(settings, roles), BROKER_WITHIN_S, "see the broker's log"),
        Check("certs", lambda: check_certificates(settings), OTHERS_WITHIN_S, "see whether the broker hangs"),
        Check("podman", podman, OTHERS_WITHIN_S, "restart Podman's service, and see its log"),
        Check("cgroups", lambda: check_cgroups(read_cgroups()), OTHERS_WITHIN_S, "see the kernel's log"),
        Check("storage", lambda: check_storage(settings), OTHERS_WITHIN_S, "see whether a disk or a mount hangs"),
    ]


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
