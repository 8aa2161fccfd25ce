"""Keeping the kernel at the desired state: what is drift, and what is done about it.

Drift is judged only from an observation newer than the one that confirmed the present generation, of a container
that is not busy, with no open action.
"""

from typing import Final

from components.repeater import request_id
from components.resource_manager.admission import fits
from components.resource_manager.judgement import confirm, difference, reconcile_message
from components.resource_manager.lifecycle import SyncEvent
from components.resource_manager.records import ATTEMPT_CREDIBLE_MAX, ReconcileRecord, WorkloadRecord
from components.resource_manager.turn import Turn
from schemas.enums import Reason, ReconcileCause
from schemas.limits import Limits, mismatches

_HEALED_BY_NEWS: Final = frozenset({Reason.NODE_UNAVAILABLE, Reason.QUERY_FAILED})


def consider(turn: Turn, record: WorkloadRecord, cause: ReconcileCause) -> WorkloadRecord:
    """Look at a workload after news of it: heal, note drift, reconcile, as the rules say."""
    if not _may_judge(turn, record):
        return record
    unconfirmed = record.confirmed_generation < record.generation
    if unconfirmed:
        failed = bool(record.last_failure) and any(
            row.rollback_generation == record.generation for row in turn.work.active_rows(record.key)
        )
        return _reconcile(turn, record, ReconcileCause.ROLLBACK if failed else cause)
    if not record.actual_known or record.stamp <= record.confirmed_stamp:
        return record
    wrong = mismatches(record.desired or Limits(), record.actual or Limits())
    if not wrong:
        return _heal(turn, record)
    return _drifted(turn, record, wrong, cause)


def _may_judge(turn: Turn, record: WorkloadRecord) -> bool:
    return (
        record.managed
        and record.running
        and not (record.busy or record.dormant or record.withheld)
        and record.reconcile is None
        and turn.work.open_row(record.key) is None
        and turn.reachable(record.node)
    )


def _heal(turn: Turn, record: WorkloadRecord) -> WorkloadRecord:
    here = (record.runtime_id, record.started_at)
    if record.sync_state == "SYNCHRONIZED" and record.confirmed_start == here:
        return record
    return confirm(turn, record, record.stamp)


def _drifted(turn: Turn, record: WorkloadRecord, wrong: list[str], cause: ReconcileCause) -> WorkloadRecord:
    desired, actual = record.desired or Limits(), record.actual or Limits()
    text = difference(desired, actual, wrong)
    same_start = record.confirmed_start == (record.runtime_id, record.started_at)
    changed = set(wrong) & set(actual.asked) if turn.rules.drift == "adopt" and same_start else set()
    if changed:
        record = _adopt(turn, record, actual.only(changed))
        if changed == set(wrong):
            return turn.change(confirm(turn, record, record.stamp), message=f"adopted: {text}")
        return _reconcile(turn, record, cause)  # what was removed is put back, together with what was adopted
    leave_it = turn.rules.drift == "report" and same_start
    before = record.sync_state
    reappeared = leave_it and before == "FAILED" and record.reason in _HEALED_BY_NEWS
    record = turn.change(record, SyncEvent.REAPPEARED if reappeared else SyncEvent.DRIFTED)
    if record.sync_state == "DRIFT_DETECTED":
        record = turn.change(record, message=text)
        if before != "DRIFT_DETECTED":
            turn.live.drifts[record.node, cause] += 1
    if leave_it:
        return record
    return _reconcile(turn, record, cause)


def _adopt(turn: Turn, record: WorkloadRecord, present: Limits) -> WorkloadRecord:
    """Take limits that others gave a running container as the desired ones; not confirmed yet."""
    turn.live.drifts[record.node, "ADOPTED"] += 1
    return turn.change(
        record,
        SyncEvent.RECORDED,
        desired=(record.desired or Limits()).merged(present),
        generation=turn.work.ledger.next_generation(record),
        unlimited=record.unlimited - set(present.asked),
        attempt=0,
    )


def _reconcile(turn: Turn, record: WorkloadRecord, cause: ReconcileCause) -> WorkloadRecord:
    """Send a reconcile, to be repeated until it is reported."""
    if turn.now.monotonic < turn.live.retry_at.get(record.key, 0.0):
        return record
    fence, attempt = record.fence, record.attempt
    if fence is not None and fence.generation == record.generation:
        attempt = max(attempt, fence.attempt)
    ahead = fence is not None and fence.generation > record.generation
    if ahead or attempt > ATTEMPT_CREDIBLE_MAX:
        # This ledger is an old copy, or somebody spent the attempts: its own generation would be refused for ever.
        record = turn.change(record, generation=turn.work.ledger.next_generation(record), attempt=0)
        attempt = 0
    node = turn.work.node(record.node)
    under_way = ReconcileRecord(
        action_id=request_id("reconcile", record.node, record.name, record.generation, record.reconciles + 1),
        attempt=attempt + 1,
        cause=cause,
        boot_id=node.boot_id if node else 0,
        runtime_id=record.runtime_id,
    )
    record = turn.change(record, reconcile=under_way, reconciles=record.reconciles + 1)
    turn.say(turn.live.repeater.send(("reconcile", record.key), reconcile_message(record), turn.now.monotonic))
    return record


def admit_again(turn: Turn, record: WorkloadRecord) -> WorkloadRecord:
    """Let a workload that came back have its desired limits again, if they fit by now."""
    waited = record.withheld
    if not waited:
        record = turn.change(record, withheld=True)  # else they would count as what it has already
    refusal = fits(turn, record, Limits())
    if refusal is None:
        return turn.change(record, withheld=False)
    if record.reason is not refusal.reason or not waited:
        return turn.fail(record, refusal.reason, f"cannot have its limits again: {refusal.message}")
    return record


def judge_withheld(turn: Turn) -> None:
    """Look whether room has come for workloads that wait to have their limits again."""
    for record in list(turn.work.ledger.workloads.values()):
        node = turn.work.node(record.node)
        if record.withheld and not record.dormant and node is not None and not turn.unmeasured(node):
            admitted = admit_again(turn, record)
            if not admitted.withheld:
                consider(turn, admitted, ReconcileCause.CONTAINER_START)


def lost(turn: Turn, node: str, text: str) -> None:
    """Note that nothing is known of a node's containers any more."""
    for record in turn.work.workloads_of(node):
        if record.dormant:
            continue
        unknown = turn.change(record, actual_known=False)
        if unknown.managed and turn.work.open_row(unknown.key) is None:
            turn.fail(unknown, Reason.NODE_UNAVAILABLE, text)
