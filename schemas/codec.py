"""Bytes to messages and back: MessagePack out, MessagePack or JSON in, a reason for everything else.

Decoding never raises. What comes out is a message, a `Cleared` retained topic, a `BadRequest` (readable enough
to be answered), or a `Malformed` (for the dead letters).
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NoReturn

import msgpack
from pydantic import ValidationError

from schemas.enums import Reason
from schemas.limits import Limits
from schemas.message import ID_LENGTH_MAX, Message, Wire, is_name
from schemas.operations import RejectReason
from schemas.topics import Topic, address_of, lookup, topic_of

MESSAGE_BYTES_MAX: Final = 128 * 1024
NESTING_MAX: Final = 16
HEAD_BYTES: Final = 64
TEXT_LENGTH_MAX: Final = 1024
"""Of what a `BadRequest` or `Malformed` quotes, so that it always fits the answer that carries it."""

_TEXT: Final = {str}
_KINDS: Final = {str, int, float, bool, type(None), dict, list}
"""What JSON has, too. MessagePack besides has binary values, and time stamps that meet no `ext_hook`."""
_JSON_STARTS: Final = b"{ \t\r\n"
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_UNSUPPORTED_ERRORS: Final = frozenset({"extra_forbidden", "unsupported_limit"})


@dataclass(frozen=True)
class Frame:
    """A message as it is carried."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False


@dataclass(frozen=True)
class Cleared:
    """A retained topic that was, or is to be, deleted by an empty payload."""

    message: type[Message]
    values: Mapping[str, str]

    @property
    def address(self) -> str:
        """The topic, without the configured prefix."""
        return topic_of(self.message).address(self.values)


@dataclass(frozen=True)
class BadRequest:
    """A request that cannot be carried out, but can be answered."""

    request: type[Message]
    identity: Mapping[str, str]
    reason: Reason
    text: str
    wire: Wire

    @property
    def node(self) -> str:
        """The node it is about; empty when it is not known."""
        return self.identity.get("node", "")


@dataclass(frozen=True)
class Malformed:
    """A message nobody can use."""

    topic: str
    reason: RejectReason
    text: str
    head: str


Decoded = Message | Cleared | BadRequest | Malformed


class MessageTooLargeError(ValueError):
    """A message above `MESSAGE_BYTES_MAX` was to be sent."""


def encode(message: Message, wire: Wire = Wire.MSGPACK, stamp: Mapping[str, object] | None = None) -> Frame:
    """Write a message in JSON where its own `wire` says so, as the answer to JSON does; else in the given one.

    `stamp` has common fields that its author left to the sender: id, ts, source.

    Raises MessageTooLargeError above 128 KiB, and ValueError where a field cannot stand in the topic.
    """
    topic = topic_of(type(message))
    body = message.model_dump(exclude_none=True)
    if stamp:
        body.update(stamp)
    payload = pack(body, Wire.JSON if message.wire is Wire.JSON else wire)
    if len(payload) > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(
            f"{topic.template}: {len(payload)} bytes; a message has at most {MESSAGE_BYTES_MAX}"
        )
    return Frame(address_of(message), payload, topic.qos, topic.retained)


def clear(cleared: Cleared) -> Frame:
    """The frame that deletes a retained topic."""
    return Frame(cleared.address, b"", 1, retain=True)


