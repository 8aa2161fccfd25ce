"""Granting: validation with reservation, recording, abandoning. One transaction each.

A granted validation with `reserve` is the reservation. The same (action, step, attempt) gets the same answer.
"""

from typing import Any

from components.resource_manager.capacity import Refusal, allocated, judge
from components.resource_manager.lifecycle import SyncEvent
from components.resource_manager.records import ActionRow, Stage, WorkloadRecord
from components.resource_manager.rollback import roll_back, rollback_of
from components.resource_manager.rows import close, end_reconcile, recall, remember
from components.resource_manager.turn import Turn
from schemas.enums import DesiredOperation, Reason, Verdict
from schemas.limits import Limits
from schemas.resources import DesiredReply, DesiredRequest, ValidateReply, ValidateRequest


def validate(turn: Turn, request: ValidateRequest) -> None:
    """Answer whether limits may be given, and reserve them if asked to."""
    if request.reserve and request.action_id is None:
        text = "a reservation needs the action_id that it is for"
        body: dict[str, Any] = {"allowed": False, "reason": Reason.INVALID_TARGET, "message": text}
    else:
        row = turn.work.row(request.action_id) if request.action_id and request.reserve else None
        if row is not None and row.stage is Stage.RESERVED and request.attempt > row.attempt:
            # The RECORD that follows may come after the lease; then no late copy of this may open the row again.
            row = turn.change_row(row, attempt=request.attempt)
        body = _known_answer(row, request) or _judge_request(turn, request, row)
    reply = {"node": request.node, "workload_id": request.workload_id, **free(turn, request.node), **body}
    turn.say(ValidateReply(in_reply_to=request.id, wire=request.wire, **reply))


def free(turn: Turn, name: str) -> dict[str, Any]:
    """The field `available` of an answer about a node; none if the node's size is not known."""
    node = turn.work.node(name)
    if node is None or node.total is None:
        return {}
    return {"available": turn.room(node).available.model_dump()}


def _known_answer(row: ActionRow | None, request: ValidateRequest) -> dict[str, Any] | None:
    """The answer of an action that was judged before, if it still stands."""
    if row is None:
        return None
    if row.verdict is not None:
        told = {"verdict": row.verdict, "reason": row.reason, "message": row.message}
        return {"allowed": False, "generation": row.generation, "workload_id": row.workload, **told}
    before = recall(row, "validate", request.attempt)
    if before is not None and (before["allowed"] or not row.open):
        return before
    # One that crashed begins again at an attempt that was refused once: it is answered up to where it was, since a
    # late RECORD of its earlier life may still come.
    if row.open:
        return {"allowed": True, "generation": row.generation, "workload_id": row.workload}
    if request.attempt <= row.attempt:
        text = "an earlier attempt of this action; its reservation has ended"
        return {"allowed": False, "reason": Reason.EXPIRED, "message": text, "workload_id": row.workload}
    return None


def _judge_request(turn: Turn, request: ValidateRequest, row: ActionRow | None) -> dict[str, Any]:
    found = find(turn, request.node, request.workload_id)
    wanted = Limits(cpu_limit=request.requested_cpu, memory_limit=request.requested_memory)
    name = request.workload_id
    generation = 0
    if isinstance(found, Refusal):
        refusal: Refusal | None = found
    else:
        name = found.name
        generation = found.generation if found.managed else 0
        refusal = _refusal(turn, request, found, wanted)
    body: dict[str, Any] = {"allowed": refusal is None, "workload_id": name, "generation": generation}
    if refusal is not None:
        body |= {"reason": refusal.reason, "message": refusal.message}
    body |= free(turn, request.node)
    if request.reserve and request.action_id:
        _open_or_refuse(turn, request, row, wanted, name, body)
    return body


def _open_or_refuse(
    turn: Turn, request: ValidateRequest, row: ActionRow | None, wanted: Limits, name: str, body: dict[str, Any]
) -> None:
    """Keep the grant as an open row, the refusal as a closed one, so that a late copy cannot open it."""
    fresh = ActionRow(
        action_id=str(request.action_id),
        node=request.node,
        workload=name,
        stage=Stage.RESERVED if body["allowed"] else Stage.CLOSED,
        attempt=request.attempt,
        target=wanted,
        closed_ms=0 if body["allowed"] else turn.now.epoch_ms,
    )
    if row is not None:
        fresh = fresh.model_copy(update={"answers": row.answers, "failures": row.failures})
    turn.change_row(fresh, answers=remember(fresh, "validate", request.attempt, body))
    if body["allowed"]:
        turn.lease(fresh.action_id)
        _end_reconcile(turn, (request.node, name))


def _end_reconcile(turn: Turn, key: tuple[str, str]) -> None:
    """End a reconcile under way: the action that arrived takes its place."""
    record = turn.work.workload(key)
    if record is not None and record.reconcile is not None:
        end_reconcile(turn, record, Verdict.FAILED, Reason.SUPERSEDED, "an action took its place")


