"""Agents that are connected but no longer tell what is in force: noticed by their silence, and by no answer.

An agent tells every interval; how long its interval is, only it knows. So silence alone is no proof: it is asked.
"""

from typing import Final

from components.presence import away
from components.resource_manager import drift
from components.resource_manager.records import NEVER, Stamp
from components.resource_manager.turn import Told, Turn
from schemas.node import StatusRequest

INTERVALS_MISSED: Final = 3
"""So many intervals without a word until an agent is asked."""
ANSWER_WITHIN_S: Final = 10.0


def heard(turn: Turn, node: str, stamp: Stamp) -> None:
    """An agent told what is in force. Said again, as what is retained is on every connection, it is no news."""
    known = turn.live.told.get(node)
    if known is None or stamp > known.stamp:
        turn.live.told[node] = Told(stamp, turn.now.monotonic)
        turn.live.silent.discard(node)


def look(turn: Turn) -> None:
    """Ask agents that were silent for long; those that do not answer either are as good as away."""
    now, interval_s = turn.now.monotonic, turn.settings.node_agent.sync_interval_s
    for node, presence in turn.live.agents.items():
        if away(presence) or turn.work.node(node) is None:
            forget(turn, node)
            continue
        told = turn.live.told.setdefault(node, Told(NEVER, now))
        if now - told.at < INTERVALS_MISSED * interval_s:
            continue
        if told.asked is None or now - told.asked >= max(interval_s, 2 * ANSWER_WITHIN_S):
            turn.live.told[node] = Told(told.stamp, told.at, asked=now)
            turn.say(StatusRequest(id=f"silent:{node}:{turn.now.epoch_ms}", node=node))
        elif now - told.asked >= ANSWER_WITHIN_S and node not in turn.live.silent:
            turn.live.silent.add(node)
            text = f"the agent of {node} is connected, but did not tell what is in force for {now - told.at:.0f} s"
            drift.lost(turn, node, f"{text}; see its log, and restart it")


def forget(turn: Turn, node: str) -> None:
    """The agent, or its node, is no more; what comes later is a new beginning."""
    turn.live.told.pop(node, None)
    turn.live.silent.discard(node)
