"""What a workload is named by, and which one an application means that knows only its container's id or model."""

from typing import Final

from components.aliases import Aliases
from schemas.node import NodeSnapshot

NODES_MAX: Final = 1_000
WORKLOADS_MAX: Final = 20_000

Key = tuple[str, str]
"""Node and workload."""


class Names:
    """Names of containers by what else they are known by, as the snapshots of their nodes tell; bounded."""

    def __init__(self) -> None:
        self._nodes: dict[str, Aliases] = {}

    def learn(self, told: NodeSnapshot) -> None:
        """Take in what is on a node now."""
        if told.node in self._nodes or len(self._nodes) < NODES_MAX:
            self._nodes.setdefault(told.node, Aliases()).learn(told)

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._nodes.pop(node, None)

    def key_of(self, node: str, given: str) -> Key:
        """The key of a workload; the name as it was given, where it is no other one's alias."""
        aliases = self._nodes.get(node)
        return node, aliases.name_of(given) if aliases else given
