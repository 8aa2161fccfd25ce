"""Judging reports: what ActionController says an update led to, compared with what was desired.

After a target was recorded, the outcome of an action is the verdict given here.
"""

from typing import Any, Final

from components.repeater import request_id
from components.resource_manager.lifecycle import SyncEvent
from components.resource_manager.records import NO_START, ActionRow, Stage, WorkloadRecord, credible
from components.resource_manager.rollback import release_held, roll_back
from components.resource_manager.rows import close, end_reconcile, recall, remember
from components.resource_manager.turn import Turn
from schemas.enums import Reason, SyncState, UpdateResult, Verdict
from schemas.limits import Limits, mismatches
from schemas.resources import ActualReply, ActualReport, Fence, Reconcile

RETRYABLE: Final = frozenset(
    {
        Reason.RUNTIME_ERROR,
        Reason.RUNTIME_TIMEOUT,
        Reason.VERIFY_FAILED,
        Reason.PARTIAL,
        Reason.NODE_UNAVAILABLE,
        Reason.QUERY_FAILED,
        Reason.STORAGE_ERROR,
        Reason.OVERLOADED,
        Reason.EXPIRED,
    }
)
"""Failures that may pass by themselves. Refusals are not among them: the same question gets the same answer."""

BACKOFF_LONGEST_S: Final = 300.0
STEP_AGAIN_S: Final = 1.0
"""How soon a reconcile is judged again that ended because something had changed meanwhile; then twice that."""


def report(turn: Turn, told: ActualReport) -> None:
    """Judge a report and answer with the verdict."""
    body = _judge(turn, told)
    record = turn.work.workload((told.node, told.workload_id))
    state = record.sync_state if record else SyncState.UNKNOWN
    known = {"sync_state": state, "generation": record.generation if record else 0}
    if record is not None and record.desired is not None:
        known["desired"] = record.desired
    turn.say(ActualReply(in_reply_to=told.id, wire=told.wire, **{**known, **body}))


def _judge(turn: Turn, told: ActualReport) -> dict[str, Any]:
    row = turn.work.row(told.action_id)
    record = turn.work.workload((told.node, told.workload_id))
    if record is not None:
        record = observe_report(turn, record, told)
    if record is not None and record.reconcile and record.reconcile.action_id == told.action_id:
        return _judge_reconcile(turn, told, record)
    if row is not None:
        return _judge_action(turn, told, row)
    text = "this action is not in the ledger; what it did is judged by the next snapshot"
    names = {"action_id": told.action_id, "node": told.node, "workload": told.workload_id}
    unknown = ActionRow(**names, stage=Stage.CLOSED, attempt=told.attempt)
    close(turn, unknown, Verdict.FAILED, Reason.EXPIRED, text)
    return {"verdict": Verdict.FAILED, "reason": Reason.EXPIRED, "message": text}


def observe_report(turn: Turn, record: WorkloadRecord, told: ActualReport) -> WorkloadRecord:
    """Take over what a report says is in force, if it is newer than what is known."""
    changes: dict[str, Any] = {}
    stamp = (told.boot_id, told.seq)
    node = turn.work.node(told.node)
    present = node is None or told.boot_id >= node.boot_id
    if told.actual is not None and present and turn.newer(record, stamp):
        changes |= {"actual": told.actual, "actual_known": True, "stamp": stamp}
    fence = credible(told.fence)
    if fence is not None and present:
        highest = record.fence is None or fence.key > record.fence.key
        changes |= {"fence": fence} if highest else {}
    if told.generation == record.generation and told.attempt > record.attempt:
        changes["attempt"] = told.attempt
    if told.generation > record.generation and credible(Fence(generation=told.generation, attempt=told.attempt)):
        # This ledger is an old copy: what recorded that generation may have left no other trace.
        turn.work.replaces_lost = True
        known = turn.work.ledger.generations.get(record.key, 0)
        turn.work.generations[record.key] = max(known, told.generation)
    return turn.change(record, **changes) if changes else record


def _judge_action(turn: Turn, told: ActualReport, row: ActionRow) -> dict[str, Any]:
    if row.verdict is not None:
        return {"verdict": row.verdict, "reason": row.reason, "message": row.message}
    before = recall(row, "report", told.attempt)
    if before is not None:
        return before
    record = turn.work.workload(row.key)
    if row.stage is not Stage.RECORDED or record is None:
        text = "its reservation has ended before anything was recorded"
        close(turn, row, Verdict.FAILED, Reason.EXPIRED, text)
        return {"verdict": Verdict.FAILED, "reason": Reason.EXPIRED, "message": text}
    if told.generation != row.generation:
        text = f"reported generation {told.generation}, recorded was {row.generation}"
        return {"verdict": Verdict.RETRY, "reason": Reason.EXPIRED, "message": text}
    reason, text = failure_of(told, record.desired or Limits())
    if reason is None:
        confirm(turn, record, (told.boot_id, told.seq))
        return {"verdict": Verdict.SYNCHRONIZED}
    remain = row.failures < turn.settings.action_controller.retries
    if reason in RETRYABLE and remain and record.running and record.runtime_id == row.runtime_id:
        body = {"verdict": Verdict.RETRY, "reason": reason, "message": text}
        answers = remember(row, "report", told.attempt, body)
        turn.change_row(row, failures=row.failures + 1, answers=answers)
        turn.lease(row.action_id)
        turn.change(record, reason=reason, message=text)
        return body
    roll_back(turn, record, row, reason, text)
    return {"verdict": Verdict.FAILED, "reason": reason, "message": text}


