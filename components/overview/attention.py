"""What is wrong or unusual, in words, with what to do."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from components.overview.events import LEVEL_OF_PRESENCE, Level
from components.overview.names import Key
from components.overview.overview import Overview
from components.overview.words import describe_indicators, joined, lasting, natural
from schemas.enums import ActionOutcome, ConnectionState, SyncState
from schemas.topics import Role

NEEDED: Final = (
    Role.MONITORING_SERVER,
    Role.POLICY_MANAGER,
    Role.ACTION_CONTROLLER,
    Role.RESOURCE_MANAGER,
)
"""Without one of these the chain is broken. Agents are needed per node, debug_tap by nobody."""

WAITS_LONG_MS: Final = 5_000
"""From when on an action that waits is worth a word: before that it is only its turn."""

LETTERS_FRESH_MS: Final = 600_000
"""How long a dead letter is called to attention."""

_PART: Final = re.compile(r"([1-9][0-9]?)-of-([1-9][0-9]?)")
"""Instances of MonitoringServer that watch a part of the nodes each: "2-of-3"."""

_WRONG: Final = (SyncState.FAILED, SyncState.DRIFT_DETECTED)

V = TypeVar("V")


@dataclass(frozen=True)
class Need:
    """One thing that needs attention; what it is about, where it is about something that has a row."""

    text: str
    level: Level
    key: str
    """Stays the same while the numbers in the text change: "waiting hpc-1/cam"."""
    node: str | None = None
    workload: str | None = None

    def __str__(self) -> str:
        return self.text


def attention(seen: Overview, now_ms: int = 0) -> list[Need]:
    """What needs attention, the gravest first; empty: all is well.

    `now_ms` is the listener's clock, as given to `Overview.hear`.
    """
    found = [
        *_components(seen),
        *_agents(seen),
        *_workloads(seen),
        *_nodes(seen),
        *_inconsistent(seen),
        *_performance(seen),
        *_waiting(seen, now_ms),
        *_paused(seen),
        *_dead_letters(seen, now_ms),
        *_left_out(seen),
    ]
    return sorted(found, key=lambda need: need.level is not Level.BAD)


def _in_order(by_workload: Mapping[Key, V]) -> list[tuple[Key, V]]:
    """By node and name, as people sort."""
    return sorted(by_workload.items(), key=lambda entry: (natural(entry[0][0]), natural(entry[0][1])))


def _components(seen: Overview) -> Iterable[Need]:
    for role in NEEDED:
        states = [status.state for (component, _), status in seen.components.items() if component == role]
        if not states:
            text = f"{role} was never seen: start it with `piriscale run {role}`, or all with `piriscale up`"
            yield Need(text, Level.BAD, f"component {role}")
        elif ConnectionState.READY not in states:
            yield Need(f"{role} is {states[0]}", LEVEL_OF_PRESENCE[states[0]], f"component {role}")
        elif role is Role.MONITORING_SERVER:
            yield from _unwatched(seen)


def _unwatched(seen: Overview) -> Iterable[Need]:
    """Parts of the nodes that nobody watches. Once all parts are watched, other instances are of the past."""
    role = Role.MONITORING_SERVER
    states = {name: status.state for (component, name), status in seen.components.items() if component == role}
    present: defaultdict[int, set[int]] = defaultdict(set)
    for name, state in states.items():
        if state is ConnectionState.READY:
            part = _PART.fullmatch(name)
            number, parts = (int(part[1]), int(part[2])) if part else (1, 1)
            present[parts].add(number)
    wanted = {parts: {*range(1, parts + 1)} for parts in present}
    if any(wanted[parts] <= numbers for parts, numbers in present.items()):
        return
    for parts, numbers in sorted(present.items()):
        for number in sorted(wanted[parts] - numbers):
            name = f"{number}-of-{parts}"
            known = states.get(name)
            is_so, level = (f"is {known}", LEVEL_OF_PRESENCE[known]) if known else ("was never seen", Level.BAD)
            text = f"{role} {name} {is_so}: nobody watches its part of the nodes"
            yield Need(text, level, f"component {role} {name}")


def _agents(seen: Overview) -> Iterable[Need]:
    nodes = {instance for component, instance in seen.components if component == Role.NODE_AGENT}
    for node in sorted(nodes | set(seen.nodes), key=natural):
        status = seen.components.get((Role.NODE_AGENT, node))
        if status is None or status.state is not ConnectionState.READY:
            state = status.state if status else "unknown"
            text = (
                f"the agent of {node} is {state}: nothing can be scaled there. If the node is gone for good: "
                f"piriscale forget-node {node}"
            )
            yield Need(text, Level.BAD, f"agent {node}", node)
    if not nodes:
        text = "no node_agent was ever seen: start one on each node with `piriscale run node_agent`"
        yield Need(text, Level.BAD, "agent")


def _workloads(seen: Overview) -> Iterable[Need]:
    wrong = {key: state for key, state in seen.workloads.items() if state.sync_state in _WRONG}
    for (node, name), state in _in_order(wrong):
        why = joined(state.reason, state.message)
        if state.sync_state is SyncState.FAILED:
            text = f"{name} on {node} FAILED: {why or 'no reason given'}"
            yield Need(text, Level.BAD, f"failed {node}/{name}", node, name)
        else:
            text = f"{name} on {node} drifted from its desired limits{': ' + why if why else ''}"
            yield Need(text, Level.WARN, f"drift {node}/{name}", node, name)


def _nodes(seen: Overview) -> Iterable[Need]:
    for node, capacity in sorted(seen.nodes.items(), key=lambda entry: natural(entry[0])):
        for what, unit in (("cpu", "m"), ("memory", "Mi")):
            total, used, kept = (
                getattr(amount, what) for amount in (capacity.total, capacity.allocated, capacity.reserved)
            )
            if used + kept > total:
                text = (
                    f"{node} is overcommitted: {used}{unit} {what} allocated and {kept}{unit} reserved "
                    f"of {total}{unit}; nothing can be raised there"
                )
                yield Need(text, Level.WARN, f"overcommitted {what} {node}", node)


def _inconsistent(seen: Overview) -> Iterable[Need]:
    """Actions that left something else in force than what is desired, until the workload agrees again."""
    told = set()
    for ended in seen.actions.ended():
        status = ended.status
        key = (status.node, status.workload_id)
        if key in told:
            continue
        told.add(key)
        state = seen.workloads.get(key)
        mended = state is not None and state.sync_state in (SyncState.SYNCHRONIZED, SyncState.FAILED)
        if status.outcome is ActionOutcome.INCONSISTENT and not mended:
            why = joined(status.reason, status.message)
            text = f"{key[1]} on {key[0]} is INCONSISTENT after its last action: {why or 'no reason given'}"
            yield Need(text, Level.BAD, f"inconsistent {key[0]}/{key[1]}", *key)


def _performance(seen: Overview) -> Iterable[Need]:
    for (node, name), event in _in_order(seen.degraded):
        over = describe_indicators(event.indicators)
        text = f"{name} on {node} is degraded{': ' + over if over else ''}"
        yield Need(text, Level.WARN, f"degraded {node}/{name}", node, name)


def _waiting(seen: Overview, now_ms: int) -> Iterable[Need]:
    for waiting in seen.actions.waiting(now_ms):
        status, waited_ms = waiting.status, now_ms - waiting.began_ms
        if waited_ms >= WAITS_LONG_MS:
            why = joined(status.reason, status.message)
            text = (
                f"an action for {status.workload_id} on {status.node} waits for {lasting(waited_ms)}"
                f"{': ' + why if why else ''}"
            )
            key = f"waiting {status.node}/{status.workload_id}"
            yield Need(text, Level.WARN, key, status.node, status.workload_id)


def _paused(seen: Overview) -> Iterable[Need]:
    for number, pause in enumerate(seen.pauses):
        if not pause.paused:
            continue
        later = seen.pauses[number + 1 :]
        resumed = [str(other) for other in later if not other.paused and other.meets(pause)]
        text = (
            f"automatic scaling is paused {pause}{', except ' + ', '.join(resumed) if resumed else ''}: "
            f"`piriscale resume{_options(pause.node, pause.workload)}` ends that"
        )
        yield Need(text, Level.WARN, f"paused {pause}", pause.node, pause.workload)
    if not seen.pauses_known:
        text = (
            "an earlier pause of automatic scaling may still hold elsewhere (the broker keeps only the last word, "
            "and that was about a part): `piriscale resume` ends all"
        )
        yield Need(text, Level.WARN, "paused earlier")


def _options(node: str | None, workload: str | None) -> str:
    return "".join(f" --{name} {value}" for name, value in (("node", node), ("workload", workload)) if value)


def _dead_letters(seen: Overview, now_ms: int) -> Iterable[Need]:
    for component, letters in sorted(seen.dead_letters.items()):
        if now_ms - letters.at_ms <= LETTERS_FRESH_MS:
            last = letters.last
            count = f"{letters.count} messages" if letters.count > 1 else "a message"
            why = joined(last.reason, last.message)
            text = f"{component} could not use {count}, the last on {last.topic}: {why}"
            yield Need(text, Level.WARN, f"dead_letters {component}")


def _left_out(seen: Overview) -> Iterable[Need]:
    if seen.left_out:
        text = "there is more on the bus than this picture holds: what came last is left out of it"
        yield Need(text, Level.WARN, "left_out")
