"""A payload as JSON that MQTT Explorer can show: valid, free of NaN, and small enough not to be cut by it."""

import json
from collections.abc import Iterator
from typing import Any, Final

from schemas.codec import HEAD_BYTES, MESSAGE_BYTES_MAX, unpack

JSON_BYTES_MAX: Final = 18_000
"""MQTT Explorer cuts payloads at 20,000 bytes, and then shows no JSON."""


def render(payload: bytes) -> bytes:
    """The payload's map as JSON of at most 18 kB; what cannot be read says so and how it begins."""
    if len(payload) > MESSAGE_BYTES_MAX:
        return _unreadable(payload, f"a message has at most {MESSAGE_BYTES_MAX} bytes")
    try:
        body, _ = unpack(payload)
        return fit(body, JSON_BYTES_MAX)
    except ValueError as error:
        return _unreadable(payload, str(error))


def fit(body: dict[str, Any], most: int) -> bytes:
    """JSON of at most `most` bytes: cut, if it must be, by dropping members from its largest list.

    Where no list is left, entries of inner maps go, and then its own. `body` is changed.
    """
    text = _dump(body)
    if len(text) <= most:
        return text
    body.pop("cut", None)
    most -= len(_dump({"cut": True})) - 1
    while len(text := _dump(body)) > most:
        largest = max(_droppable(body), key=lambda container: len(_dump(container)), default=body)
        _drop(largest, len(text) - most)
    return _dump({**body, "cut": True})


def _unreadable(payload: bytes, why: str) -> bytes:
    return _dump(
        {"unreadable": True, "why": why[:1024], "bytes": len(payload), "head": payload[:HEAD_BYTES].hex()}
    )


def _dump(value: Any) -> bytes:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")


def _droppable(body: dict[str, Any]) -> list[Any]:
    """What may lose members: lists that have some; if there are none, inner maps."""
    inner = list(_containers(body))
    return [one for one in inner if isinstance(one, list)] or inner


def _containers(value: Any) -> Iterator[Any]:
    """All lists and maps inside of `value` that have members."""
    members = value.values() if isinstance(value, dict) else value
    for member in members:
        if isinstance(member, dict | list) and member:
            yield member
            yield from _containers(member)


def _drop(container: Any, excess: int) -> None:
    """Drop members from the end until `excess` bytes are gone, or all members."""
    gone = 0
    while container and gone < excess:
        if isinstance(container, list):
            gone += len(_dump(container.pop())) + 1
        else:
            gone += len(_dump(dict([container.popitem()]))) - 1
