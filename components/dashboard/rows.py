"""Rows of the page, one function for each kind: what was heard, as JSON that the page only has to lay out."""

from typing import Any

from components.overview.actions import ActionSeen
from components.overview.events import LEVEL_OF_OUTCOME, LEVEL_OF_STATE, Event, Level
from components.overview.history import Series
from components.overview.measures import Use
from components.overview.overview import Overview
from components.overview.timeline import Timeline
from components.overview.words import describe, describe_actual
from components.pauses import Pause
from schemas.limits import Amount, Limits
from schemas.metrics import AppMetrics
from schemas.performance import PerfDegraded
from schemas.resources import ResourceState
from schemas.topics import Role
from schemas.units import BYTES_PER_MIB

Row = dict[str, Any]


def node_row(seen: Overview, name: str) -> Row:
    """One node: its agent, its runtime, and its capacity."""
    capacity, info, load = seen.nodes.get(name), seen.infos.get(name), seen.measures.loads.get(name)
    agent = seen.components.get((Role.NODE_AGENT, name))
    row: Row = {"node": name, "agent": agent.state if agent else "unknown"}
    if info is not None:
        row["simulated"] = info.simulated
        rootless = ", rootless" if info.rootless else ""
        row["runtime"] = (
            "simulated containers"
            if info.simulated
            else f"Podman {info.podman_version}, cgroup v{info.cgroup_version}{rootless}"
        )
    if capacity is not None:
        row["unlimited"] = list(capacity.unlimited)
        for what in ("cpu", "memory"):
            row[what] = {
                kind: getattr(getattr(capacity, kind), what)
                for kind in ("total", "allocated", "reserved", "available")
            }
    if load is not None:
        row["load"] = {
            "cpu_percent": round(load.cpu_usage, 1),
            "memory": load.used_memory // BYTES_PER_MIB,
            "memory_total": load.total_memory // BYTES_PER_MIB,
        }
    return row


def workload_row(
    state: ResourceState,
    use: Use | None,
    measures: AppMetrics | None,
    degraded: PerfDegraded | None,
    pause: Pause | None,
) -> Row:
    """One workload: desired and actual, use, state and measures."""
    managed = state.desired is not None or state.generation > 0
    row: Row = {
        "node": state.node,
        "workload": state.workload_id,
        "state": state.sync_state if managed else "not managed",
        "level": LEVEL_OF_STATE[state.sync_state] if managed else Level.QUIET,
        "desired": _limits(state.desired),
        "actual": _limits(state.actual),
        "desired_text": describe(state.desired),
        "actual_text": describe_actual(state.actual, state.desired),
        "generation": state.generation,
        "since": state.since,
        "degraded": degraded is not None,
    }
    said = {"reason": state.reason, "message": state.message, "paused": str(pause) if pause else None}
    row.update({name: value for name, value in said.items() if value})
    if use is not None:
        row["use"] = _amount(use.amount)
    if measures is not None:
        row["measures"] = measures.model_dump(include={"latency_ms", "throughput", "fps"}, exclude_none=True)
    if state.last_failure is not None:
        row["last_failure"] = {"reason": state.last_failure.reason, "at": state.last_failure.ts}
    return row


def action_row(seen: ActionSeen) -> Row:
    """One action: how far it is, or how it ended."""
    status = seen.status
    return {
        "action_id": status.action_id,
        "node": status.node,
        "workload": status.workload_id,
        "state": status.state,
        "phase": status.phase,
        "waiting": seen.waiting and not status.final,
        "outcome": status.outcome,
        "level": LEVEL_OF_OUTCOME[status.outcome] if status.outcome else Level.BUSY,
        "reason": status.reason,
        "message": status.message,
        "target_text": describe(seen.target),
        "actual_text": describe_actual(status.actual, seen.target) if status.actual else None,
        "dry_run": status.dry_run,
        "cause": status.cause.type,
        "began": seen.began_ms,
        "since": seen.phase_since_ms,
        "timings_ms": {phase: round(ms, 2) for phase, ms in status.timings_ms.items()},
    }


def timeline_row(line: Timeline) -> Row:
    """One scaling at a glance; its steps are asked for one by one."""
    return {
        "key": line.key,
        "node": line.node,
        "workload": line.workload,
        "cause": line.cause,
        "action_id": line.action_id,
        "began": round(line.began_ms, 2),
        "took_ms": None if line.took_ms is None else round(line.took_ms, 2),
        "outcome": line.outcome,
        "level": line.level,
        "reason": line.reason,
        "message": line.message,
        "dry_run": line.dry_run,
        "before_text": describe(line.before) if line.before else None,
        "target_text": describe(line.target) if line.target else None,
        "actual_text": describe_actual(line.actual, line.target) if line.actual else None,
        "steps": len(line.steps),
    }


def timeline_document(line: Timeline) -> Row:
    """One scaling with every step."""
    return {
        **timeline_row(line),
        "timings_ms": {phase: round(ms, 2) for phase, ms in line.timings_ms.items()},
        "left_out": line.left_out,
        "repeats": line.repeats,
        "steps": [
            {
                "at": round(step.at_ms, 2),
                "after_ms": round(step.since_start_ms, 2),
                "took_ms": round(step.since_last_ms, 2),
                "who": step.who,
                "topic": step.topic,
                "title": step.title,
                "text": step.text,
                "level": step.level,
            }
            for step in line.steps
        ],
    }


def event_row(event: Event) -> Row:
    """Something that happened."""
    return {
        "at": event.at_ms,
        "level": event.level,
        "kind": event.kind,
        "text": event.text,
        "node": event.node,
        "workload": event.workload,
    }


def series_document(series: Series, after_ms: int) -> Row:
    """Points later than a moment, in columns as the chart wants them. An absent limit is None: there is none."""
    measured = [point for point in series.measured if point.at_ms > after_ms]
    used = [point for point in series.used if point.at_ms > after_ms]
    return {
        "measured": {
            "at": [point.at_ms for point in measured],
            "latency_ms": [point.latency_ms for point in measured],
            "throughput": [point.throughput for point in measured],
            "fps": [point.fps for point in measured],
        },
        "used": {
            "at": [point.at_ms for point in used],
            "cpu_use": [point.usage.cpu for point in used],
            "cpu_limit": [point.limits.cpu_limit for point in used],
            "memory_use": [point.usage.memory for point in used],
            "memory_limit": [point.limits.memory_limit for point in used],
        },
        "thresholds": series.thresholds,
    }


def _limits(limits: Limits | None) -> Row | None:
    if limits is None:
        return None
    return {"cpu": limits.cpu_limit, "memory": limits.memory_limit}


def _amount(amount: Amount) -> Row:
    return {"cpu": amount.cpu, "memory": amount.memory}
