"""`release` and `forget-node`: deleting what is retained, on purpose."""

import time
from collections.abc import Sequence
from typing import Final

from components.cli.connection import Session, subscriptions_to
from components.cli.errors import EXIT_OK, CliError, UsageError
from components.cli.nodes import only_node
from components.overview.words import describe, describe_actual
from components.settings import Settings
from schemas.codec import Cleared, Decoded
from schemas.enums import ConnectionState
from schemas.message import Message, is_name
from schemas.node import NodeInfo, NodeSnapshot
from schemas.operations import ComponentStatus
from schemas.resources import NodeCapacity, ResourceState
from schemas.topics import Role

ANSWER_WITHIN_S: Final = 10.0


def release(settings: Settings, workload: str, node: str | None) -> int:
    """Delete a workload's retained state, which ResourceManager takes as the wish to let go of it.

    Waits until it says the state anew, without desired limits. Returns the exit code.
    """
    _must_be_name(workload, node)
    wanted = subscriptions_to(ResourceState, NodeInfo, NodeCapacity, NodeSnapshot)
    with Session(settings.broker, wanted) as session:
        retained = [heard.decoded for heard in session.retained()]
        node = node or only_node(retained)
        state = _state_of(retained, node, workload)
        workload = state.workload_id
        if state.desired is None:
            print(f"{workload} on {node} has no desired limits; nothing to release")
            return EXIT_OK
        session.clear(Cleared(ResourceState, {"node": node, "workload_id": workload}))
        said = _answer(session, node, workload)
    if said is None:
        raise CliError("resource_manager did not answer: it lets go when it hears of it; is it running?")
    if said.desired is not None:
        raise CliError(f"{workload} on {node} is still to have {describe(said.desired)}: an action is under way")
    print(f"{workload} on {node} is released; in force stays {describe_actual(said.actual)}")
    return EXIT_OK


def _state_of(retained: Sequence[Decoded], node: str, wanted: str) -> ResourceState:
    """The state of the workload of this exact name, else of the container with this full id. Raises CliError."""
    states = {one.workload_id: one for one in retained if isinstance(one, ResourceState) and one.node == node}
    ids = {
        container.runtime_id: container.workload_id
        for snapshot in retained
        if isinstance(snapshot, NodeSnapshot) and snapshot.node == node
        for container in snapshot.containers
    }
    state = states.get(wanted) or states.get(ids.get(wanted, ""))
    if state is None:
        raise CliError(
            f"{wanted} is neither a workload on {node} nor the full id of a container there; a workload whose "
            "container is gone has its name only: see `piriscale status`"
        )
    return state


def _answer(session: Session, node: str, workload: str) -> ResourceState | None:
    """What is said of the workload after the deletion; the last word without desired limits, if there is one."""
    said = None
    for heard in session.until(time.monotonic() + ANSWER_WITHIN_S):
        message = heard.decoded
        if not isinstance(message, ResourceState) or (message.node, message.workload_id) != (node, workload):
            continue
        said = message
        if message.desired is None:
            break
    return said


def forget_node(settings: Settings, node: str, *, force: bool) -> int:
    """Delete all that is retained of a node. Refuses while its agent runs, unless forced."""
    _must_be_name(node)
    kinds = (NodeInfo, NodeSnapshot, NodeCapacity, ResourceState)
    with Session(settings.broker, subscriptions_to(*kinds, ComponentStatus)) as session:
        retained = [message for heard in session.retained() if isinstance(message := heard.decoded, Message)]
        agent = [one for one in retained if isinstance(one, ComponentStatus) and _is_agent(one, node)]
        if any(one.state in (ConnectionState.READY, ConnectionState.INIT) for one in agent) and not force:
            raise CliError(f"the agent of {node} runs; stop it first, or say --force")
        found = [one for one in retained if isinstance(one, kinds) and one.node == node]
        if not found and not agent:
            raise CliError(f"nothing is known of {node}; see `piriscale status`")
        # NodeInfo first: ResourceManager forgets the node by it, and then does not say the rest anew.
        for kind in (NodeInfo, NodeSnapshot, NodeCapacity):
            session.clear(Cleared(kind, {"node": node}))
        session.clear(Cleared(ComponentStatus, {"component": Role.NODE_AGENT, "instance": node}))
        for state in (one for one in found if isinstance(one, ResourceState)):
            session.clear(Cleared(ResourceState, {"node": node, "workload_id": state.workload_id}))
        left = _left(session, node)
    if left:
        raise CliError(f"still retained, or said anew meanwhile: {', '.join(sorted(left))}")
    print(f"{node} is forgotten")
    return EXIT_OK


def _left(session: Session, node: str) -> set[str]:
    """Topics of the node that were said anew after the deletion."""
    present: dict[str, bool] = {}
    for heard in session.until(time.monotonic() + 1.0):
        message = heard.decoded
        if isinstance(message, Cleared):
            present[heard.topic] = False
        elif getattr(message, "node", None) == node or (
            isinstance(message, ComponentStatus) and _is_agent(message, node)
        ):
            present[heard.topic] = True
    return {topic for topic, there in present.items() if there}


def _is_agent(status: ComponentStatus, node: str) -> bool:
    return status.component == Role.NODE_AGENT and status.instance == node


def _must_be_name(*names: str | None) -> None:
    for name in names:
        if name is not None and not is_name(name):
            raise UsageError(f"{name!r} is no name: letters, digits, '.', '_' and '-', up to 128")
