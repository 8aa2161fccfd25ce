"""Fences: per container name the highest command that was ever sent, so that no older one is carried out after it.

In memory only: a restart changes boot_id, and a command for another boot is refused anyway.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from schemas.node import UpdateReply
from schemas.resources import Fence

NAMES_MAX: Final = 65_536
"""Fences are never forgotten, so strangers that invent names must not fill the memory."""


class Admission(Enum):
    """What becomes of a command."""

    NEW = auto()
    RUNNING = auto()
    """It came before and is not done: its answer will come."""
    ANSWERED = auto()
    """It came before and is done: the stored answer is given again."""
    SUPERSEDED = auto()
    """A higher one, or the same of another action, came before."""
    FULL = auto()
    """There are too many names."""


@dataclass
class _Entry:
    fence: Fence
    action_id: str
    answer: UpdateReply | None = None


class Fences:
    """The highest (generation, attempt) by name, whether or not it could be carried out."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def admit(self, name: str, fence: Fence, action_id: str) -> Admission:
        """Raise the fence to this command, if it is higher, and tell what becomes of it."""
        entry = self._entries.get(name)
        if entry is None and len(self._entries) >= NAMES_MAX:
            return Admission.FULL
        if entry is None or fence.key > entry.fence.key:
            self._entries[name] = _Entry(fence, action_id)
            return Admission.NEW
        if fence.key < entry.fence.key or action_id != entry.action_id:
            return Admission.SUPERSEDED
        return Admission.RUNNING if entry.answer is None else Admission.ANSWERED

    def of(self, name: str) -> Fence | None:
        """The highest command that was sent for this name."""
        entry = self._entries.get(name)
        return None if entry is None else entry.fence

    def answered(self, name: str, fence: Fence, answer: UpdateReply) -> None:
        """Keep the answer of a command, if it still is the highest."""
        entry = self._entries.get(name)
        if entry is not None and entry.fence == fence:
            entry.answer = answer

    def answer(self, name: str) -> UpdateReply | None:
        """The stored answer of the highest command."""
        entry = self._entries.get(name)
        return None if entry is None else entry.answer
