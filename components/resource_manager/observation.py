"""Taking in what agents see: snapshots and status replies, containers that come, change and go."""

from typing import Any, Final

from components.component import Instant
from components.presence import away
from components.resource_manager import silence
from components.resource_manager.drift import admit_again, consider
from components.resource_manager.lifecycle import SyncEvent
from components.resource_manager.records import (
    NEVER,
    REVISION_CREDIBLE_MAX,
    NodeRecord,
    Stage,
    WorkloadRecord,
    credible,
)
from components.resource_manager.rollback import roll_back
from components.resource_manager.rows import close, end_reconcile
from components.resource_manager.turn import Live, Turn
from schemas.enums import Reason, ReconcileCause, SnapshotTrigger, Verdict
from schemas.message import Message
from schemas.node import ContainerReport, NodeInfo, NodeSnapshot, StatusReply, StatusRequest
from schemas.resources import CREDIBLE_MAX, ResourceState

CAUSE_OF: Final = {
    SnapshotTrigger.START: ReconcileCause.AGENT_START,
    SnapshotTrigger.PERIODIC: ReconcileCause.PERIODIC,
    SnapshotTrigger.UPDATE: ReconcileCause.UPDATE,
    SnapshotTrigger.CONTAINER: ReconcileCause.CONTAINER_START,
}
SNAPSHOTS_TO_VANISH: Final = 2
"""Complete snapshots without a container until it counts as gone; an event counts at once."""


def ask(live: Live, node: NodeRecord, now: Instant) -> Message:
    """Ask an agent what runs; said again until it answers or is away."""
    question = StatusRequest(id=f"all:{node.node}:{now.epoch_ms}", node=node.node, boot_id=node.boot_id)
    return live.repeater.send(("all", node.node), question, now.monotonic)


def ask_no_more(live: Live, node: str) -> None:
    """The agent has answered, or cannot."""
    live.repeater.answered(("all", node))


def info(turn: Turn, told: NodeInfo) -> None:
    """Take in what a node is."""
    node = turn.work.node(told.node) or NodeRecord(node=told.node)
    if told.boot_id > CREDIBLE_MAX or _outdated(turn, node, told.boot_id):
        return
    unsupported = {
        name: capability.reason or "not supported there"
        for name, capability in told.capabilities.items()
        if not capability.supported
    }
    _new_boot(turn, node, told.boot_id)
    known = turn.work.node(told.node) or node
    changed = known.model_copy(update={"total": told.total, "unsupported": unsupported})
    if changed != turn.work.node(told.node):
        turn.work.put_node(changed)
        turn.touch(told.node)
    if known.total is None:
        for record in turn.work.workloads_of(told.node):
            _recognize_unlimited(turn, record)


def _outdated(turn: Turn, node: NodeRecord, boot_id: int) -> bool:
    """Whether this is of an earlier boot than the ledger knows.

    It may be late, or the agent lost its state directory and its clock went back: asked, it hears of the later.
    """
    if boot_id >= node.boot_id:
        return False
    presence = turn.live.agents.get(node.node)
    if ("all", node.node) not in turn.live.repeater and (presence is None or not away(presence)):
        turn.say(ask(turn.live, node, turn.now))
    return True


def _new_boot(turn: Turn, node: NodeRecord, boot_id: int) -> None:
    """Note an agent's restart: its fences are gone, and what was sent to the earlier one will not be done."""
    if boot_id <= node.boot_id:
        return
    turn.work.put_node(node.model_copy(update={"boot_id": boot_id}))
    for record in turn.work.workloads_of(node.node):
        if record.reconcile is not None and record.reconcile.boot_id < boot_id:
            text = f"the agent restarted (boot {boot_id})"
            end_reconcile(turn, record, Verdict.FAILED, Reason.EXPIRED, text)
        turn.live.retry_at.pop(record.key, None)


def snapshot(turn: Turn, told: NodeSnapshot) -> None:
    """Take in all containers of a node."""
    node = turn.work.node(told.node) or NodeRecord(node=told.node)
    if told.boot_id > CREDIBLE_MAX or _outdated(turn, node, told.boot_id):
        return
    if not node.heard:
        node = node.model_copy(update={"heard": True})
        turn.work.put_node(node)
    silence.heard(turn, told.node, (told.boot_id, told.seq))
    _new_boot(turn, node, told.boot_id)
    first = told.node not in turn.live.answered
    turn.live.answered.add(told.node)
    cause = ReconcileCause.STARTUP if first else CAUSE_OF[told.trigger]
    for container in told.containers:
        container_seen(turn, told.node, container, (told.boot_id, told.seq), cause)
    if not told.truncated:
        _judge_absent(turn, told)


