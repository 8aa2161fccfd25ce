"""Looking at several things at once, each for a bounded time: whoever hangs is a finding, too."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from components.cli.doctor.finding import Finding, wrong

_log = logging.getLogger(__name__)


@dataclass
class Check:
    """One thing to look at. `run` does so in a thread of its own, which is left alone when it hangs."""

    area: str
    run: Callable[[], list[Finding]]
    within_s: float
    remedy: str
    """What to do when it does not come back."""
    findings: list[Finding] | None = field(default=None, init=False)


def run_all(checks: Sequence[Check]) -> list[Finding]:
    """What was found, in the order of the checks. Returns after the longest `within_s` at the latest."""
    threads = [threading.Thread(target=_run, args=(check,), name=check.area, daemon=True) for check in checks]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    found: list[Finding] = []
    for check, thread in zip(checks, threads, strict=True):
        thread.join(max(0.0, began + check.within_s - time.monotonic()))
        late = wrong(check.area, f"no answer within {check.within_s:g} s", check.remedy)
        found += [late] if check.findings is None else check.findings
    return found


def _run(check: Check) -> None:
    try:
        check.findings = check.run()
    except Exception as error:  # noqa: BLE001 - whatever breaks one check, the others are still to be told
        _log.exception("the check of %s failed", check.area)
        text = f"could not be looked at: {type(error).__name__}: {error}"
        check.findings = [wrong(check.area, text, "please report this with the output of piriscale doctor --json")]
