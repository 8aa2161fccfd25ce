"""What the running system shows: agents that share a name, clocks that differ, silence where words should be.

It listens, asks every agent what is in force, and asks ResourceManager about a node that does not exist; none of
which changes anything.
"""

import statistics
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from components.cli.connection import Heard, Session, subscriptions_to
from components.cli.doctor.finding import Finding, note, ok, wrong
from components.cli.doctor.rights import Need
from components.cli.errors import CliError
from components.settings import BrokerSettings
from schemas.enums import ConnectionState
from schemas.message import Message
from schemas.metrics import NodeMetrics
from schemas.node import NodeInfo, NodeSnapshot, StatusReply, StatusRequest
from schemas.operations import ComponentStatus
from schemas.resources import ValidateReply, ValidateRequest
from schemas.topics import Role, topic_of

AGENTS: Final = "agents"
CLOCKS: Final = "clocks"
LISTEN_S: Final = 5.0
LONGER_S: Final = 5.0
"""So much longer when an agent began lately: another of its name would end it when it is started again itself."""
STEP_S: Final = 0.25
LATELY_MS: Final = 10_000
TAKEOVER_MS: Final = 250
"""An end and the next beginning so close together are one event. A crashed agent takes longer to start again."""
OFF_S_MAX: Final = 10.0
"""Two clocks further apart are far off: ages and histories mislead, and certificates may seem not valid yet."""
STARTS_MAX: Final = 2
"""One restart may happen while we look; more are a fight, or a crash after each start."""

_HEARD: Final[tuple[type[Message], ...]] = (
    ComponentStatus,
    NodeInfo,
    NodeSnapshot,
    NodeMetrics,
    StatusReply,
    ValidateReply,
)


_EXPECTED: Final[tuple[type[Message], ...]] = (NodeInfo, NodeSnapshot, NodeMetrics, StatusReply)
"""What a ready agent has said, says by itself, or answers."""


@dataclass
class Agent:
    """What came from the agents that call themselves by one node's name."""

    ready: bool = False
    boots: list[int] = field(default_factory=list)
    """The boot_id of each life one after the other, as heard now; never of a will, which may be late."""
    containers: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Ids of the containers that each life saw."""
    heard: set[type[Message]] = field(default_factory=set)
    lost_at_ms: int | None = None
    began_at_ms: int = 0
    taken_over: bool = False

    def lives(self, boot_id: int, now_ms: int) -> None:
        """Note that a life spoke."""
        if not self.boots or self.boots[-1] != boot_id:
            self.boots.append(boot_id)
            if self.lost_at_ms is not None and now_ms - self.lost_at_ms <= TAKEOVER_MS:
                self.taken_over = True

    def hear(self, status: ComponentStatus, *, retained: bool, now_ms: int) -> None:
        """Note what the agent, or the broker in its place, says of it."""
        self.ready = status.state is ConnectionState.READY
        if self.ready:
            self.began_at_ms = max(self.began_at_ms, status.ts or 0)
        if retained:
            return
        if status.state is ConnectionState.LOST:
            self.lost_at_ms = now_ms
        else:
            self.lives(status.boot_id, now_ms)


@dataclass
class Fleet:
    """What was heard of all."""

    agents: dict[str, Agent] = field(default_factory=lambda: defaultdict(Agent))
    offsets_ms: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By whose clock it is: how far it was ahead of ours, at each message."""

    def hear(self, heard: Heard, now_ms: int) -> None:
        """Take in one message."""
        message = heard.decoded
        if isinstance(message, Message):
            self._note_clock(message, heard, now_ms)
        match message:
            case ComponentStatus(component=Role.NODE_AGENT):
                self.agents[message.instance].hear(message, retained=heard.retained, now_ms=now_ms)
            case NodeInfo() | NodeSnapshot() | StatusReply() | NodeMetrics():
                self._note_agent(message, heard, now_ms)

    def restless(self, now_ms: int) -> bool:
        """Whether an agent began lately, and it is not known yet why."""
        if any(agent.taken_over for agent in self.agents.values()):
            return False
        return any(abs(now_ms - agent.began_at_ms) < LATELY_MS for agent in self.agents.values())

    def _note_agent(
        self, message: NodeInfo | NodeSnapshot | StatusReply | NodeMetrics, heard: Heard, now_ms: int
    ) -> None:
        agent = self.agents[message.node]
        agent.heard.add(type(message))
        if isinstance(message, NodeMetrics):
            return
        if not heard.retained:
            agent.lives(message.boot_id, now_ms)
        if isinstance(message, NodeSnapshot | StatusReply):
            agent.containers[message.boot_id] |= {one.runtime_id for one in message.containers}

    def _note_clock(self, message: Message, heard: Heard, now_ms: int) -> None:
        if heard.retained or message.ts is None:
            return
        if isinstance(message, ValidateReply):
            self.offsets_ms["resource_manager"].append(message.ts - now_ms)
        elif isinstance(message, NodeMetrics | StatusReply | NodeSnapshot):
            self.offsets_ms[f"node {message.node}"].append(message.ts - now_ms)


