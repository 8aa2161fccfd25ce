"""The one registry of topics: template, message type, QoS, retain flag, writers and readers.

Subscriptions, the ACL, the AsyncAPI document and the README's table come from here or are tested against it.
One message type has one topic, so a message knows its own address.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

from schemas.message import Message, is_name
from schemas.metrics import AppMetrics, ContainerMetrics, NodeMetrics
from schemas.node import NodeInfo, NodeSnapshot, StatusReply, StatusRequest, UpdateReply, UpdateRequest
from schemas.operations import ComponentStatus, DeadLetter
from schemas.performance import PerfDegraded, PerfOutcome, PerfRecovered
from schemas.resources import (
    ActualReply,
    ActualReport,
    DesiredReply,
    DesiredRequest,
    NodeCapacity,
    Reconcile,
    ResourceState,
    ValidateReply,
    ValidateRequest,
)
from schemas.scaling import ScalingAction, ScalingControl, ScalingStatus

DEBUG_PREFIX: Final = "debug/"
"""debug_tap repeats every message as JSON under this prefix, for people; nobody else writes there."""


class Role(StrEnum):
    """Who writes or reads a topic."""

    MONITORING_SERVER = "monitoring_server"
    POLICY_MANAGER = "policy_manager"
    ACTION_CONTROLLER = "action_controller"
    RESOURCE_MANAGER = "resource_manager"
    NODE_AGENT = "node_agent"
    DEBUG_TAP = "debug_tap"
    DASHBOARD = "dashboard"
    CLI = "cli"
    APPLICATION = "application"
    ANYONE = "anyone"


@dataclass(frozen=True)
class Topic:
    """One row of the registry. `{node}` and the like are one topic level each."""

    template: str
    message: type[Message]
    qos: Literal[0, 1]
    retained: bool
    writers: frozenset[Role]
    readers: frozenset[Role]
    deleters: frozenset[Role] = frozenset()
    """Who may delete what is retained, without being a writer: people who release a workload or forget a node."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Message fields that the topic carries, in the order of its levels."""
        return tuple(FIELD_OF_PLACEHOLDER[level] for level in self.template.split("/") if level[0] == "{")

    def address(self, values: Mapping[str, str]) -> str:
        """The concrete topic for these field values. Raises ValueError for what is no topic level."""
        levels = []
        for level in self.template.split("/"):
            field = FIELD_OF_PLACEHOLDER.get(level)
            if field is None:
                levels.append(level)
            elif is_name(values[field]):
                levels.append(values[field])
            else:
                raise ValueError(f"{field} {values[field]!r} cannot stand in the topic {self.template}")
        return "/".join(levels)

    def filter(self, **values: str) -> str:
        """The subscription for this topic, narrowed to the given field values."""
        levels = self.template.split("/")
        return "/".join(
            values.get(FIELD_OF_PLACEHOLDER[level], "+") if level in FIELD_OF_PLACEHOLDER else level
            for level in levels
        )


FIELD_OF_PLACEHOLDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "{node}": "node",
        "{workload}": "workload_id",
        "{component}": "component",
        "{instance}": "instance",
    }
)

_MS, _PM, _AC, _RM, _NA = (
    Role.MONITORING_SERVER,
    Role.POLICY_MANAGER,
    Role.ACTION_CONTROLLER,
    Role.RESOURCE_MANAGER,
    Role.NODE_AGENT,
)
_CLI, _ANY = Role.CLI, Role.ANYONE
_EACH = (_MS, _PM, _AC, _RM, _NA, Role.DEBUG_TAP, Role.DASHBOARD)


def _topic(
    template: str,
    message: type[Message],
    writers: tuple[Role, ...],
    readers: tuple[Role, ...],
    *,
    qos: Literal[0, 1] = 1,
    retained: bool = False,
    deleters: tuple[Role, ...] = (),
) -> Topic:
    return Topic(template, message, qos, retained, frozenset(writers), frozenset(readers), frozenset(deleters))


