"""Histories for people: what happened, numbered, one line each."""

from typing import Any

from broker.bus import Delivery
from schemas.codec import Cleared, Frame, Malformed, decode
from schemas.limits import Limits
from schemas.message import Message
from schemas.node import NodeSnapshot, StatusReply
from tests.simulation.world import Note

_LEFT_OUT = {"v", "id", "ts", "source", "timings_ms", "cause", "message", "version", "status", "revision", "since"}


def line(note: Note) -> str:
    """One event."""
    return f"{note.number:6d} {note.at:9.3f}s  {note.text.format(*(_words(thing) for thing in note.things))}"


def _words(thing: Any) -> str:
    if isinstance(thing, Delivery | Frame):
        found = decode(thing.topic, thing.payload)
        return f"{'(retained) ' if isinstance(thing, Delivery) and thing.retained else ''}{_message(found)}"
    if isinstance(thing, Message):
        return _message(thing)
    if isinstance(thing, Limits):
        return _limits(thing.model_dump(exclude_none=True))
    return str(thing)


def _message(found: Any) -> str:
    if isinstance(found, Cleared):
        return f"deletion of {found.address}"
    if isinstance(found, Malformed) or not isinstance(found, Message):
        return str(found)
    body = found.model_dump(exclude_none=True)
    parts = [f"{name}={_value(value)}" for name, value in body.items() if name not in _LEFT_OUT]
    if isinstance(found, NodeSnapshot | StatusReply):
        parts = [p for p in parts if not p.startswith("containers=")]
        parts += [_container(one) for one in body["containers"]]
    return f"{type(found).__name__}({' '.join(parts)})"


def _container(body: dict[str, Any]) -> str:
    fence = body.get("fence") or {}
    state = "" if body["running"] else " stopped"
    busy = " busy" if body["busy"] else ""
    fenced = f" fence {fence['generation']}.{fence['attempt']}" if fence else ""
    return f"[{body['workload_id']} {body['runtime_id']} {_limits(body.get('actual'))}{state}{busy}{fenced}]"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        if value and set(value) <= set(Limits.model_fields):
            return _limits(value)
        if set(value) == {"generation", "attempt"}:
            return f"{value['generation']}.{value['attempt']}"
        return "{" + " ".join(f"{k}={_value(v)}" for k, v in value.items()) + "}"
    return str(value)


def _limits(body: Any) -> str:
    if body is None:
        return "unknown"
    return "/".join(str(body.get(name, "-")) for name in ("cpu_limit", "memory_limit"))
