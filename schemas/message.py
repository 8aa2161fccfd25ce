"""What every message has in common."""

import math
import re
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

LARGEST_INTEGER: Final = 2**53
"""Integers above this lose digits in JSON clients that know only doubles."""

NAME_LENGTH_MAX: Final = 128
NAME_PATTERN: Final = rf"^[A-Za-z0-9._-]{{1,{NAME_LENGTH_MAX}}}$"
_NAME = re.compile(NAME_PATTERN[1:-1])

Name = Annotated[str, Field(pattern=NAME_PATTERN, description="one topic level: letters, digits, '.', '_', '-'")]
ID_LENGTH_MAX: Final = 256

Id = Annotated[str, Field(min_length=1, max_length=ID_LENGTH_MAX, description="unique id, chosen by the sender")]
Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST_INTEGER)]
Text = Annotated[str, Field(max_length=4096)]


def _whole(value: Any) -> Any:
    """A finite float as the nearest integer: languages that know only doubles write 1.75e12."""
    return round(value) if isinstance(value, float) and math.isfinite(value) else value


def is_name(text: str) -> bool:
    """Whether `text` may name a node or a workload."""
    return _NAME.fullmatch(text) is not None


class Wire(StrEnum):
    """How a message is written."""

    MSGPACK = "msgpack"
    JSON = "json"


class Message(BaseModel):
    """One message on the bus.

    `id`, `ts` and `source` are stamped by the sender's shell where the logic left them out. `ts` is
    informative: order and freshness never depend on another machine's clock.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    identity: ClassVar[tuple[str, ...]] = ()
    """Fields that suffice to answer a message whose other values are bad; none: it has no answer."""

    v: Literal[1] = Field(1, description="version of the message format")
    id: Annotated[str, Field(max_length=ID_LENGTH_MAX)] = Field("", description="unique id, chosen by the sender")
    ts: Annotated[Count, BeforeValidator(_whole)] | None = Field(
        None, description="when it was sent, UTC epoch ms; informative only; a fraction is rounded"
    )
    source: Annotated[str, Field(max_length=300)] | None = Field(None, description="who sent it")
    wire: Wire | None = Field(
        None, exclude=True, description="how it came; JSON is answered in JSON, all else as configured; never sent"
    )


class Request(Message):
    """A message that is repeated, with the same id, until its answer comes."""

    id: Id


class Reply(Message):
    """The answer to a request; given again whenever the request comes again."""

    in_reply_to: Id = Field(description="id of the request")
