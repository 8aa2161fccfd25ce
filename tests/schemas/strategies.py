"""Arbitrary valid messages of every type, built from the models' own constraints."""

import types
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from schemas.message import Message, Wire
from schemas.topics import TOPICS

MESSAGE_TYPES = [topic.message for topic in TOPICS]
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)
"""Short, so that examples can be read."""
CPU_LISTS = st.sampled_from(["0", "0-2,4", "1,3,5-7", "8191"])
_LARGEST = 2**53


def messages(model: type[Message]) -> st.SearchStrategy[Any]:
    """Valid messages of one type, as the configured wire would carry them."""
    return _model(model)


def any_message() -> st.SearchStrategy[Any]:
    """Valid messages of every type in the registry."""
    return st.sampled_from(MESSAGE_TYPES).flatmap(messages)


def _model(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    fields = {
        name: _field(name, info) for name, info in model.model_fields.items() if info.annotation != Wire | None
    }
    return st.fixed_dictionaries(fields).map(lambda values: model(**values))


def _field(name: str, info: FieldInfo) -> st.SearchStrategy[Any]:
    if name == "cpuset_cpus":
        return st.none() | CPU_LISTS
    if name == "v":
        return st.just(1)
    return _value(info.annotation, _bounds(info.metadata))


def _bounds(metadata: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in metadata:
        for part in entry.metadata if isinstance(entry, FieldInfo) else [entry]:
            for key in ("gt", "ge", "le", "lt", "min_length", "max_length", "pattern"):
                value = getattr(part, key, None)
                if value is not None:
                    found[key] = value
    return found


def _value(annotation: Any, bounds: dict[str, Any]) -> st.SearchStrategy[Any]:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(parts[0], {**bounds, **_bounds(parts[1:])})
    if origin in (Union, types.UnionType):
        return st.one_of([_value(part, bounds) for part in parts])
    if origin is Literal:
        return st.sampled_from(parts)
    if origin is tuple:
        return st.lists(_value(parts[0], {}), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(_value(parts[0], {}), _value(parts[1], {}), max_size=3)
    return _plain(annotation, bounds)


def _plain(kind: Any, bounds: dict[str, Any]) -> st.SearchStrategy[Any]:
    if kind is type(None):
        return st.none()
    if kind is bool:
        return st.booleans()
    if kind is int:
        low = bounds["gt"] + 1 if "gt" in bounds else bounds.get("ge", -_LARGEST)
        return st.integers(low, bounds.get("le", _LARGEST))
    if kind is float:
        low = bounds.get("ge", bounds.get("gt"))
        return st.floats(low, bounds.get("le"), allow_nan=False, allow_infinity=False)
    if kind is str:
        return _text(bounds)
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    return _model(kind)


def _text(bounds: dict[str, Any]) -> st.SearchStrategy[str]:
    if "pattern" in bounds:
        return NAMES
    longest = min(bounds.get("max_length", 40), 40)
    return st.text(
        st.characters(exclude_categories=["Cs"]), min_size=bounds.get("min_length", 0), max_size=longest
    )
