"""What components say of themselves, and of what they could not read."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from schemas.enums import ConnectionState
from schemas.message import Count, Message, Name, Text


class ComponentStatus(Message):
    """Birth, readiness and end of a component. `lost` is the will: the broker says it."""

    component: Name
    instance: Name
    state: ConnectionState
    boot_id: Count = 0
    version: Text = ""


class RejectReason(StrEnum):
    """Why a message could not be used."""

    TOO_LARGE = "too_large"
    UNDECODABLE = "undecodable"
    INVALID = "invalid"
    CONTRADICTION = "contradiction"
    UNKNOWN_TOPIC = "unknown_topic"
    HANDLER_FAILED = "handler_failed"


class DeadLetter(Message):
    """A message nobody could use: where it came, why, and how it begins."""

    component: Name
    topic: Text
    reason: RejectReason
    message: Text = ""
    head: Annotated[str, Field(max_length=128)] = Field("", description="its first 64 bytes, hex")