def find(turn: Turn, node_name: str, workload_id: str) -> WorkloadRecord | Refusal:
    """The running workload of a name, a full container id, or Pullpiri's model, on a node that can be reached."""
    node = turn.work.node(node_name)
    if node is None and turn.work.replaces_lost:
        text = f"the ledger was lost, and the agent of {node_name} has not spoken since; try again in a moment"
        return Refusal(Reason.OVERLOADED, text)
    if node is None:
        known = ", ".join(sorted(turn.work.ledger.nodes)[:8]) or "none"
        text = f"no agent of a node {node_name} was ever heard; known nodes: {known}"
        return Refusal(Reason.UNKNOWN_NODE, text)
    if node.total is None or not node.heard:
        lack = "how large the node is" if node.total is None else "what runs there"
        text = f"the agent of {node_name} has not told yet {lack}; ask again in a moment"
        return Refusal(Reason.NODE_UNAVAILABLE, text)
    if node_name in turn.live.silent:
        text = (
            f"the agent of {node_name} is connected, but does not tell what is in force; see its log, restart it"
        )
        return Refusal(Reason.NODE_UNAVAILABLE, text)
    if not turn.reachable(node_name):
        text = (
            f"the agent of {node_name} is away; nothing there can be scaled without it. Start it, then ask again"
        )
        return Refusal(Reason.NODE_UNAVAILABLE, text)
    record = turn.work.workload((node_name, workload_id)) or _by_id_or_model(turn, node_name, workload_id)
    if isinstance(record, Refusal):
        return record
    if record is None or (record.dormant and record.managed):
        text = f"{node_name} has no container {workload_id}; give its exact name or full id"
        return Refusal(Reason.UNKNOWN_WORKLOAD, text)
    if not record.running:
        return Refusal(Reason.NOT_RUNNING, f"{record.name} is not running on {node_name}; start it first")
    return record


def _by_id_or_model(turn: Turn, node: str, wanted: str) -> WorkloadRecord | Refusal | None:
    """The workload of a container's full id, else the only running one of Pullpiri's model."""
    here = list(turn.work.workloads_of(node))
    same_id = next((record for record in here if record.runtime_id == wanted), None)
    if same_id is not None:
        return same_id
    of_model = sorted(record.name for record in here if record.model == wanted and record.running)
    if len(of_model) > 1:
        text = f"the model {wanted} has several containers on {node}; name one: {', '.join(of_model)}"
        return Refusal(Reason.UNKNOWN_WORKLOAD, text)
    return turn.work.workload((node, of_model[0])) if of_model else None


def _refusal(turn: Turn, request: ValidateRequest, record: WorkloadRecord, wanted: Limits) -> Refusal | None:
    generation = record.generation if record.managed else 0
    if request.base_generation is not None and request.base_generation != generation:
        text = f"decided on generation {request.base_generation}, the present one is {generation}; decide anew"
        return Refusal(Reason.SUPERSEDED, text)
    other = turn.work.open_row(record.key)
    if other is not None and other.action_id != request.action_id:
        text = f"action {other.action_id} on {record.name} is under way; try again when it has ended"
        return Refusal(Reason.OVERLOADED, text)
    if turn.work.replaces_lost:
        text = "the ledger was rebuilt and may not know every reservation yet; try again in a moment"
        return Refusal(Reason.OVERLOADED, text)
    node = turn.work.node(record.node)
    if node is not None and (unmeasured := turn.unmeasured(node)):
        text = f"the agent of {node.node} has not told yet what its unlimited containers use ({unmeasured[0]})"
        return Refusal(Reason.OVERLOADED, f"{text}; try again in a moment")
    return fits(turn, record, wanted)


def fits(turn: Turn, record: WorkloadRecord, wanted: Limits) -> Refusal | None:
    """Whether there is room for `wanted` on top of what the workload has; None: yes."""
    node = turn.work.node(record.node)
    if node is None or node.total is None:
        return Refusal(Reason.UNKNOWN_NODE, f"the size of {record.node} is not known")
    for name in wanted.asked:
        if name in node.unsupported:
            return Refusal(Reason.UNSUPPORTED, f"{name} on {record.node}: {node.unsupported[name]}")
    before = turn.allocated(record)
    merged = (record.desired or Limits()).merged(wanted)
    trial = ActionRow(
        action_id="trial", node=record.node, workload=record.name, stage=Stage.RESERVED, target=wanted
    )
    counted = record.model_copy(update={"withheld": False, "desired": merged})
    rows = [*turn.work.active_rows(record.key), trial]
    after = allocated(counted, rows)
    maximum = turn.settings.policy_of(record.name).max.limits
    return judge(turn.room(node), before, after, maximum, wanted)


