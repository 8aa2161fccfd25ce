"""Whether the broker lets this user say and hear what the components must. Nobody hears these questions.

What cannot be seen here: Mosquitto grants subscriptions that its ACL forbids, and then delivers nothing. So
`fleet.py` tells what stays silent although it should be heard.
"""

import contextlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from broker.access import Person, Principal, component_identity
from broker.options import BrokerOptions
from broker.probe import REFUSED_FROM, Probe, ask_to_publish
from components.cli.assembly import ROLES
from components.cli.doctor.finding import Finding, note, ok, wrong
from components.cli.errors import UsageError
from components.cli.identity import options_of, person
from components.settings import BrokerSettings, Settings
from schemas.topics import DEBUG_PREFIX, TOPICS, Role, Topic

AREA: Final = "rights"
ANSWER_WITHIN_S: Final = 5.0
PROBE_WORKLOAD: Final = "piriscale-doctor"
PROBE_BODY: Final = b'{"v": 0, "note": "a question of piriscale doctor, to be ignored"}'
"""For a broker that hands on what was not released: readable for people, and no message to any component."""
LISTED_MAX: Final = 6


@dataclass(frozen=True)
class Need:
    """Whose rights this user needs, and for which node."""

    roles: tuple[Role, ...]
    node: str

    def hears(self, topic: Topic) -> bool:
        """Whether any of them is to hear a topic; people, the tap and the dashboard hear everything."""
        everything = (Role.CLI, Role.DEBUG_TAP, Role.DASHBOARD)
        return any(role in topic.readers or role in everything for role in self.roles)


def need_of(name: str, node: str) -> Need:
    """What an identity says that it is; of other names everybody's rights."""
    try:
        principal = Principal.parse(name)
    except ValueError:
        plain = re.sub("[-/]", "_", name)
        named = tuple(role for role in (*ROLES, Role.CLI) if plain == role or plain.startswith(f"{role}_"))
        return Need(named or (*ROLES, Role.CLI), node)
    match principal.kind:
        case Role.NODE_AGENT:
            return Need((Role.NODE_AGENT,), principal.scope[0])
        case Person.ADMIN:
            return Need((Role.CLI,), node)
        case Person.BRIDGE | Role.APPLICATION:
            return Need((), node)  # neither runs anything of ours
        case role:
            return Need((role,), node)


def present_identity(settings: Settings) -> str:
    """Under which identity to look: the person's, else one whose certificate is on this machine."""
    for name in (person(), *(component_identity(role, settings.node_agent.node) for role in ROLES)):
        with contextlib.suppress(UsageError):
            options_of(settings.broker, name)
            return name
    return person()


def identity_of(settings: BrokerSettings) -> str:
    """The name by which the broker's ACL knows us: of the certificate, else of the user; empty: none."""
    if settings.tls is not None and settings.tls.cert_file is not None:
        certificate = x509.load_pem_x509_certificate(settings.tls.cert_file.read_bytes())
        for attribute in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME):
            return str(attribute.value)
    return settings.username or ""


@dataclass(frozen=True)
class Account:
    """An identity, how it reaches the broker, and what it needs there."""

    name: str
    """Empty: it has none."""
    options: BrokerOptions
    need: Need

    def __str__(self) -> str:
        return f"user {self.name}" if self.name else "an anonymous client"


def accounts_of(settings: Settings, roles: Sequence[Role] = ()) -> tuple[list[Account], list[Finding]]:
    """Whom to ask for: ourselves; where each component has an identity of its own, all whose files are here.

    `roles`: whose rights are needed, if it is not for the name to say.
    """
    node = settings.node_agent.node
    if settings.broker.of("one") == settings.broker.of("another"):
        name = identity_of(settings.broker)
        need = Need(tuple(roles), node) if roles else need_of(name, node)
        return [Account(name, options_of(settings.broker), need)], []
    accounts, missing = [], []
    for role in roles or (*ROLES, Role.CLI):
        name = person() if role is Role.CLI else component_identity(role, node)
        try:
            accounts.append(Account(name, options_of(settings.broker, name), Need((role,), node)))
        except UsageError as error:
            if roles:
                missing.append(
                    wrong(AREA, f"{name}: {error}", f"make its certificate: piriscale certs, with {name}")
                )
    return accounts, missing


