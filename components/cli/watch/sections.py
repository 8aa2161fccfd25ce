"""The parts of the page: title, heads, and rows that are made when they are shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rich.text import Text

from components.cli.watch.columns import Columns
from components.cli.watch.figures import ALLOCATED, AVAILABLE, RESERVED, STYLE_OF_BAR
from components.cli.watch.rows import (
    action_row,
    event_row,
    managed,
    need_rows,
    node_row,
    sign_counts,
    workload_groups,
    workload_heads,
    workload_row,
)
from components.cli.watch.view import Order, Part, View
from components.overview.attention import Need
from components.overview.events import Level
from components.overview.names import Key
from components.overview.overview import Overview
from components.overview.words import natural
from schemas.enums import SyncState
from schemas.resources import ResourceState
from schemas.topics import Role

ENDED_SHOWN_MS: Final = 60_000
"""How long an action that ended stays among the actions; after that the events tell of it."""

_GRAVITY: Final = {
    SyncState.FAILED: 0,
    SyncState.DRIFT_DETECTED: 1,
    SyncState.APPLYING: 2,
    SyncState.PENDING: 3,
    SyncState.UNKNOWN: 4,
    SyncState.SYNCHRONIZED: 5,
}
_UNMANAGED: Final = 6


@dataclass
class Section:
    """A part, with its rows made when they are shown."""

    part: Part
    title: Text
    row: Callable[..., Text]
    """Makes a line of what is in `rows`."""
    rows: Sequence[tuple[object, ...]]
    heads: list[Text] = field(default_factory=list)
    least: int = 2
    """Lines it gets, on a screen of 24, before any gets more."""
    most: int = 1_000
    """Lines it gets unless it is the chosen one."""


def nodes_of(seen: Overview) -> list[str]:
    """Every node that anything is known of."""
    agents = {instance for component, instance in seen.components if component == Role.NODE_AGENT}
    return sorted(agents | set(seen.nodes) | set(seen.infos), key=natural)


def attention_of(needs: list[Need], widths: Columns) -> Section:
    """What needs attention."""
    if not needs:
        return Section(Part.ATTENTION, Text("attention  ").append("✓ all is well", "bold green"), Text.copy, [])
    grave = any(need.level is Level.BAD for need in needs)
    count = f"{'✗' if grave else '▲'} {len(needs)} {'things need' if len(needs) > 1 else 'thing needs'} attention"
    title = Text("attention  ").append(count, "bold red" if grave else "bold yellow")
    lines = need_rows(needs, widths)
    return Section(Part.ATTENTION, title, Text.copy, [(line,) for line in lines], most=6)


def capacity(seen: Overview, view: View, needs: list[Need], widths: Columns, height: int) -> Section:
    """Nodes, with how their capacity is divided."""
    needy = {need.node for need in needs}
    carrying = {node for node, name in seen.workloads if view.shows(node, name)} if view.text else set()
    shown = [
        node
        for node in nodes_of(seen)
        if (view.shows(node) or node in carrying) and (not view.only_attention or node in needy)
    ]
    title = Text("nodes  ").append(f"{len(seen.nodes)}  ", "dim")
    for mark, word in ((ALLOCATED, "allocated"), (RESERVED, "reserved"), (AVAILABLE, "available")):
        title.append(f" {mark}", STYLE_OF_BAR[mark]).append(f" {word} ", "dim")
    row = partial(node_row, seen=seen, widths=widths)
    return Section(
        Part.NODES, title, row, [(node, seen.nodes.get(node)) for node in shown], most=max(2, height // 5)
    )


def workloads(seen: Overview, view: View, now_ms: int, needs: list[Need], widths: Columns) -> Section:
    """Workloads, as chosen and sorted."""
    needy = {(need.node, need.workload) for need in needs}
    shown = [
        (key, state)
        for key, state in seen.workloads.items()
        if view.shows(*key) and (not view.only_attention or key in needy)
    ]
    shown.sort(key=_sorting(seen, view.order), reverse=view.reverse)
    title = Text("workloads  ")
    total = len(seen.workloads)
    title.append(f"{len(shown)} of {total}" if view.filtered else f"{total}", "yellow" if view.filtered else "dim")
    title.append_text(sign_counts([state for _, state in shown]))
    title.append(f"  sorted by {view.order}{' ↑' if view.reverse else ''}", "dim")
    if not widths.wide:
        title.append(_chosen(view), "yellow")
    indent = widths.lead + widths.state + 1 + 4
    groups = Text().append(_chosen(view) if widths.wide else "", "yellow")
    groups.truncate(indent, overflow="ellipsis", pad=True)
    groups.append_text(workload_groups(widths))
    row = partial(workload_row, seen=seen, widths=widths, now_ms=now_ms)
    return Section(Part.WORKLOADS, title, row, shown, [groups, workload_heads(widths)], least=3)


def _chosen(view: View) -> str:
    """The filter in words."""
    parts = [
        f"  node {view.node}" if view.node else "",
        f"  name has {view.text!r}" if view.text else "",
        "  only what needs attention" if view.only_attention else "",
    ]
    return "".join(parts)


def _sorting(seen: Overview, order: Order) -> Callable[[tuple[Key, ResourceState]], tuple[object, ...]]:
    def by(entry: tuple[Key, ResourceState]) -> tuple[object, ...]:
        (node, name), state = entry
        use = seen.measures.uses.get((node, name))
        match order:
            case Order.NODE:
                return (natural(node), natural(name))
            case Order.STATE:
                return (_GRAVITY[state.sync_state] if managed(state) else _UNMANAGED, natural(name), node)
            case Order.AGE:
                return (-state.since, natural(name), node)
            case Order.CPU:
                return (-use.amount.cpu if use else 1, natural(name), node)
            case Order.MEMORY:
                return (-use.amount.memory if use else 1, natural(name), node)
            case _:
                return (natural(name), natural(node))

    return by


def actions(seen: Overview, view: View, now_ms: int, widths: Columns, height: int) -> Section:
    """Actions at work, waiting, and just ended."""
    running, waiting = seen.actions.running(now_ms), seen.actions.waiting(now_ms)
    ended = [one for one in seen.actions.ended() if now_ms - one.phase_since_ms <= ENDED_SHOWN_MS]
    everything = [*waiting, *running] if view.only_attention else [*running, *waiting, *ended]
    shown = [one for one in everything if view.shows(one.status.node, one.status.workload_id)]
    title = Text("actions  ")
    title.append(f"{len(running)} running", "cyan" if running else "dim")
    title.append(f"  {len(waiting)} waiting", "yellow" if waiting else "dim")
    title.append(f"  {len(ended)} ended in the last minute", "dim")
    row = partial(action_row, widths=widths, now_ms=now_ms)
    return Section(Part.ACTIONS, title, row, [(one,) for one in shown], most=max(3, height // 6))


def events(seen: Overview, view: View, widths: Columns) -> Section:
    """What happened, the latest first."""
    grave = (Level.WARN, Level.BAD)
    shown = [
        event
        for event in reversed(seen.events)
        if view.shows(event.node, event.workload) and (not view.only_attention or event.level in grave)
    ]
    title = Text("events  ").append("the latest first", "dim")
    return Section(Part.EVENTS, title, partial(event_row, widths=widths), [(one,) for one in shown], least=3)