def check_fleet(
    settings: BrokerSettings, need: Need, listen_s: float = LISTEN_S, longer_s: float = LONGER_S
) -> list[Finding]:
    """Listen for a while, and judge; silence only of what `need` is to hear."""
    fleet = Fleet()
    try:
        with Session(settings, subscriptions_to(*_HEARD)) as session:
            for heard in session.retained():
                fleet.hear(heard, _now_ms())
            _ask(settings, fleet)
            _listen(session, fleet, listen_s if fleet.agents else min(listen_s, 1.0), longer_s)
    except CliError as error:
        return [note(AGENTS, f"the running system cannot be looked at: {error}", "see the findings on the broker")]
    return [*judge_agents(fleet, need), *judge_clocks(fleet)]


def _listen(session: Session, fleet: Fleet, listen_s: float, longer_s: float) -> None:
    """Take in what comes for a while, and for longer while it is unclear."""
    began = time.monotonic()
    while time.monotonic() < began + listen_s + (longer_s if fleet.restless(_now_ms()) else 0.0):
        heard = session.receive(STEP_S)
        if heard is not None:
            fleet.hear(heard, _now_ms())


def _ask(settings: BrokerSettings, fleet: Fleet) -> None:
    """Ask agents and ResourceManager, in a session of its own: one that was refused something hears no more."""
    number = uuid.uuid4().hex[:8]
    nobody = f"piriscale-doctor-{number}"
    with Session(settings, ()) as session:
        for node in fleet.agents:
            session.publish(StatusRequest(id=f"doctor-{number}-{node}", node=node))
        session.publish(ValidateRequest(id=nobody, node=nobody, workload_id=nobody))


def judge_agents(fleet: Fleet, need: Need) -> Iterator[Finding]:
    """Names used twice, and agents of which nothing is heard."""
    troubled = False
    for node, agent in sorted(fleet.agents.items()):
        found = list(_judge_agent(node, agent, need))
        troubled = troubled or bool(found)
        yield from found
    if not fleet.agents:
        yield note(AGENTS, "none is known on this broker", "piriscale run node_agent on each node")
    elif not troubled:
        yield ok(AGENTS, f"{', '.join(sorted(fleet.agents))}: one each, and all that is to be heard is heard")


def _judge_agent(node: str, agent: Agent, need: Need) -> Iterator[Finding]:
    remedy = f"give each machine's agent a node name of its own: node_agent.node; one of them keeps {node}"
    if agent.taken_over or agent.boots != sorted(agent.boots) or _two_machines(agent):
        yield wrong(
            AGENTS, f"two agents call themselves {node}: they take over from each other, or contradict", remedy
        )
    elif len(agent.boots) > STARTS_MAX:
        text = (
            f"the agent of {node} started {len(agent.boots) - 1} times while it was looked at: two agents of that "
            "name take over from each other, or one crashes"
        )
        yield wrong(AGENTS, text, f"{remedy}; or see its log")
    if agent.ready and (silent := _silent(node, agent, need)):
        text = f"the agent of {node} is ready, but nothing comes of {', '.join(silent)}"
        yield note(
            AGENTS, text, "it hangs (see its log), or this user may not read that (Mosquitto does not say so)"
        )


def _two_machines(agent: Agent) -> bool:
    """Whether lives saw containers and had none in common; ids are random, so those of two machines differ."""
    seen = [ids for boot, ids in agent.containers.items() if ids and boot in agent.boots]
    return any(not first & second for first, second in pairwise(seen))


def _silent(node: str, agent: Agent, need: Need) -> list[str]:
    """Topics of a node that say nothing, though its agent always says them."""
    expected = [topic_of(kind) for kind in _EXPECTED if kind not in agent.heard]
    return [topic.address({"node": node}) for topic in expected if need.hears(topic)]


def judge_clocks(fleet: Fleet) -> Iterable[Finding]:
    """Clocks far from ours. Nothing waits for them, but what people and certificates read from them is wrong."""
    off_s = {who: statistics.median(offsets) / 1000 for who, offsets in fleet.offsets_ms.items()}
    far = {who: seconds for who, seconds in off_s.items() if abs(seconds) > OFF_S_MAX}
    for who, seconds in sorted(far.items()):
        direction = "ahead of" if seconds > 0 else "behind"
        yield wrong(
            CLOCKS,
            f"the clock of {who} is {abs(seconds):.0f} s {direction} this machine's",
            "timedatectl set-ntp true on whichever is wrong (or start chrony there)",
        )
    if off_s and not far:
        yield ok(CLOCKS, f"{', '.join(sorted(off_s))}: at most {max(map(abs, off_s.values())):.1f} s from ours")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
