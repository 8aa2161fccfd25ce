"""Taking a failed action back: what its limits become again, and making that the new desired state."""

from components.resource_manager.lifecycle import SyncEvent
from components.resource_manager.records import ActionRow, Stage, WorkloadRecord
from components.resource_manager.turn import Turn
from schemas.enums import Reason, Verdict
from schemas.limits import Amount, Limits
from schemas.resources import LastFailure
from schemas.units import MILLICORES_PER_CPU

KERNEL_CPU_SHARES = 1024
"""What a container has when nobody asked for shares."""


def rollback_of(turn: Turn, record: WorkloadRecord, target: Limits) -> tuple[Limits, frozenset[str]]:
    """What each limit of `target` becomes again should the action fail, and which of them mean "unlimited".

    Per key: the last synchronized desired value if there was one, else what is in force now. While an earlier
    failure is being taken back, its rollback, since what is in force may be its failed target. Unlimited is
    written as the node's total, since "no limit" cannot be written reliably.
    """
    node = turn.work.node(record.node)
    total = node.total if node and node.total else Amount()
    whole = {
        "cpu_limit": total.cpu,
        "memory_limit": total.memory,
        "cpu_shares": KERNEL_CPU_SHARES,
        "cpuset_cpus": f"0-{max(1, total.cpu // MILLICORES_PER_CPU) - 1}",
    }
    held = any(row.stage is Stage.HELD for row in turn.work.active_rows(record.key))
    before = record.desired if held else record.synchronized
    settled = {} if record.withheld or before is None else before.asked
    present = (record.actual or Limits()).asked
    wished = (record.desired or Limits()).asked
    written = {name for name in record.unlimited if name in present and present[name] == wished.get(name)}
    values = {}
    unlimited = set()
    for name in target.asked:
        values[name] = settled[name] if name in settled else present[name] if name in present else whole[name]
        was_unlimited = name in record.unlimited if name in settled else name not in present or name in written
        if was_unlimited and name in ("cpu_limit", "memory_limit"):
            unlimited.add(name)
    return Limits(**values), frozenset(unlimited)


def roll_back(turn: Turn, record: WorkloadRecord, row: ActionRow, reason: Reason, text: str) -> WorkloadRecord:
    """Make the rollback the desired state, under a new generation that is always sent and confirmed.

    Until then target and rollback both stay allocated, and the workload is FAILED with the action's reason.
    """
    generation = turn.work.ledger.next_generation(record)
    turn.end_lease(row.action_id)
    turn.change_row(
        row,
        stage=Stage.HELD,
        verdict=Verdict.FAILED,
        reason=reason,
        message=text,
        rollback_generation=generation,
        closed_ms=0,
    )
    failure = LastFailure(reason=reason, action_id=row.action_id, ts=turn.now.epoch_ms)
    kept = record.unlimited - set(row.rollback.asked)
    return turn.change(
        record,
        SyncEvent.FAILED,
        desired=(record.desired or Limits()).merged(row.rollback),
        generation=generation,
        unlimited=kept | row.rollback_unlimited,
        attempt=0,
        reason=reason,
        message=text,
        last_failure=failure,
    )


def release_held(turn: Turn, record: WorkloadRecord) -> None:
    """Free target and rollback of failed actions whose rollback, or a later generation, was confirmed."""
    for row in turn.work.active_rows(record.key):
        if row.stage is Stage.HELD and record.confirmed_generation >= row.rollback_generation:
            turn.change_row(row, stage=Stage.CLOSED, closed_ms=turn.now.epoch_ms)