def pack(body: Mapping[str, Any], wire: Wire) -> bytes:
    """Write a map as MessagePack or JSON. Raises ValueError for NaN and infinities in JSON."""
    if wire is Wire.JSON:
        return json.dumps(body, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    packed: bytes = msgpack.packb(body)
    return packed


def unpack(payload: bytes) -> tuple[dict[str, Any], Wire]:
    """Read a map from MessagePack, or from JSON when it starts like JSON.

    Raises ValueError, in words, for all that is not a map of text, numbers, booleans, lists and maps with
    bounded nesting and finite numbers.
    """
    wire = Wire.JSON if payload[:1] in _JSON_STARTS and payload else Wire.MSGPACK
    try:
        if wire is Wire.JSON:
            value = _load_json(payload.decode())
        else:
            value = msgpack.unpackb(payload, raw=False, strict_map_key=True, ext_hook=_refuse_extension)
    except RecursionError:
        raise ValueError(f"nested deeper than {NESTING_MAX}") from None
    except (ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"neither MessagePack nor JSON: {error or type(error).__name__}") from error
    if not isinstance(value, dict):
        raise ValueError(f"a map is needed, this is {type(value).__name__}")
    _check_values(value)
    return value, wire


def decode(address: str, payload: bytes) -> Decoded:
    """Read what came on a topic (without the configured prefix). Never raises."""
    found = lookup(address)
    if found is None:
        return _malformed(address, payload, RejectReason.UNKNOWN_TOPIC, "no component uses this topic")
    topic, values = found
    if not payload and topic.retained:
        return Cleared(topic.message, values)
    if len(payload) > MESSAGE_BYTES_MAX:
        text = f"{len(payload)} bytes; a message has at most {MESSAGE_BYTES_MAX}"
        return _malformed(address, payload, RejectReason.TOO_LARGE, text)
    try:
        body, wire = unpack(payload)
    except ValueError as error:
        return _malformed(address, payload, RejectReason.UNDECODABLE, str(error))
    for field, value in values.items():
        if body.setdefault(field, value) != value:
            text = f"{field} is {value!r} in the topic and {body[field]!r} in the body"
            return _malformed(address, payload, RejectReason.CONTRADICTION, text)
    body["wire"] = wire
    try:
        return topic.message.model_validate(body)
    except ValidationError as error:
        return _refused(topic, address, payload, body, error)


def _refused(
    topic: Topic, address: str, payload: bytes, body: Mapping[str, Any], error: ValidationError
) -> BadRequest | Malformed:
    """Answerable when the identity is sound; else for the dead letters."""
    text, reason = _explain(error)
    fields = topic.message.identity
    told = ("id", "action_id", "event_id", "node", "workload_id")
    identity = {field: body[field] for field in told if _identifies(field, body.get(field))}
    if not fields or not identity.keys() >= set(fields) or body.get("v", 1) != 1:
        return _malformed(address, payload, RejectReason.INVALID, text)
    return BadRequest(topic.message, identity, reason, text, body["wire"])


def _identifies(field: str, value: Any) -> bool:
    """Whether a field is good enough for an answer to repeat it."""
    if not isinstance(value, str):
        return False
    return is_name(value) if field in ("node", "workload_id") else 1 <= len(value) <= ID_LENGTH_MAX


def _explain(error: ValidationError) -> tuple[str, Reason]:
    """Every mistake in words, and the reason that the gravest of them has."""
    reason = Reason.INVALID_TARGET
    texts = []
    for mistake in error.errors(include_url=False)[:8]:
        where = ".".join(str(part) for part in mistake["loc"])
        where = where or mistake.get("ctx", {}).get("key", "message")
        if mistake["type"] in _UNSUPPORTED_ERRORS:
            reason = Reason.UNSUPPORTED
            supported = ", ".join(mistake.get("ctx", {}).get("supported", Limits.model_fields))
            texts.append(f"{where} is no limit that can be asked for here; supported: {supported}")
        elif mistake["type"] == "missing":
            texts.append(f"{where} is missing")
        else:
            texts.append(f"{where}: {mistake['msg']}, not {_shorten(mistake['input'])}")
    return "; ".join(texts)[:TEXT_LENGTH_MAX], reason


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 64 else f"{text[:61]}..."


def _malformed(address: str, payload: bytes, reason: RejectReason, text: str) -> Malformed:
    return Malformed(address[:TEXT_LENGTH_MAX], reason, text[:TEXT_LENGTH_MAX], payload[:HEAD_BYTES].hex())


def _load_json(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also for half a character, which no answer could repeat."""
    value = json.loads(text, parse_constant=_refuse_constant)
    if _SURROGATE_ESCAPE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _check_values(root: dict[str, Any]) -> None:
    """Raise ValueError for NaN, infinities, kinds of values that JSON lacks, keys that are no text, deep nesting.

    Level by level and in few steps of Python each, since this meets every value of every message.
    """
    dicts: list[dict[Any, Any]] = [root]
    lists: list[list[Any]] = []
    for _ in range(NESTING_MAX):
        if not set(map(type, chain.from_iterable(dicts))) <= _TEXT:
            raise ValueError("keys of a map are text")
        members = [*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)]
        kinds = set(map(type, members))
        if not kinds <= _KINDS:
            raise ValueError("binary values and time stamps of MessagePack are not allowed")
        if float in kinds and not all(math.isfinite(member) for member in members if type(member) is float):
            raise ValueError("NaN and infinities are not allowed")
        dicts = [member for member in members if type(member) is dict] if dict in kinds else []
        lists = [member for member in members if type(member) is list] if list in kinds else []
        if not dicts and not lists:
            return
    raise ValueError(f"nested deeper than {NESTING_MAX}")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not allowed")


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise ValueError(f"MessagePack extension type {code} is not allowed")
