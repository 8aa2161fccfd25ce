"""Which nodes one of several MonitoringServers watches, so that a bench that outgrows one core takes two."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from zlib import crc32

from schemas.topics import Role, lookup

NODES_REMEMBERED: Final = 65_536


@dataclass(frozen=True)
class Share:
    """Part `number` of `parts`. A node is in exactly one part, by its name, whatever the others do."""

    number: int
    parts: int

    @property
    def whole(self) -> bool:
        """Whether there is no other part."""
        return self.parts == 1

    @property
    def name(self) -> str:
        """The instance: "main", or such as "2-of-3"."""
        return "main" if self.whole else f"{self.number}-of-{self.parts}"

    def has(self, topic: str) -> bool:
        """Whether a topic is of a node in this part, or of no node."""
        node = _node_of(topic)
        return not node or crc32(node.encode()) % self.parts == self.number - 1


@lru_cache(NODES_REMEMBERED)
def _node_of(topic: str) -> str:
    """The node that a topic names, also as the instance of its agent; empty: none."""
    found = lookup(topic)
    if found is None:
        return ""
    _, values = found
    agent = values.get("instance", "") if values.get("component") == Role.NODE_AGENT else ""
    return values.get("node", agent)
