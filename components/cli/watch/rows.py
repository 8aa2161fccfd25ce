"""One line of the page for each node, workload, action, event and need."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from components.cli.screen import ago
from components.cli.watch.columns import Columns
from components.cli.watch.figures import bar, cores, cores_used, divided, fit, memory, use_bar
from components.overview.actions import ActionSeen
from components.overview.attention import Need
from components.overview.events import LEVEL_OF_OUTCOME, LEVEL_OF_PRESENCE, LEVEL_OF_STATE, Event, Level
from components.overview.names import Key
from components.overview.overview import Overview
from components.overview.words import describe, describe_indicators, joined, lasting, listed
from schemas.enums import SyncState
from schemas.limits import Limits, mismatches
from schemas.resources import NodeCapacity, ResourceState
from schemas.topics import Role

STYLE_OF_LEVEL: Final = {
    Level.GOOD: "green",
    Level.BUSY: "cyan",
    Level.WARN: "yellow",
    Level.BAD: "bold red",
    Level.QUIET: "dim",
}
SIGN_OF_LEVEL: Final = {Level.GOOD: "●", Level.BUSY: "◐", Level.WARN: "▲", Level.BAD: "✗", Level.QUIET: "○"}
"""So that nobody needs to see colours."""

SHORT_STATES: Final = {
    SyncState.SYNCHRONIZED: "synced",
    SyncState.DRIFT_DETECTED: "DRIFT",
    SyncState.PENDING: "pending",
    SyncState.APPLYING: "applying",
    SyncState.UNKNOWN: "unknown",
}
GAP: Final = "  "


def managed(state: ResourceState) -> bool:
    """Whether anything was ever desired of this workload."""
    return state.desired is not None or state.generation > 0


def sign(level: Level) -> Text:
    """The sign of a level, with the space after it."""
    return Text().append(f"{SIGN_OF_LEVEL[level]} ", STYLE_OF_LEVEL[level])


def lead(level: Level, name: str, node: str, widths: Columns) -> Text:
    """How every row begins: sign, name, node."""
    row = sign(level)
    row.append(f"{fit(name, widths.name)} ")
    return row.append(f"{fit(node, widths.node)} ", "dim")


def workload_heads(widths: Columns) -> Text:
    """The heads of the columns of workloads; what they are groups of stands above."""
    heads = ("DESIRED", "ACTUAL", "USE") if widths.wide else ("DES", "ACT", "USE")
    group = " ".join(fit(head, widths.number, right=True) for head in heads) + " " * (
        widths.bar + bool(widths.bar)
    )
    line = f"  {fit('WORKLOAD', widths.name)} {fit('NODE', widths.node)} {fit('STATE', widths.state)} {'AGE':>4}"
    note = f"{GAP}{fit('NOTE', widths.note)}" if widths.note >= 8 else ""
    return Text(f"{line}{GAP}{group}{GAP}{group}{note}", "bold dim")


def workload_groups(widths: Columns) -> Text:
    """What the columns of numbers are: CPU in cores, memory in bytes."""
    text = Text()
    for title in ("CPU cores", "memory"):
        text.append(GAP + f" {title} ".center(widths.group, "─"), "bold dim")
    return text


def workload_row(key: Key, state: ResourceState, seen: Overview, widths: Columns, now_ms: int) -> Text:
    """One workload: state, age, and desired, actual and used CPU and memory."""
    level = LEVEL_OF_STATE[state.sync_state] if managed(state) else Level.QUIET
    row = lead(level, key[1], key[0], widths)
    row.append(fit(_state_word(state, widths), widths.state), STYLE_OF_LEVEL[level])
    row.append(f" {fit(ago(state.since, now_ms), 4, right=True)}", "dim")
    use = seen.measures.uses.get(key)
    desired = state.desired or Limits()
    wrong = mismatches(desired, state.actual) if state.actual is not None else []
    for limit, show, used, use_shown in (
        ("cpu_limit", cores, use.amount.cpu if use else None, cores_used),
        ("memory_limit", memory, use.amount.memory if use else None, memory),
    ):
        wanted, present = getattr(desired, limit), getattr(state.actual, limit, None)
        row.append(GAP + fit("–" if wanted is None else show(wanted), widths.number, right=True))
        actual = "?" if state.actual is None else show(present)
        row.append(" " + fit(actual, widths.number, right=True), "bold yellow" if limit in wrong else "bold")
        row.append(" " + fit("–" if used is None else use_shown(used), widths.number, right=True), "cyan")
        if widths.bar:
            row.append(" ").append_text(use_bar(used, present, widths.bar))
    if widths.note >= 8:
        row.append(GAP + fit(_note(key, state, seen), widths.note), STYLE_OF_LEVEL[_note_level(key, level, seen)])
    return row


def _state_word(state: ResourceState, widths: Columns) -> str:
    if not managed(state):
        return "not managed" if widths.wide else "–"
    return state.sync_state if widths.wide else SHORT_STATES.get(state.sync_state, state.sync_state)


def _note(key: Key, state: ResourceState, seen: Overview) -> str:
    event, measures, pause = seen.degraded.get(key), seen.measures.apps.get(key), seen.pause_of(key)
    degraded = f"degraded: {describe_indicators(event.indicators)}" if event is not None else None
    latency = None
    if measures is not None and measures.latency_ms is not None:
        latency = f"latency {measures.latency_ms:.4g} ms"
    return listed(joined(state.reason, state.message), degraded or latency, "paused" if pause else None)


def _note_level(key: Key, level: Level, seen: Overview) -> Level:
    if level in (Level.WARN, Level.BAD):
        return level
    return Level.WARN if key in seen.degraded else Level.QUIET


def node_row(node: str, capacity: NodeCapacity | None, seen: Overview, widths: Columns) -> Text:
    """One node: its agent, and how CPU and memory are divided."""
    agent = seen.components.get((Role.NODE_AGENT, node))
    level = LEVEL_OF_PRESENCE[agent.state] if agent else Level.BAD
    row = sign(level)
    name = min(max(widths.node, 8), 24) if widths.wide else 12
    row.append(fit(node, name), "bold")
    presence = f"agent {agent.state}" if agent else "no agent"
    if widths.wide or capacity is None:
        row.append(f" {fit(presence, 14)}", STYLE_OF_LEVEL[level])
    if capacity is None:
        return row
    words = 27 if widths.wide else 17
    rest = widths.width - row.cell_len - 2 * (len(GAP) + 4 + words)
    for what, show in (("cpu", cores), ("memory", memory)):
        total, allocated, kept, available = (
            getattr(amount, what)
            for amount in (capacity.total, capacity.allocated, capacity.reserved, capacity.available)
        )
        row.append(f"{GAP}{what[:3]} ", "dim")
        row.append_text(bar(total, allocated, kept, max(4, rest // 2 - 1))).append(" ")
        row.append_text(divided(total, allocated, kept, available, show, words))
    if not widths.wide and level is not Level.GOOD:  # what is free on a node without its agent helps nobody
        row.right_crop(words)
        row.append(fit(presence, words), STYLE_OF_LEVEL[level])
    return row


def action_row(seen: ActionSeen, widths: Columns, now_ms: int) -> Text:
    """One action: its phase or outcome, since when or how long it took, its target, and why."""
    status = seen.status
    if status.outcome is not None:
        level, word, spent_ms = LEVEL_OF_OUTCOME[status.outcome], str(status.outcome), seen.phase_since_ms
    else:
        level, word, spent_ms = Level.WARN if seen.waiting else Level.BUSY, str(status.phase), now_ms
    row = lead(level, status.workload_id, status.node, widths)
    row.append(fit(word, 12), STYLE_OF_LEVEL[level])
    row.append(f" {fit(lasting(spent_ms - seen.began_ms), 6, right=True)}")
    doubt = "not heard of since the connection was lost" if seen.doubted_ms is not None else None
    dry_run = "dry run" if status.dry_run else None
    target = f"→ {describe(seen.target)}" if seen.target is not None else None
    text = listed(target, dry_run, joined(status.reason, status.message), doubt)
    return row.append(GAP + fit(text, max(0, widths.width - row.cell_len - 2)))


def event_row(event: Event, widths: Columns) -> Text:
    """One thing that happened."""
    row = sign(event.level)
    row.append(f"{clock(event.at_ms)} ", "dim")
    about = f"{event.workload} on {event.node}" if event.workload and event.node else event.workload or event.node
    if about:
        row.append(f"{fit(about, widths.lead - 2 if widths.wide else 20)} ")
    return row.append(fit(event.text, max(0, widths.width - row.cell_len)), _event_style(event.level))


def _event_style(level: Level) -> str:
    return STYLE_OF_LEVEL[level] if level in (Level.BAD, Level.WARN, Level.QUIET) else ""


def need_rows(needs: Iterable[Need], widths: Columns) -> list[Text]:
    """One line for each need; on a narrow screen what does not fit goes on in a second line."""
    rows: list[Text] = []
    for need in needs:
        first, second = _broken(need.text, widths.width - 2)
        rows.append(sign(need.level).append(fit(first, widths.width - 2), STYLE_OF_LEVEL[need.level]))
        if second:
            rows.append(Text("  ").append(fit(second, widths.width - 2), STYLE_OF_LEVEL[need.level]))
    return rows


def _broken(text: str, width: int) -> tuple[str, str]:
    """A text in two lines, broken at a space if there is one."""
    if len(text) <= width:
        return text, ""
    at = text.rfind(" ", width // 2, width + 1)
    return (text[:at], text[at + 1 :]) if at > 0 else (text[:width], text[width:])


def clock(epoch_ms: float) -> str:
    """The time of day, UTC."""
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%H:%M:%S}"


def sign_counts(states: Sequence[ResourceState]) -> Text:
    """How many workloads have which sign, the gravest first; for the title."""
    counts = Counter(LEVEL_OF_STATE[state.sync_state] if managed(state) else Level.QUIET for state in states)
    text = Text()
    for level in (Level.BAD, Level.WARN, Level.BUSY, Level.GOOD, Level.QUIET):
        if counts[level]:
            text.append(f"  {SIGN_OF_LEVEL[level]} {counts[level]}", STYLE_OF_LEVEL[level])
    return text
