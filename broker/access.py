"""Who may say and hear what: identities, their rights as the registry gives them, and Mosquitto's ACL file.

An identity is the common name of a client certificate (or the user name, with passwords), and its name alone says
what it may do: `resource_manager`, `node_agent/hpc-1`, `application/hpc-1/navigation`, `cli/alice`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from broker.frames import TopicPrefix
from schemas.message import is_name
from schemas.topics import DEBUG_PREFIX, TOPICS, Role, Topic

EVERYTHING_OF_DEBUG: Final = f"{DEBUG_PREFIX}#"
BROKER_STATISTICS: Final = "$SYS/#"
TRIALS: Final = "piriscale-doctor/#"
"""Where the doctor tries out what the broker keeps; nobody else uses it."""
BROKER_DROPPED: Final = "$SYS/broker/publish/messages/dropped"
"""How many messages the broker took and then dropped, since it was started; for a metric."""
MAIN: Final = "main"
"""Instance of every component that there is once."""


class Person(StrEnum):
    """Identities that are no role of the registry."""

    ADMIN = "admin"
    """An engineer who may also delete what is retained: `release`, `forget-node`. MQTT cannot tell a deletion from
    a forged state, so this is for few."""
    BRIDGE = "bridge"
    """A vehicle's broker at the fleet's broker; everything below its own name is its."""


Kind = Role | Person

_ONCE: Final = tuple(
    role for role in Role if role not in (Role.NODE_AGENT, Role.APPLICATION, Role.CLI, Role.ANYONE)
)
_SCOPES: Final[dict[Kind, tuple[str, ...]]] = {
    **dict.fromkeys(_ONCE, ()),
    Role.NODE_AGENT: ("NODE",),
    Role.APPLICATION: ("NODE", "WORKLOAD"),
    Role.CLI: ("NAME",),
    Person.ADMIN: ("NAME",),
    Person.BRIDGE: ("VEHICLE",),
}
"""What follows the kind in an identity's name. An application may leave its workload out: then any of its node."""

GUESTS: Final[frozenset[Kind]] = frozenset({Role.APPLICATION, Person.BRIDGE})
"""Foreign clients. A listener and an authority of their own keep them from the others' client ids: whoever
connects with one that is in use ends the other's connection, and no access rule forbids that."""

COMPONENTS: Final[tuple[Role, ...]] = _ONCE
"""Identities of the components that there are once."""

_OBSERVERS: Final[frozenset[Kind]] = frozenset({Role.DEBUG_TAP, Role.DASHBOARD, Role.CLI, Person.ADMIN})
"""Who hears everything: the debug tap repeats it, the web page shows it, people look for what is wrong."""


@dataclass(frozen=True)
class Principal:
    """One identity. Its text is what the broker knows it by."""

    kind: Kind
    scope: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        wanted = _SCOPES.get(self.kind)
        if wanted is None:
            raise ValueError(f"{self.kind} is no identity; there are {_forms()}")
        optional = self.kind is Role.APPLICATION and len(self.scope) == 1
        if len(self.scope) != len(wanted) and not optional:
            raise ValueError(f"{self} is no identity; write {_form(self.kind)}")
        for name in self.scope:
            if not is_name(name):
                raise ValueError(f"{name!r} in {self} is no name: letters, digits, '.', '_' and '-', up to 128")

    def __str__(self) -> str:
        return "/".join((self.kind, *self.scope))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The identity of that name. Raises ValueError that says which there are."""
        first, *scope = text.split("/")
        kind = next((kind for kind in _SCOPES if kind == first), None)
        if kind is None:
            raise ValueError(f"{text!r} is no identity; there are {_forms()}")
        return cls(kind, tuple(scope))


def component_identity(role: Role, instance: str) -> str:
    """Name of the identity of a component; agents are told apart by their node."""
    return f"{role}/{instance}" if role is Role.NODE_AGENT else str(role)


@dataclass(frozen=True)
class Rights:
    """Topic filters, without the configured prefix; those of a bridge are whole."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def rights_of(principal: Principal) -> Rights:
    """What an identity may do. All else is forbidden."""
    kind, scope = principal.kind, principal.scope
    if kind is Person.BRIDGE:
        return Rights((f"{scope[0]}/#",), (f"{scope[0]}/#",))
    said = [_own(topic, principal) for topic in TOPICS if kind in topic.writers]
    if kind is Person.ADMIN:
        said = [topic.filter() for topic in TOPICS if Role.CLI in topic.writers | topic.deleters]
    heard = [_of_node(topic, principal) for topic in TOPICS if kind in topic.readers or kind in _OBSERVERS]
    if kind is Role.DEBUG_TAP:
        said.append(EVERYTHING_OF_DEBUG)
    elif kind in (Role.CLI, Person.ADMIN):
        heard += [EVERYTHING_OF_DEBUG, BROKER_STATISTICS, TRIALS]
        said.append(TRIALS)
    elif kind is Role.MONITORING_SERVER:
        heard.append(BROKER_DROPPED)
    return Rights(tuple(said), tuple(heard))


def _own(topic: Topic, principal: Principal) -> str:
    """The part of a topic in which an identity speaks for itself only."""
    if principal.kind is Role.APPLICATION:
        return topic.filter(**dict(zip(("node", "workload_id"), principal.scope, strict=False)))
    if principal.kind is Role.NODE_AGENT:
        (node,) = principal.scope
        return topic.filter(node=node, component=principal.kind, instance=node)
    if principal.kind is Role.CLI:
        return topic.filter()
    if principal.kind is Role.MONITORING_SERVER:  # one runs for each part of the nodes, all under this identity
        return topic.filter(component=principal.kind)
    return topic.filter(component=principal.kind, instance=MAIN)


def _of_node(topic: Topic, principal: Principal) -> str:
    """A node hears what is meant for it, and who else is there."""
    return topic.filter(node=principal.scope[0]) if principal.kind is Role.NODE_AGENT else topic.filter()


def acl_text(principals: Iterable[Principal], topic_prefixes: Iterable[str] = ("",)) -> str:
    """Mosquitto's `acl_file` for these identities. Whoever is not named may do nothing.

    Rights are given below each of the prefixes; those of a bridge below its own name, which is a whole prefix.
    """
    prefixes = tuple(map(TopicPrefix, dict.fromkeys(topic_prefixes)))
    lines = [
        "# Written by piriscale from its registry of topics; changes are lost. What is not allowed is forbidden.",
        "# Mosquitto grants every subscription and withholds what may not be read, without a word to the client.",
    ]
    for principal in sorted(set(principals), key=str):
        rights = rights_of(principal)
        below = (TopicPrefix(""),) if principal.kind is Person.BRIDGE else prefixes
        both = [each for each in rights.publish if each in rights.subscribe]
        lines += ["", f"user {principal}"]
        lines += _lines("readwrite", both, below)
        lines += _lines("write", [each for each in rights.publish if each not in both], below)
        lines += _lines("read", [each for each in rights.subscribe if each not in both], below)
    return "\n".join([*lines, ""])


def _lines(access: str, filters: Iterable[str], prefixes: Iterable[TopicPrefix]) -> list[str]:
    topics = (each if each.startswith("$") else prefix.add(each) for prefix in prefixes for each in filters)
    return [f"topic {access} {topic}" for topic in dict.fromkeys(topics)]


def _form(kind: Kind) -> str:
    form = "/".join((kind, *_SCOPES[kind]))
    return form.replace("/WORKLOAD", "[/WORKLOAD]")


def _forms() -> str:
    return ", ".join(_form(kind) for kind in _SCOPES)
