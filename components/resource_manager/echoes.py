"""Our own retained states as the bus tells them back: echoes, what a lost ledger said, ghosts, others' words."""

from typing import Final

from components.resource_manager.observation import rebuilt_from
from components.resource_manager.records import Key, WorkloadRecord
from components.resource_manager.turn import Turn
from schemas.resources import ResourceState

RESTATE_S: Final = 5.0
"""Another's word is said over at most once in so long: two who contradict each other must not flood."""


def heard(turn: Turn, told: ResourceState) -> None:
    """Meet what the bus keeps of a workload."""
    key = (told.node, told.workload_id)
    before = turn.work.workload(key)
    rebuilt_from(turn, told)
    record = turn.work.workload(key)
    if record is None or (before is not None and before.dormant and told.generation <= before.generation):
        turn.clear(key)
    elif record is before and not record.dormant and _is_untrue(turn, record, told):
        turn.live.untrue[key] = True


def restate(turn: Turn) -> None:
    """Say again what somebody else has overwritten."""
    now = turn.now.monotonic
    for key in [key for key in turn.live.untrue if now >= turn.live.restated.get(key, 0.0)]:
        del turn.live.untrue[key]
        record = turn.work.workload(key)
        if record is not None and not record.dormant:
            turn.live.restated[key] = now + RESTATE_S
            turn.publish(record)


def _is_untrue(turn: Turn, record: WorkloadRecord, told: ResourceState) -> bool:
    """Whether it is neither the present state nor an earlier one on its way back to us."""
    key: Key = record.key
    latest = turn.live.echoed.get(key, 0)
    turn.live.echoed[key] = max(latest, min(told.revision, record.revision))
    if told.revision == record.revision:
        said = record.view()
        return any(getattr(told, name) != getattr(said, name) for name in record.shown)
    return told.revision > record.revision or told.revision < latest