TOPICS: Final[tuple[Topic, ...]] = (
    _topic("metrics/{node}/node", NodeMetrics, (_NA,), (_MS,), qos=0),
    _topic("metrics/{node}/containers", ContainerMetrics, (_NA,), (_MS,), qos=0),
    _topic("metrics/{node}/app/{workload}", AppMetrics, (Role.APPLICATION,), (_MS,), qos=0),
    _topic("perf/degraded", PerfDegraded, (_MS,), (_PM,)),
    _topic("perf/recovered", PerfRecovered, (_MS,), (_PM,)),
    _topic("perf/outcome", PerfOutcome, (_PM,), (_MS,)),
    _topic("scaling/action", ScalingAction, (_PM, Role.DASHBOARD, _CLI, _ANY), (_AC,)),
    _topic("scaling/status", ScalingStatus, (_AC,), (_PM, _CLI, _ANY)),
    _topic("resources/validate", ValidateRequest, (_AC, _CLI), (_RM,)),
    _topic("resources/validate/reply", ValidateReply, (_RM,), (_AC, _CLI)),
    _topic("resources/desired", DesiredRequest, (_AC,), (_RM,)),
    _topic("resources/desired/reply", DesiredReply, (_RM,), (_AC,)),
    _topic("resources/actual", ActualReport, (_AC,), (_RM,)),
    _topic("resources/actual/reply", ActualReply, (_RM,), (_AC,)),
    _topic("resources/reconcile", Reconcile, (_RM,), (_AC,)),
    _topic(
        "resources/state/{node}/{workload}",
        ResourceState,
        (_RM,),
        (_PM, _RM, _CLI, _ANY),
        retained=True,
        deleters=(_CLI,),
    ),
    _topic("resources/capacity/{node}", NodeCapacity, (_RM,), (_AC, _CLI, _ANY), retained=True, deleters=(_CLI,)),
    _topic("node/{node}/update", UpdateRequest, (_AC, _ANY), (_NA,)),
    _topic("node/{node}/update/reply", UpdateReply, (_NA,), (_AC, _ANY)),
    _topic("node/{node}/status/get", StatusRequest, (_RM, _CLI, _ANY), (_NA,)),
    _topic("node/{node}/status/reply", StatusReply, (_NA,), (_RM, _CLI, _ANY)),
    _topic("node/{node}/actual", NodeSnapshot, (_NA,), (_MS, _RM), retained=True, deleters=(_CLI,)),
    _topic("node/{node}/info", NodeInfo, (_NA,), (_AC, _RM, _MS, _CLI, _ANY), retained=True, deleters=(_CLI,)),
    _topic(
        "component/{component}/{instance}",
        ComponentStatus,
        _EACH,
        (*_EACH, _CLI, _ANY),
        retained=True,
        deleters=(_CLI,),
    ),
    _topic("control/scaling", ScalingControl, (_CLI,), (_PM,), retained=True),
    _topic("deadletter/{component}", DeadLetter, _EACH, (_CLI, _ANY), qos=0),
)

_BY_MESSAGE: Final = {topic.message: topic for topic in TOPICS}


def topic_of(message: type[Message]) -> Topic:
    """The registry row of a message type."""
    return _BY_MESSAGE[message]


def address_of(message: Message) -> str:
    """Where a message is published, without the configured prefix."""
    topic = _BY_MESSAGE[type(message)]
    return topic.address({field: getattr(message, field) for field in topic.fields})


@lru_cache(maxsize=65_536)
def lookup(address: str) -> tuple[Topic, Mapping[str, str]] | None:
    """The registry row of a concrete topic and the field values in it; None when nobody here uses it."""
    levels = address.split("/")
    for topic in TOPICS:
        template = topic.template.split("/")
        if len(template) != len(levels):
            continue
        values: dict[str, str] = {}
        for expected, level in zip(template, levels, strict=True):
            field = FIELD_OF_PLACEHOLDER.get(expected)
            if field is not None and is_name(level):
                values[field] = level
            elif expected != level:
                break
        else:
            return topic, MappingProxyType(values)
    return None


def may_be_retained(address: str) -> bool:
    """Whether messages on this topic are states, which a broker may keep, rather than requests and events."""
    found = lookup(address)
    return found is None or found[0].retained
