"""Which node is meant when none is named: the one there is."""

from components.cli.connection import Session
from components.cli.errors import UsageError
from schemas.node import NodeInfo
from schemas.resources import NodeCapacity


def node_of(session: Session) -> str:
    """The only known node, from what is retained. Raises UsageError when there is none, or a choice.

    The session is subscribed to `NodeInfo` and `NodeCapacity`.
    """
    known = {
        message.node
        for heard in session.retained()
        if isinstance(message := heard.decoded, NodeInfo | NodeCapacity)
    }
    if len(known) == 1:
        return known.pop()
    if not known:
        raise UsageError("no node is known on this broker: start its node_agent, or name it with --node")
    raise UsageError(f"which node? --node is one of {', '.join(sorted(known))}")
