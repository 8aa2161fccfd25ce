"""Ending reservations: none outlives its lease, whatever became of the action.

Leases run on this process's own clock from its own start.
"""

from typing import Final

from components.repeater import request_id
from components.resource_manager.judgement import confirm, difference
from components.resource_manager.records import ActionRow, Stage, Stamp, WorkloadRecord
from components.resource_manager.rollback import roll_back
from components.resource_manager.rows import close
from components.resource_manager.turn import Turn
from schemas.enums import Reason
from schemas.limits import Limits, mismatches
from schemas.node import StatusReply, StatusRequest

ANSWER_WITHIN_S: Final = 10.0
"""How long an agent may take to say what is in force once a lease ended."""
TELLING: Final = frozenset({Reason.UNKNOWN_WORKLOAD, Reason.NOT_RUNNING, Reason.QUERY_FAILED})
"""Refusals of an agent that tell what is in force: nothing, or nobody can know. After others it is asked again."""


def trust(turn: Turn) -> None:
    """Let a ledger in place of a lost one grant, once a lease has passed: nothing it does not know is open now."""
    waited = turn.now.monotonic - turn.live.started >= turn.rules.lease_s
    if waited and turn.work.replaces_lost:
        turn.work.replaces_lost = False


def expire(turn: Turn) -> None:
    """End the rows whose lease is over: unrecorded ones are free, of recorded ones the agent is asked."""
    for ids in list(turn.work.ledger.active.values()):
        for action_id in list(ids):
            row = turn.work.row(action_id)
            if row is not None and row.open:
                _expire_row(turn, row)


def _expire_row(turn: Turn, row: ActionRow) -> None:
    now = turn.now.monotonic
    until = turn.live.leases.setdefault(row.action_id, now + turn.rules.lease_s)
    asked_until = turn.live.asked.get(row.action_id)
    if now < until:
        return
    if row.stage is Stage.RESERVED:
        close(turn, row, None, Reason.EXPIRED, "nothing was recorded before its lease ended")
    elif asked_until is None:
        turn.live.asked[row.action_id] = now + ANSWER_WITHIN_S
        question = StatusRequest(id=_question_id(row.action_id), node=row.node, workload_id=row.workload)
        turn.say(turn.live.repeater.send(("lease", row.action_id), question, now))
    elif now >= asked_until:
        record = turn.work.workload(row.key)
        text = f"its lease ended and the agent of {row.node} did not say what is in force"
        if record is not None:
            roll_back(turn, record, row, Reason.QUERY_FAILED, text)


def answered(turn: Turn, told: StatusReply) -> None:
    """Close a row by what its agent says is in force."""
    action_id = next((i for i in turn.live.asked if _question_id(i) == told.in_reply_to), None)
    row = turn.work.row(action_id) if action_id else None
    record = turn.work.workload(row.key) if row else None
    node = turn.work.node(told.node)
    if row is None or row.stage is not Stage.RECORDED or record is None or node is None:
        return
    here = next((c for c in told.containers if c.workload_id == row.workload), None)
    if not told.success and told.reason not in TELLING:
        return
    if told.boot_id < node.boot_id or (here is not None and here.busy):
        return  # asked again until the container has settled, or the time is over
    if here is None or not here.running:
        text = told.message or f"{row.workload} is not running"
        roll_back(turn, record, row, told.reason or Reason.NOT_RUNNING, text)
    elif here.actual is None:
        text = f"its lease ended and the limits of {row.workload} cannot be read"
        roll_back(turn, record, row, Reason.QUERY_FAILED, text)
    else:
        _close_by(turn, record, row, here.actual, (told.boot_id, told.seq))


def _close_by(turn: Turn, record: WorkloadRecord, row: ActionRow, actual: Limits, stamp: Stamp) -> None:
    wrong = mismatches(record.desired or Limits(), actual)
    if not wrong and record.generation == row.generation:
        confirm(turn, record, stamp)
    else:
        text = f"its lease ended: {difference(record.desired or Limits(), actual, wrong)}"
        roll_back(turn, record, row, Reason.VERIFY_FAILED, text)


def _question_id(action_id: str) -> str:
    return request_id("lease", action_id)
