"""`release` and `forget-node`: deleting what is retained, on purpose."""

import time
from collections.abc import Iterable, Sequence
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
ANEW_WITHIN_S: Final = 1.0
"""Who still runs says so soon what was deleted of it anew."""


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
        said = _answer(session, Cleared(ResourceState, {"node": node, "workload_id": workload}))
        problem = session.no_connection
    if said is None:
        why = problem or "is it running?"
        raise CliError(f"resource_manager did not answer: it lets go when it hears of it; {why}")
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


def _answer(session: Session, cleared: Cleared) -> ResourceState | None:
    """Delete a state, and hear what is said of it then; the last word without desired limits, if there is one.

    Raises CliError when the broker did not take the deletion.
    """
    session.clear(cleared)
    taken, said = False, None
    for heard in session.until(time.monotonic() + ANSWER_WITHIN_S):
        message = heard.decoded
        if heard.topic != cleared.address:
            continue
        if isinstance(message, Cleared):
            taken, said = True, None
        elif isinstance(message, ResourceState) and (taken or message.desired is None):
            said = message
            if message.desired is None:
                break
    if not taken and said is None:
        raise CliError(_not_deleted(session, [cleared.address]))
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
        gone = [Cleared(kind, {"node": node}) for kind in (NodeInfo, NodeSnapshot, NodeCapacity)]
        gone.append(Cleared(ComponentStatus, {"component": Role.NODE_AGENT, "instance": node}))
        states = (one.workload_id for one in found if isinstance(one, ResourceState))
        gone += [Cleared(ResourceState, {"node": node, "workload_id": name}) for name in states]
        left = _delete(session, node, gone)
    if left:
        raise CliError(f"still retained, or said anew meanwhile: {', '.join(left)}")
    print(f"{node} is forgotten")
    return EXIT_OK


def _delete(session: Session, node: str, gone: Sequence[Cleared]) -> list[str]:
    """Delete these of a node, and see that the broker did. Returns what of the node is retained nevertheless.

    Raises CliError when the broker did not.
    """
    for cleared in gone:
        session.clear(cleared)
    missing, left = {cleared.address for cleared in gone}, set[str]()
    deadline = time.monotonic() + ANSWER_WITHIN_S
    while (left_s := deadline - time.monotonic()) > 0:
        heard = session.receive(left_s)
        if heard is None:
            continue
        if _is_of(heard.decoded, node):
            left.add(heard.topic)
        elif isinstance(heard.decoded, Cleared):
            left.discard(heard.topic)
            if heard.topic in missing:
                missing.discard(heard.topic)
                deadline = deadline if missing else time.monotonic() + ANEW_WITHIN_S
    if missing:
        raise CliError(_not_deleted(session, missing))
    return sorted(left)


def _not_deleted(session: Session, topics: Iterable[str]) -> str:
    said = f"not known to be deleted after {ANSWER_WITHIN_S:g} s: {', '.join(sorted(topics))}"
    return "; ".join(filter(None, (said, session.no_connection)))


def _is_of(message: Decoded, node: str) -> bool:
    return getattr(message, "node", None) == node or (
        isinstance(message, ComponentStatus) and _is_agent(message, node)
    )


def _is_agent(status: ComponentStatus, node: str) -> bool:
    return status.component == Role.NODE_AGENT and status.instance == node


def _must_be_name(*names: str | None) -> None:
    for name in names:
        if name is not None and not is_name(name):
            raise UsageError(f"{name!r} is no name: letters, digits, '.', '_' and '-', up to 128")
