"""`status`: the whole system at a glance."""

import json
import time
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from components.cli.connection import Session, subscriptions_to
from components.cli.errors import EXIT_OK
from components.cli.journals import add_journals
from components.cli.screen import ago, console, printable, styled, table
from components.overview.attention import Need, attention
from components.overview.events import Level
from components.overview.names import Key
from components.overview.overview import RETAINED, Overview
from components.overview.words import describe, describe_actual, joined, natural
from components.settings import Settings
from schemas.limits import Amount
from schemas.operations import DeadLetter
from schemas.resources import ResourceState
from schemas.scaling import ScalingStatus
from schemas.topics import Role

ATTENTION_MAX: Final = 20


def now_ms() -> int:
    """UTC epoch milliseconds."""
    return time.time_ns() // 1_000_000


def show_status(settings: Settings, *, as_json: bool) -> int:
    """Collect what is retained and show it. Returns the exit code."""
    seen = Overview()
    with Session(settings.broker, subscriptions_to(*RETAINED, ScalingStatus, DeadLetter)) as session:
        for heard in session.retained():
            seen.hear(heard.decoded, now_ms(), retained=heard.retained)
    add_journals(seen, settings)
    if as_json:
        print(json.dumps(seen.document()), flush=True)
    else:
        show(seen, console())
    return EXIT_OK


def show(seen: Overview, screen: Console) -> None:
    """Print what needs attention first, then nodes, workloads, actions and components."""
    wrong = attention(seen, now_ms())
    if wrong:
        screen.print(
            f"✗ {len(wrong)} {'things need' if len(wrong) > 1 else 'thing needs'} attention", style="bold red"
        )
        for need in wrong[:ATTENTION_MAX]:
            _say(need, screen)
        if len(wrong) > ATTENTION_MAX:
            screen.print(f"  and {len(wrong) - ATTENTION_MAX} more")
    else:
        screen.print("✓ all is well", style="bold green")
    for part in (_nodes, _workloads, _actions, _components):
        screen.print()
        part(seen, screen)


def _say(need: Need, screen: Console) -> None:
    """One need; in a terminal broken at words, for scripts in one line."""
    if screen.is_terminal:
        text = Text(printable(need.text), "red" if need.level is Level.BAD else "yellow")
        screen.print(Padding(text, (0, 0, 0, 2)))
    else:
        screen.print(f"  {need.text}", soft_wrap=True)


def _brief(limits: str) -> str:
    """Limits for a column: "2000m 512Mi"."""
    return limits.replace("m CPU, ", "m ").removesuffix(" CPU")


def _nodes(seen: Overview, screen: Console) -> None:
    rows = table("NODE", "AGENT", "AVAILABLE", "ALLOCATED", "RESERVED", "TOTAL", "RUNTIME", title="nodes")
    for node, capacity in sorted(seen.nodes.items(), key=lambda entry: natural(entry[0])):
        agent = seen.components.get((Role.NODE_AGENT, node))
        state = str(agent.state) if agent else "unknown"
        amounts = (capacity.available, capacity.allocated, capacity.reserved, capacity.total)
        rows.add_row(node, Text(state, styled(state)), *map(_amount, amounts), _runtime(seen, node))
    screen.print(rows if seen.nodes else "no nodes")


def _runtime(seen: Overview, node: str) -> str:
    info = seen.infos.get(node)
    if info is None:
        return ""
    if info.simulated:
        return "simulated"
    rootless = ", rootless" if info.rootless else ""
    return f"Podman {info.podman_version}, cgroup v{info.cgroup_version}{rootless}"


def _amount(amount: Amount) -> str:
    return f"{amount.cpu}m {amount.memory}Mi"


def _order(entry: tuple[Key, ResourceState]) -> tuple[object, ...]:
    (node, name), _ = entry
    return natural(node), natural(name)


def _workloads(seen: Overview, screen: Console) -> None:
    rows = table("NODE", "WORKLOAD", "STATE", "DESIRED", "ACTUAL", "USE", "SINCE", title="workloads")
    for (node, name), state in sorted(seen.workloads.items(), key=_order):
        use = seen.measures.uses.get((node, name))
        shown = Text(state.sync_state, styled(state.sync_state))
        if state.desired is None and state.generation == 0:
            shown = Text("not managed", "dim")
        rows.add_row(
            node,
            name,
            shown,
            _brief(describe(state.desired)),
            _brief(describe_actual(state.actual, state.desired)),
            _amount(use.amount) if use else "–",
            ago(state.since),
        )
    screen.print(rows if seen.workloads else "no workloads")


def _actions(seen: Overview, screen: Console) -> None:
    rows = table("NODE", "WORKLOAD", "STATE", "PHASE", "SINCE", "TARGET", "MESSAGE", title="actions")
    now = now_ms()
    under_way = [*seen.actions.running(now), *seen.actions.waiting(now)]
    for action in (*under_way, *seen.actions.ended()):
        status = action.status
        state = status.outcome or status.state
        rows.add_row(
            status.node,
            status.workload_id,
            Text(state, styled(state)),
            status.phase,
            ago(action.began_ms, now),
            _brief(describe(action.target)),
            joined(status.reason, status.message),
        )
    screen.print(rows if rows.row_count else "no action is under way; see `piriscale history`")


def _components(seen: Overview, screen: Console) -> None:
    rows = table("COMPONENT", "INSTANCE", "STATE", "VERSION", title="components")
    for (component, instance), status in sorted(seen.components.items()):
        rows.add_row(component, instance, Text(status.state, styled(status.state)), status.version)
    screen.print(rows if seen.components else "no components")
