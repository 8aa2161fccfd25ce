"""What the retained topics say of the whole system, and what of it needs attention."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from components.presence import supersedes
from schemas.codec import Cleared, Decoded
from schemas.enums import ConnectionState, SyncState
from schemas.message import Message
from schemas.node import NodeInfo
from schemas.operations import ComponentStatus
from schemas.resources import NodeCapacity, ResourceState
from schemas.scaling import ScalingControl, ScalingStatus
from schemas.topics import Role

NEEDED: Final = (
    Role.MONITORING_SERVER,
    Role.POLICY_MANAGER,
    Role.ACTION_CONTROLLER,
    Role.RESOURCE_MANAGER,
)
"""Without one of these the chain is broken. Agents are needed per node, debug_tap by nobody."""

HEARD: Final[tuple[type[Message], ...]] = (
    NodeCapacity,
    NodeInfo,
    ResourceState,
    ComponentStatus,
    ScalingControl,
    ScalingStatus,
)


@dataclass
class Overview:
    """The system as retained topics, and the statuses that passed meanwhile, show it."""

    nodes: dict[str, NodeCapacity] = field(default_factory=dict)
    infos: dict[str, NodeInfo] = field(default_factory=dict)
    workloads: dict[tuple[str, str], ResourceState] = field(default_factory=dict)
    components: dict[tuple[str, str], ComponentStatus] = field(default_factory=dict)
    actions: dict[str, ScalingStatus] = field(default_factory=dict)
    control: ScalingControl | None = None

    def hear(self, message: Decoded) -> None:
        """Take one message in; what does not belong here is ignored."""
        match message:
            case NodeCapacity():
                self.nodes[message.node] = message
            case NodeInfo():
                self.infos[message.node] = message
            case ResourceState():
                self.workloads[message.node, message.workload_id] = message
            case ComponentStatus():
                key = (message.component, message.instance)
                if supersedes(self.components.get(key), message):
                    self.components[key] = message
            case ScalingStatus():
                self.actions[message.action_id] = message
            case ScalingControl():
                self.control = message
            case Cleared():
                self._forget(message)

    def _forget(self, cleared: Cleared) -> None:
        values = cleared.values
        if cleared.message is ResourceState:
            self.workloads.pop((values["node"], values["workload_id"]), None)
        elif cleared.message is NodeCapacity:
            self.nodes.pop(values["node"], None)
        elif cleared.message is ComponentStatus:
            self.components.pop((values["component"], values["instance"]), None)

    def document(self) -> dict[str, list[dict[str, object]]]:
        """For `status --json`."""
        parts: dict[str, Iterable[Message]] = {
            "nodes": self.nodes.values(),
            "workloads": self.workloads.values(),
            "actions": self.actions.values(),
            "components": self.components.values(),
        }
        return {
            name: [message.model_dump(mode="json", exclude_none=True) for message in messages]
            for name, messages in parts.items()
        }


def attention(seen: Overview) -> list[str]:
    """What is wrong or unusual, one line each, the gravest first; empty: all is well."""
    return [*_components(seen), *_agents(seen), *_workloads(seen), *_nodes(seen), *_paused(seen)]


def _components(seen: Overview) -> Iterable[str]:
    for role in NEEDED:
        states = [status.state for (component, _), status in seen.components.items() if component == role]
        if not states:
            yield f"{role} was never seen: start it with `piriscale run {role}`, or all with `piriscale up`"
        elif ConnectionState.READY not in states:
            yield f"{role} is {states[0]}"


def _agents(seen: Overview) -> Iterable[str]:
    nodes = {instance for component, instance in seen.components if component == Role.NODE_AGENT}
    for node in sorted(nodes | set(seen.nodes)):
        status = seen.components.get((Role.NODE_AGENT, node))
        if status is None or status.state is not ConnectionState.READY:
            state = status.state if status else "unknown"
            yield (
                f"the agent of {node} is {state}: nothing can be scaled there. If the node is gone for good: "
                f"piriscale forget-node {node}"
            )
    if not nodes:
        yield "no node_agent was ever seen: start one on each node with `piriscale run node_agent`"


def _workloads(seen: Overview) -> Iterable[str]:
    for (node, name), state in sorted(seen.workloads.items()):
        why = " ".join(part for part in (state.reason, state.message) if part)
        if state.sync_state is SyncState.FAILED:
            yield f"{name} on {node} FAILED: {why or 'no reason given'}"
        elif state.sync_state is SyncState.DRIFT_DETECTED:
            yield f"{name} on {node} drifted from its desired limits{': ' + why if why else ''}"


def _nodes(seen: Overview) -> Iterable[str]:
    for node, capacity in sorted(seen.nodes.items()):
        for what, unit in (("cpu", "m"), ("memory", "Mi")):
            total, used, kept = (
                getattr(amount, what) for amount in (capacity.total, capacity.allocated, capacity.reserved)
            )
            if used + kept > total:
                yield (
                    f"{node} is overcommitted: {used}{unit} {what} allocated and {kept}{unit} reserved "
                    f"of {total}{unit}; nothing can be raised there"
                )


def _paused(seen: Overview) -> Iterable[str]:
    control = seen.control
    if control is not None and control.paused:
        scope = [f"for {name}" for name in (control.workload, control.node) if name]
        yield f"automatic scaling is paused{' ' + ' '.join(scope) if scope else ''}: `piriscale resume` ends that"
