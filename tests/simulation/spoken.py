"""What may be said: invariants 1 (on disk first), 6 and 7, judged by every frame as it leaves its process."""

import sqlite3
from typing import TYPE_CHECKING, Final

from components.resource_manager.records import ActionRow, Stage
from schemas.codec import Frame
from schemas.enums import ActionOutcome, Reason, Verdict
from schemas.performance import PerfOutcome
from schemas.resources import DesiredReply, ValidateReply
from schemas.scaling import ScalingStatus
from tests.simulation.bus import once
from tests.simulation.processes import Process
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.system import System

_GRANTS: Final = ("resources/validate/reply", "resources/desired/reply")


def same_final(one: ScalingStatus, other: ScalingStatus) -> bool:
    """Whether two final statuses say the same."""
    return (one.outcome, one.reason, one.message) == (other.outcome, other.reason, other.message)


class Spoken:
    """Everything that was promised."""

    def __init__(self, system: "System") -> None:
        self.rows: dict[str, ActionRow] = {}
        """Every row of the ledger as it was last seen."""
        self.ledger_lost = False
        self.excused: set[str] = set()
        """Actions and events that were known when a ledger or journal was lost: nothing is promised for them."""
        self.heard_of: set[str] = set()
        self._system = system
        self._finals: dict[str, ScalingStatus] = {}
        self._outcomes: dict[str, PerfOutcome] = {}
        self._unwritten: dict[str, tuple[int, int]] = {}

    def _fail(self, invariant: str, text: str) -> None:
        raise Violation(invariant, text)

    def said(self, process: Process, frame: Frame) -> None:
        """Judge a frame as it leaves."""
        if frame.topic in _GRANTS:
            self._on_disk(once(frame.topic, frame.payload))
        elif frame.topic == "perf/outcome":
            outcome = once(frame.topic, frame.payload)
            if isinstance(outcome, PerfOutcome):
                self._excuse_unwritten(process, outcome.event_id, outcome.reason)
                if outcome.event_id not in self.excused:
                    self._one_outcome(outcome)
        elif frame.topic == "scaling/status":
            status = once(frame.topic, frame.payload)
            if isinstance(status, ScalingStatus):
                self.heard_of.add(status.action_id)
                self._excuse_unwritten(process, status.action_id, status.reason if status.final else None)
                if status.action_id not in self.excused:
                    self._one_final(status)

    def _one_outcome(self, outcome: PerfOutcome) -> None:
        """Invariant 7."""
        known = self._outcomes.setdefault(outcome.event_id, outcome)
        if (known.outcome, known.reason, known.action_id) != (outcome.outcome, outcome.reason, outcome.action_id):
            text = f"{outcome.event_id}: {known.outcome} {known.reason}, then {outcome.outcome} {outcome.reason}"
            self._fail("7 (one outcome)", text)

    def _excuse_unwritten(self, process: Process, about: str, reason: Reason | None) -> None:
        """An ending because nothing can be written down is itself not written down: a crash forgets it.

        `about` is an action or an event; `reason` that of its ending.
        """
        life = (id(process), process.life)
        if self._unwritten.get(about, life) != life:
            self.excused.add(about)
        if reason is Reason.STORAGE_ERROR:
            self._unwritten.setdefault(about, life)

    def _on_disk(self, reply: object) -> None:
        """Invariant 1, second half: a grant is on disk before it is said."""
        granted = (isinstance(reply, ValidateReply) and reply.allowed) or (
            isinstance(reply, DesiredReply) and reply.success
        )
        if not granted or not isinstance(reply, ValidateReply | DesiredReply):
            return
        action_id = reply.in_reply_to.rsplit(":", 2)[0]
        asked = self._system.requester.asked.get(action_id)
        if asked is not None and asked.dry_run:
            return
        path = self._system.path("resource_manager")
        disk = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            found = disk.execute("SELECT body FROM actions WHERE action_id = ?", (action_id,)).fetchone()
        finally:
            disk.close()
        row = ActionRow.model_validate_json(found[0]) if found else None
        if row is None or (isinstance(reply, DesiredReply) and row.stage is Stage.RESERVED):
            self._fail("1 (on disk before it is said)", f"{action_id}: granted, on disk is {row and row.stage}")

    def _one_final(self, status: ScalingStatus) -> None:
        """Invariant 6."""
        known = self._finals.get(status.action_id)
        if not status.final:
            if known is not None:
                self._fail("6 (one final status)", f"{status.action_id}: {status.phase} after {known.outcome}")
            return
        if known is not None and not same_final(known, status):
            text = f"{status.action_id}: {known.outcome} {known.reason}, then {status.outcome} {status.reason}"
            self._fail("6 (one final status)", text)
        self._finals.setdefault(status.action_id, status)
        self._final_is_verdict(status)

    def _final_is_verdict(self, status: ScalingStatus) -> None:
        row = self.rows.get(status.action_id)
        if row is None or row.generation == 0 or self.ledger_lost:
            return
        wanted = (
            (ActionOutcome.COMPLETED,)
            if row.verdict is Verdict.SYNCHRONIZED
            else (ActionOutcome.FAILED, ActionOutcome.INCONSISTENT)
        )
        if row.verdict is None or status.outcome not in wanted:
            self._fail("6 (final is the verdict)", f"{row.action_id}: {status.outcome}, verdict {row.verdict}")