def status(turn: Turn, told: StatusReply) -> None:
    """Take in an agent's answer. It proves nothing about containers it does not name."""
    node = turn.work.node(told.node)
    if not told.success or node is None or not node.boot_id <= told.boot_id <= CREDIBLE_MAX:
        return
    if str(told.in_reply_to).startswith("all:"):
        ask_no_more(turn.live, told.node)
    silence.heard(turn, told.node, (told.boot_id, told.seq))
    _new_boot(turn, node, told.boot_id)
    first = told.node not in turn.live.answered
    turn.live.answered.add(told.node)
    cause = ReconcileCause.STARTUP if first else ReconcileCause.PERIODIC
    for container in told.containers:
        container_seen(turn, told.node, container, (told.boot_id, told.seq), cause)


def container_seen(
    turn: Turn, node: str, container: ContainerReport, stamp: tuple[int, int], cause: ReconcileCause
) -> None:
    """Take in one container, if this observation is newer than the last."""
    key = (node, container.workload_id)
    record = turn.work.workload(key)
    if record is None:
        generation = turn.work.ledger.generations.get(key, 0)
        record = WorkloadRecord(
            node=node,
            name=container.workload_id,
            generation=generation,
            since=turn.now.epoch_ms,
            dormant=not container.running,
        )
    if not turn.newer(record, stamp):
        return
    turn.live.missing.pop(key, None)
    record = _same_workload(turn, record, container)
    was_running, was_dormant = record.running, record.dormant
    record = turn.change(record, **_seen(record, container, stamp))
    if container.fence is not None:
        _learn_fence(turn, record, container)
    if container.running:
        turn.live.absent.pop(key, None)
    if record.managed and container.running and (was_dormant or record.withheld):
        record = admit_again(turn, record)
    if container.running and not was_running:
        turn.live.retry_at.pop(key, None)
        cause = cause if cause is ReconcileCause.STARTUP else ReconcileCause.CONTAINER_START
    unreadable = container.running and container.actual is None and not (container.busy or record.withheld)
    if record.managed and unreadable and turn.work.open_row(key) is None:
        turn.fail(record, Reason.QUERY_FAILED, f"the agent of {node} could not read the limits of {record.name}")
        return
    consider(turn, record, cause)


def _seen(record: WorkloadRecord, container: ContainerReport, stamp: tuple[int, int]) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "stamp": stamp,
        "running": container.running,
        "busy": container.busy,
        "runtime_id": container.runtime_id or record.runtime_id,
        "image_id": container.image_id or record.image_id,
        "model": container.model,
        "started_at": container.started_at,
        "fence": credible(container.fence),
    }
    if container.actual is not None:
        changes["usage"] = container.usage  # without a reading it says 0, and what was measured last still counts
    if container.running:
        changes["dormant"] = False
        changes["actual_known"] = container.actual is not None
        if container.actual is not None:
            changes["actual"] = container.actual
    return changes


def _learn_fence(turn: Turn, record: WorkloadRecord, container: ContainerReport) -> None:
    """A fence above the known generation shows that this ledger is not the one that sent the commands."""
    fence = credible(container.fence)
    if fence is None or fence.generation <= record.generation:
        return
    turn.work.replaces_lost = True
    if fence.generation > turn.work.ledger.generations.get(record.key, 0):
        turn.work.generations[record.key] = fence.generation


def _same_workload(turn: Turn, record: WorkloadRecord, container: ContainerReport) -> WorkloadRecord:
    """Forget what was asked for when the name now belongs to a container of another image."""
    other = container.image_id and record.image_id and container.image_id != record.image_id
    if not other or container.runtime_id == record.runtime_id:
        return record
    text = f"{record.name} is another image by now; its earlier limits do not apply to it"
    return forget_desired(turn, container_gone(turn, record, text))


def forget_desired(turn: Turn, record: WorkloadRecord) -> WorkloadRecord:
    """Let go of a workload: nobody asks for limits any more; its generation stays remembered."""
    if record.reconcile is not None:
        record = end_reconcile(turn, record, Verdict.FAILED, Reason.SUPERSEDED, "released")
    return turn.change(
        record,
        SyncEvent.RELEASED,
        desired=None,
        unlimited=frozenset(),
        synchronized=None,
        confirmed_generation=0,
        last_failure=None,
        withheld=False,
        attempt=0,
    )