def decide(turn: Turn, request: DesiredRequest) -> None:
    """Record a granted target as desired, or abandon the action."""
    record_it = request.operation is DesiredOperation.RECORD
    body = _record(turn, request) if record_it else _abandon(turn, request)
    turn.say(DesiredReply(in_reply_to=request.id, wire=request.wire, **body))
    record = turn.work.workload((request.node, request.workload_id))
    if record_it and body["success"] and record is not None and record.sync_state == "PENDING":
        turn.publish(turn.change(turn.publish(record), SyncEvent.HANDED_OVER))


def _record(turn: Turn, request: DesiredRequest) -> dict[str, Any]:
    row = turn.work.row(request.action_id)
    if row is not None and row.verdict is not None:
        return _ended(row)
    if row is not None and row.stage is Stage.RECORDED:
        return _recorded(turn, row, request.attempt)
    lease = turn.live.leases.get(request.action_id, turn.now.monotonic + 1)
    if row is None or row.stage is not Stage.RESERVED or lease <= turn.now.monotonic:
        text = "the reservation has ended; validate again"
        if row is not None and row.stage is Stage.RESERVED:
            close(turn, row, None, Reason.EXPIRED, text)  # housekeeping will not be waited for
        return {"success": False, "reason": Reason.EXPIRED, "message": text}
    record = turn.work.workload(row.key)
    if record is None or not record.running:
        text = f"{row.workload} stopped in the meantime"
        close(turn, row, Verdict.FAILED, Reason.NOT_RUNNING, text)
        return {"success": False, "reason": Reason.NOT_RUNNING, "message": text, "verdict": Verdict.FAILED}
    asked = request.target.only({"cpu_limit", "memory_limit"})
    if asked != row.target:
        text = f"target {asked.asked} is not what was reserved, {row.target.asked}"
        close(turn, row, Verdict.FAILED, Reason.INVALID_TARGET, text)
        return {"success": False, "reason": Reason.INVALID_TARGET, "message": text, "verdict": Verdict.FAILED}
    late = fits(turn, record, row.target) if record.withheld else None
    if late is not None:
        # Recorded, its other limits count again. They were not reserved, and others took their room meanwhile.
        close(turn, row, None, Reason.EXPIRED, late.message)
        return {"success": False, "reason": Reason.EXPIRED, "message": late.message}
    node = turn.work.node(row.node)
    unsupported = node.unsupported if node else {}
    for name in set(request.target.asked) & set(unsupported):
        text = f"{name} on {row.node}: {unsupported[name]}"
        close(turn, row, Verdict.FAILED, Reason.UNSUPPORTED, text)
        return {"success": False, "reason": Reason.UNSUPPORTED, "message": text, "verdict": Verdict.FAILED}
    return _record_granted(turn, request, row, record)


def _record_granted(turn: Turn, request: DesiredRequest, row: ActionRow, record: WorkloadRecord) -> dict[str, Any]:
    rollback, unlimited = rollback_of(turn, record, request.target)
    generation = turn.work.ledger.next_generation(record)
    desired = (record.desired or Limits()).merged(request.target)
    turn.change(
        record,
        SyncEvent.RECORDED,
        desired=desired,
        generation=generation,
        unlimited=record.unlimited - set(request.target.asked),
        attempt=0,
        withheld=False,
    )
    row = turn.change_row(
        row,
        stage=Stage.RECORDED,
        attempt=request.attempt,
        target=request.target,
        generation=generation,
        rollback=rollback,
        rollback_unlimited=unlimited,
        runtime_id=record.runtime_id,
    )
    turn.lease(row.action_id)
    return _recorded(turn, row, request.attempt)


def _recorded(turn: Turn, row: ActionRow, attempt: int) -> dict[str, Any]:
    record = turn.work.workload(row.key)
    node = turn.work.node(row.node)
    if attempt > row.attempt:
        turn.change_row(row, attempt=attempt)
    return {
        "success": True,
        "generation": row.generation,
        "desired": record.desired if record else None,
        "runtime_id": row.runtime_id,
        "boot_id": node.boot_id if node else 0,
    }


def _ended(row: ActionRow) -> dict[str, Any]:
    told = {"reason": row.reason, "message": row.message, "verdict": row.verdict}
    return {"success": False, "generation": row.generation, **told}


def _abandon(turn: Turn, request: DesiredRequest) -> dict[str, Any]:
    row = turn.work.row(request.action_id)
    text = "abandoned by its ActionController"
    if row is None:
        row = ActionRow(
            action_id=request.action_id, node=request.node, workload=request.workload_id, stage=Stage.CLOSED
        )
    if row.verdict is not None:
        return {**_ended(row), "success": True}
    record = turn.work.workload(row.key)
    if row.stage is Stage.RECORDED and record is not None:
        roll_back(turn, record, row, Reason.SUPERSEDED, text)
    else:
        close(turn, row, Verdict.FAILED, Reason.SUPERSEDED, text)
    return {"success": True, "generation": row.generation, "message": text, "verdict": Verdict.FAILED}