@dataclass(frozen=True)
class Answers:
    """The broker's reason code to each topic that somebody must write, and to each filter."""

    said: dict[str, int]
    """Empty: the broker has no QoS 2, so it cannot be asked."""
    heard: dict[str, int]

    @property
    def writable(self) -> str | None:
        """A topic that may be written."""
        return next((topic for topic, code in self.said.items() if code < REFUSED_FROM), None)


def ask(options: BrokerOptions, need: Need) -> Answers:
    """Ask the broker. Raises OSError when it does not answer."""
    client_id = f"piriscale-doctor-{uuid.uuid4().hex[:8]}"
    topics = list(dict.fromkeys(topic for role in need.roles for topic in _addresses(role, need.node)))
    filters = list(dict.fromkeys(one for role in need.roles for one in _filters(role, need.node)))
    with Probe(options, client_id, ANSWER_WITHIN_S) as probe:
        heard = probe.may_subscribe(filters)
    return Answers(ask_to_publish(options, client_id, topics, PROBE_BODY, ANSWER_WITHIN_S), heard)


def judge(account: Account, topic_prefix: str, answers: Answers) -> list[Finding]:
    """One finding for each role that lacks rights; one in all when none does."""
    need = account.need
    found = [_judge(role, str(account), topic_prefix, need.node, answers) for role in need.roles]
    lacking = [one for one in found if one is not None]
    if not answers.said:
        text = "what may be said cannot be asked without an effect: the broker has no QoS 2"
        lacking.append(note(AREA, text, "see the broker's log for refused messages"))
    everybody = set(need.roles) == {*ROLES, Role.CLI}
    whose = "every component and the command line" if everybody else " and ".join(need.roles)
    return lacking or [ok(AREA, f"{account} may say and subscribe to what {whose} must")]


def _judge(role: Role, user: str, topic_prefix: str, node: str, answers: Answers) -> Finding | None:
    """What a role lacks; None: nothing."""
    unsaid = [topic for topic in _addresses(role, node) if answers.said.get(topic, 0) >= REFUSED_FROM]
    unheard = [one for one in _filters(role, node) if answers.heard[one] >= REFUSED_FROM]
    if not unsaid and not unheard:
        return None
    parts = [f"publish {_list(unsaid)}"] if unsaid else []
    parts += [f"subscribe to {_list(unheard)}"] if unheard else []
    prefix = f"{topic_prefix}/" if topic_prefix else ""
    lines = [f"topic write {prefix}{one}" for one in unsaid] + [f"topic read {prefix}{one}" for one in unheard]
    return wrong(
        AREA,
        f"{user} may not do what {role} must: {' and '.join(parts)}",
        f"write the broker's ACL anew (piriscale broker-config), or allow it there for {user}: {_list(lines)}",
    )


def _list(texts: Sequence[str]) -> str:
    more = len(texts) - LISTED_MAX
    return ", ".join(texts[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def _addresses(role: Role, node: str) -> list[str]:
    """Concrete topics that a role writes, one of each kind; of nodes this one's."""
    if role is Role.DEBUG_TAP:
        own = [topic for topic in TOPICS if role in topic.writers]
        everybody = [DEBUG_PREFIX + _address(topic, role, node) for topic in TOPICS]
        return [*(_address(topic, role, node) for topic in own), *everybody]
    return [_address(topic, role, node) for topic in TOPICS if role in topic.writers]


def _address(topic: Topic, role: Role, node: str) -> str:
    instance = node if role is Role.NODE_AGENT else "main"
    values = {"node": node, "workload_id": PROBE_WORKLOAD, "component": role, "instance": instance}
    return topic.address(values)


def _filters(role: Role, node: str) -> list[str]:
    """What a role subscribes to: an agent to its node's topics, all others to every node's."""
    if role in (Role.DEBUG_TAP, Role.DASHBOARD):
        return [topic.filter() for topic in TOPICS]
    narrowed = {"node": node, "component": role, "instance": node} if role is Role.NODE_AGENT else {}
    return [topic.filter(**narrowed) for topic in TOPICS if role in topic.readers]