def failure_of(told: ActualReport, desired: Limits) -> tuple[Reason | None, str]:
    """What is wrong with a reported result; None: the kernel shows the desired state."""
    if told.result is not UpdateResult.SUCCESS:
        partial = told.result is UpdateResult.PARTIAL
        fallback = Reason.PARTIAL if partial else Reason.RUNTIME_ERROR
        return told.reason or fallback, told.message or told.result.lower()
    if told.actual is None:
        return Reason.QUERY_FAILED, "what is in force could not be read"
    wrong = mismatches(desired, told.actual)
    if wrong:
        return Reason.VERIFY_FAILED, difference(desired, told.actual, wrong)
    return None, ""


def difference(desired: Limits, actual: Limits, names: list[str]) -> str:
    """The named limits, wanted against present."""
    present = actual.asked
    parts = (f"{name} {desired.asked[name]} desired, {present.get(name, 'unlimited')} in force" for name in names)
    return "; ".join(parts)


def confirm(turn: Turn, record: WorkloadRecord, stamp: tuple[int, int]) -> WorkloadRecord:
    """Note that the kernel shows the present generation; close what waited for that."""
    for row in turn.work.active_rows(record.key):
        if row.stage is Stage.RECORDED and row.generation == record.generation:
            close(turn, row, Verdict.SYNCHRONIZED, None, "")
    desired, actual = record.desired or Limits(), record.actual or Limits()
    lost_since = record.stamp > stamp and (not record.actual_known or bool(mismatches(desired, actual)))
    here = (record.runtime_id, record.started_at)
    record = turn.change(
        record,
        SyncEvent.CONFIRMED,
        synchronized=record.desired,
        confirmed_generation=record.generation,
        confirmed_stamp=max(stamp, record.confirmed_stamp),
        confirmed_start=NO_START if lost_since else here,
    )
    release_held(turn, record)
    turn.live.backoff.pop(record.key, None)
    turn.live.retry_at.pop(record.key, None)
    return record


def _judge_reconcile(turn: Turn, told: ActualReport, record: WorkloadRecord) -> dict[str, Any]:
    under_way = record.reconcile
    if under_way is None or record.desired is None or told.generation != record.generation:
        text = "another state is desired by now"
        end_reconcile(turn, record, Verdict.FAILED, Reason.SUPERSEDED, text)
        return {"verdict": Verdict.FAILED, "reason": Reason.SUPERSEDED, "message": text}
    reason, text = failure_of(told, record.desired)
    if reason is None:
        record = end_reconcile(turn, record, Verdict.SYNCHRONIZED, None, "")
        confirm(turn, record, (told.boot_id, told.seq))
        return {"verdict": Verdict.SYNCHRONIZED}
    if told.attempt < under_way.attempt:
        return {"verdict": Verdict.RETRY, "reason": reason, "message": text}
    remain = under_way.failures < turn.settings.action_controller.retries
    ends_it = reason is Reason.EXPIRED or reason not in RETRYABLE
    if remain and not ends_it and record.runtime_id == under_way.runtime_id:
        again = {"failures": under_way.failures + 1, "attempt": told.attempt + 1}
        record = turn.change(record, reconcile=under_way.model_copy(update=again))
        _send_again_if_lost(turn, record)
        return {"verdict": Verdict.RETRY, "reason": reason, "message": text}
    record = end_reconcile(turn, record, Verdict.FAILED, reason, text)
    _try_later(turn, record, reason, text)
    return {"verdict": Verdict.FAILED, "reason": reason, "message": text}


def _send_again_if_lost(turn: Turn, record: WorkloadRecord) -> None:
    """Have the next attempt on record, for an ActionController that loses it while it waits to retry."""
    settings = turn.settings.action_controller
    patience = settings.retry_interval_s + settings.deadline_ms / 1000 + 5.0
    key = ("reconcile", record.key)
    turn.live.repeater.send(key, reconcile_message(record), turn.now.monotonic, first_s=patience)


def reconcile_message(record: WorkloadRecord) -> Reconcile:
    """The message of an outstanding reconcile."""
    under_way = record.reconcile
    if under_way is None or record.desired is None:
        raise ValueError(f"no reconcile of {record.name} is under way")
    return Reconcile(
        id=request_id(under_way.action_id, under_way.attempt),
        action_id=under_way.action_id,
        node=record.node,
        workload_id=record.name,
        desired=record.desired,
        generation=record.generation,
        attempt=under_way.attempt,
        boot_id=under_way.boot_id,
        runtime_id=under_way.runtime_id,
        cause=under_way.cause,
    )


def _try_later(turn: Turn, record: WorkloadRecord, reason: Reason, text: str) -> None:
    """Keep trying, further and further apart; what only came out of step is judged again soon, and not FAILED."""
    out_of_step = reason in (Reason.EXPIRED, Reason.SUPERSEDED, Reason.UNKNOWN_WORKLOAD)
    first = STEP_AGAIN_S if out_of_step else 2 * turn.settings.action_controller.retry_interval_s
    wait = min(BACKOFF_LONGEST_S, max(STEP_AGAIN_S, first) * 2 ** min(10, turn.live.backoff[record.key]))
    turn.live.backoff[record.key] += 1
    turn.live.retry_at[record.key] = turn.now.monotonic + wait
    if not out_of_step:
        turn.fail(record, reason, text)
