"""A component's own status topic: birth, will, goodbye, and healing when the topic tells an untruth."""

import importlib.metadata
from typing import Final

from components.component import Instant
from schemas.codec import Decoded
from schemas.enums import ConnectionState
from schemas.operations import ComponentStatus
from schemas.topics import Role, topic_of

_ENDED: Final = frozenset({ConnectionState.LOST, ConnectionState.DISCONNECTED})
HEAL_INTERVAL_S: Final = 1.0
"""At most once in so long is an untrue status overwritten: two that contradict each other must not flood."""


def version() -> str:
    """Version of the installed distribution; empty when it runs without being installed."""
    try:
        return importlib.metadata.version("piriscale")
    except importlib.metadata.PackageNotFoundError:
        return ""


class OwnStatus:
    """What a component says of itself on `component/{role}/{instance}`."""

    def __init__(self, role: Role, instance: str, boot_id: int) -> None:
        self._template = ComponentStatus(
            component=role,
            instance=instance,
            state=ConnectionState.INIT,
            boot_id=boot_id,
            version=version(),
        )
        self.state = ConnectionState.INIT
        self.topic = topic_of(ComponentStatus).address({"component": role, "instance": instance})
        self._untrue = False
        self._heal_from = 0.0

    def now(self, state: ConnectionState | None = None) -> ComponentStatus:
        """The status message; of the present state, unless another is given."""
        return self._template.model_copy(update={"state": state or self.state})

    def heard(self, said: Decoded) -> None:
        """Note what the own topic says; it is an untruth unless this life of ours said it before it ends."""
        if not isinstance(said, ComponentStatus):
            self._untrue = True  # cleared, or unreadable, while we live
        elif said.boot_id != self._template.boot_id or said.state in _ENDED:
            self._untrue = True

    def due(self, now: Instant) -> list[ComponentStatus]:
        """The status to be said again, if the topic tells an untruth."""
        if not self._untrue or now.monotonic < self._heal_from:
            return []
        self._untrue = False
        self._heal_from = now.monotonic + HEAL_INTERVAL_S
        return [self.now()]
