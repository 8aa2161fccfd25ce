"""Endings that may not have reached anybody: said again at the next start, unless known to be published."""

from collections.abc import Iterable
from typing import Final

SAID_AFTER_S: Final = 5.0
"""A final status counts as published after so long on one connection."""


class Unsaid:
    """Since when each ending has been said on the present connection, on the monotonic clock in seconds."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._connected = False

    def add(self, action_id: str, now: float) -> None:
        """It is being said; without a connection that may be in vain."""
        self._since[action_id] = now

    def connected(self, now: float) -> None:
        """What waited is said from now on."""
        self._connected = True
        self._since = dict.fromkeys(self._since, now)

    def disconnected(self) -> None:
        """Whatever was said of late may be lost, and so may what will be said."""
        self._connected = False

    def published(self, now: float) -> list[str]:
        """Those that were said long enough ago to be known as published."""
        if not self._connected:
            return []
        return [action_id for action_id, since in self._since.items() if now - since >= SAID_AFTER_S]

    def forget(self, action_ids: Iterable[str]) -> None:
        """They are known as published."""
        for action_id in action_ids:
            del self._since[action_id]
