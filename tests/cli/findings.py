"""What tests of the doctor ask of its findings."""

from components.cli.doctor.cgroups import Cgroups
from components.cli.doctor.finding import Finding, Level

V1, HYBRID, V2 = Cgroups(1, hybrid=False), Cgroups(1, hybrid=True), Cgroups(2, hybrid=False)


def only_wrong(findings: list[Finding]) -> Finding:
    (found,) = [finding for finding in findings if finding.level is Level.WRONG]
    assert found.remedy, "what is wrong comes with a remedy"
    return found


def all_ok(findings: list[Finding]) -> bool:
    return {finding.level for finding in findings} == {Level.OK}
