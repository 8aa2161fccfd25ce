"""Whose turn it is: one write at a time per container, and none while an earlier one may still be at work."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from components.node_agent.verdict import UpdateOrder
from schemas.node import UpdateRequest

ACTIVE_MAX: Final = 8
"""Writes at once, over all containers."""
WAITING_MAX: Final = 256


@dataclass(frozen=True)
class Write:
    """One request on its way to the runtime."""

    name: str
    """The container's name, as far as it is known."""
    request: UpdateRequest
    order: UpdateOrder

    @property
    def by_hand(self) -> bool:
        """Sent by a person or a tool, without a generation."""
        return self.request.generation is None


@dataclass(frozen=True)
class Queued:
    """What became of a write that was to wait its turn."""

    accepted: bool
    displaced: Write | None = None
    """An older one of the same container that will not be carried out."""


class Writes:
    """Waiting, active and settling writes. One may wait per container; a newer one takes its place."""

    def __init__(self, settle_s: float, unsettled: Iterable[str], now: float) -> None:
        """`unsettled`: containers an agent died writing to; they are busy for `settle_s`."""
        self._settle_s = settle_s
        self._waiting: dict[str, Write] = {}
        self._active: dict[str, Write] = {}
        self._settling: dict[str, float] = dict.fromkeys(unsettled, now + settle_s)
        self._ended: dict[str, float] = {}

    def queue(self, write: Write) -> Queued:
        """Let a write wait its turn. One by hand gives way to a command; a full queue takes none."""
        older = self._waiting.get(write.name)
        if older is None and len(self._waiting) >= WAITING_MAX:
            return Queued(accepted=False)
        if older is not None and write.by_hand and not older.by_hand:
            return Queued(accepted=False)
        self._waiting[write.name] = write
        return Queued(accepted=True, displaced=older)

    def renew(self, repeat: Write) -> None:
        """Let the answer of a waiting or active command name the newer request id. Its deadline stays."""
        for table in (self._waiting, self._active):
            write = table.get(repeat.name)
            if write is not None and _command(write) == _command(repeat):
                table[repeat.name] = replace(write, request=repeat.request)

    def expired(self, now: float) -> list[Write]:
        """Waiting writes whose deadline has passed; they leave."""
        late = [write for write in self._waiting.values() if write.order.deadline < now]
        for write in late:
            del self._waiting[write.name]
        return late

    def begin(self, id_of: Callable[[str], str | None]) -> list[Write]:
        """Waiting writes whose turn has come; they become active."""
        free = ACTIVE_MAX - len(self._active)
        if free <= 0 or not self._waiting:
            return []
        ready = [write for write in self._waiting.values() if not self._is_held(write, id_of)][:free]
        for write in ready:
            del self._waiting[write.name]
            self._active[write.name] = write
        return ready

    def _is_held(self, write: Write, id_of: Callable[[str], str | None]) -> bool:
        if write.name in self._active:
            return True
        return bool(self._settling) and id_of(write.name) in self._settling

    def drop_waiting(self) -> list[Write]:
        """All waiting writes; they leave."""
        dropped = list(self._waiting.values())
        self._waiting.clear()
        return dropped

    def finished(self, name: str, now: float) -> Write | None:
        """A write is over, as far as we waited for it; the one that was active."""
        self._ended[name] = now
        return self._active.pop(name, None)

    def settle(self, container_id: str, now: float) -> None:
        """A call may still be at work on this container."""
        self._settling[container_id] = now + self._settle_s

    def settled(self, now: float) -> list[str]:
        """Containers, by id, that are busy no more; told once."""
        over = [container_id for container_id, until in self._settling.items() if until <= now]
        for container_id in over:
            del self._settling[container_id]
            self._ended[container_id] = now
        return over

    @property
    def unsettled(self) -> bool:
        """Whether any container is busy with a call that may still be at work."""
        return bool(self._settling)

    def was_busy(self, name: str, container_id: str, since: float) -> bool:
        """Whether the container is busy, or was at some moment after `since`."""
        if name in self._active or container_id in self._settling:
            return True
        return any(self._ended.get(key, since) > since for key in (name, container_id))

    def forget_before(self, moment: float) -> None:
        """Forget what ended before; no observation that began so early is outstanding."""
        self._ended = {key: at for key, at in self._ended.items() if at >= moment}


def _command(write: Write) -> tuple[int | None, int, str | None]:
    return write.request.generation, write.request.attempt, write.request.action_id
