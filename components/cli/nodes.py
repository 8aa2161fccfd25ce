"""Which node is meant when none is named: the one there is."""

from collections.abc import Iterable

from components.cli.errors import UsageError
from schemas.codec import Decoded
from schemas.node import NodeInfo
from schemas.resources import NodeCapacity


def only_node(retained: Iterable[Decoded]) -> str:
    """The only node of which something is retained. Raises UsageError when there is none, or a choice."""
    known = {message.node for message in retained if isinstance(message, NodeInfo | NodeCapacity)}
    if len(known) == 1:
        return known.pop()
    if not known:
        raise UsageError("no node is known on this broker: start its node_agent, or name it with --node")
    raise UsageError(f"which node? --node is one of {', '.join(sorted(known))}")
