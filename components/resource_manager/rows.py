"""Rows of actions and reconciles: what was answered, to be answered again, and how they end."""

from typing import Any, Final

from components.resource_manager.records import ActionRow, Answer, Stage, WorkloadRecord
from components.resource_manager.turn import Turn
from components.settings import RETRIES_MAX
from schemas.enums import Reason, Verdict

ANSWERS_KEPT: Final = {"validate": 16, "report": RETRIES_MAX + 1}
"""Replies kept for one action and step. A late copy of a report must find its own, or it counts as a failure; of a
validation that waits for room there may be thousands, and late copies of them are told that they are over."""


def remember(row: ActionRow, step: str, attempt: int, body: dict[str, Any]) -> tuple[Answer, ...]:
    """The row's answers with this one added, the oldest dropped above a bound."""
    others = tuple(a for a in row.answers if a.step != step)
    before = tuple(a for a in row.answers if a.step == step and a.attempt != attempt)
    return (*others, *(*before, Answer(step=step, attempt=attempt, body=body))[-ANSWERS_KEPT[step] :])


def recall(row: ActionRow | None, step: str, attempt: int) -> dict[str, Any] | None:
    """The answer that was given to this step and attempt."""
    for answer in row.answers if row else ():
        if (answer.step, answer.attempt) == (step, attempt):
            return answer.body
    return None


def close(turn: Turn, row: ActionRow, verdict: Verdict | None, reason: Reason | None, text: str) -> ActionRow:
    """End a row; with a verdict it answers so for a day."""
    turn.end_lease(row.action_id)
    return turn.change_row(
        row, stage=Stage.CLOSED, verdict=verdict, reason=reason, message=text, closed_ms=turn.now.epoch_ms
    )


def end_reconcile(
    turn: Turn, record: WorkloadRecord, verdict: Verdict, reason: Reason | None, text: str
) -> WorkloadRecord:
    """Forget an outstanding reconcile, leaving a closed row that answers its late reports."""
    under_way = record.reconcile
    if under_way is None:
        return record
    turn.live.repeater.answered(("reconcile", record.key))
    turn.live.reconciles[verdict] += 1
    closed = ActionRow(
        action_id=under_way.action_id,
        node=record.node,
        workload=record.name,
        stage=Stage.CLOSED,
        attempt=under_way.attempt,
        generation=record.generation,
        verdict=verdict,
        reason=reason,
        message=text,
        closed_ms=turn.now.epoch_ms,
    )
    turn.work.put_row(closed)
    return turn.change(record, reconcile=None)