def container_gone(turn: Turn, record: WorkloadRecord, text: str) -> WorkloadRecord:
    """End rows of a container that is no more: nothing of theirs can be executed, nor must be when it returns."""
    for row in turn.work.active_rows(record.key):
        if row.stage is Stage.RECORDED:
            record = roll_back(turn, record, row, Reason.UNKNOWN_WORKLOAD, text)
        elif row.stage is Stage.RESERVED:
            close(turn, row, Verdict.FAILED, Reason.UNKNOWN_WORKLOAD, text)
    for row in turn.work.active_rows(record.key):
        turn.change_row(row, stage=Stage.CLOSED, closed_ms=turn.now.epoch_ms)
    return record


def _judge_absent(turn: Turn, told: NodeSnapshot) -> None:
    """Notice containers that a complete snapshot no longer names; the same snapshot counts once."""
    stamp = (told.boot_id, told.seq)
    if stamp <= turn.live.counted.get(told.node, NEVER):
        return
    turn.live.counted[told.node] = stamp
    named = {container.workload_id for container in told.containers}
    for record in turn.work.workloads_of(told.node):
        if record.name in named or record.stamp >= stamp:
            continue
        if record.dormant:
            if not record.managed:
                turn.work.remove(record.key)
            continue
        turn.live.missing[record.key] += 1
        event = told.trigger is SnapshotTrigger.CONTAINER
        if record.running and (event or turn.live.missing[record.key] >= SNAPSHOTS_TO_VANISH):
            turn.change(record, running=False)


def expire_absent(turn: Turn) -> None:
    """Free the room of workloads that stopped or vanished longer ago than the hold."""
    for record in list(turn.work.ledger.workloads.values()):
        if record.running or record.dormant:
            turn.live.absent.pop(record.key, None)
            continue
        if not turn.reachable(record.node):
            turn.live.absent.pop(record.key, None)
            continue  # a node that is away is no proof that its containers are gone
        until = turn.live.absent.setdefault(record.key, turn.now.monotonic + turn.rules.absent_hold_s)
        if until <= turn.now.monotonic:
            _let_go(turn, record)


def _let_go(turn: Turn, record: WorkloadRecord) -> None:
    turn.live.absent.pop(record.key, None)
    current = container_gone(turn, record, f"{record.name} is gone")
    current = end_reconcile(turn, current, Verdict.FAILED, Reason.UNKNOWN_WORKLOAD, f"{record.name} is gone")
    still_there = turn.live.missing[record.key] == 0
    if current.managed or still_there:
        turn.change(current, dormant=True, actual_known=False)
    else:
        turn.work.remove(record.key)
        turn.touch(record.node)
    turn.clear(record.key)


def rebuilt_from(turn: Turn, told: ResourceState) -> None:
    """Take over what retained state remembers beyond this ledger: it was lost, or is an old copy."""
    key = (told.node, told.workload_id)
    record = turn.work.workload(key)
    known = record.generation if record else turn.work.ledger.generations.get(key, 0)
    if not known < told.generation <= CREDIBLE_MAX or told.desired is None:
        return
    if told.revision > REVISION_CREDIBLE_MAX:
        return
    turn.work.replaces_lost = True
    if record is None:
        record = WorkloadRecord(node=told.node, name=told.workload_id, since=turn.now.epoch_ms)
    changes: dict[str, Any] = {
        "desired": told.desired,
        "generation": told.generation,
        "confirmed_generation": 0,
        "synchronized": None,  # an old copy's; its room may be another's by now
        "dormant": False,
        "revision": max(record.revision, told.revision),
    }
    record = _recognize_unlimited(turn, turn.change(record, **changes))
    consider(turn, record, ReconcileCause.STARTUP)


def _recognize_unlimited(turn: Turn, record: WorkloadRecord) -> WorkloadRecord:
    """Tell again which rebuilt limits stand for "unlimited": no grant reaches the total of a node."""
    node = turn.work.node(record.node)
    if node is None or node.total is None or record.desired is None:
        return record
    kept = turn.reserved(node)
    whole = {
        name
        for name, value, total, share in (
            ("cpu_limit", record.desired.cpu_limit, node.total.cpu, kept.cpu),
            ("memory_limit", record.desired.memory_limit, node.total.memory, kept.memory),
        )
        if value is not None and value >= total and share > 0
    }
    return turn.change(record, unlimited=record.unlimited | whole)
