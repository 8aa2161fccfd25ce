"""The picture as the page gets it: rows by section and key, and what of them changed since the last time."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from components.dashboard.rows import Row, action_row, event_row, node_row, timeline_row, workload_row
from components.dashboard.words import MEANING
from components.overview.actions import ActionSeen
from components.overview.attention import attention
from components.overview.events import LEVEL_OF_PRESENCE
from components.overview.names import Key
from components.overview.overview import Overview
from components.overview.timeline import Timeline, Timelines
from schemas.enums import SyncState

WORKLOADS_SHOWN_MAX: Final = 2_000
"""Beyond, those that are well are left out first."""

ENDED_SHOWN: Final = 20
TIMELINES_SHOWN: Final = 100
EVENTS_SHOWN: Final = 40
ATTENTION_SHOWN: Final = 50

Sections = dict[str, dict[str, Row]]


@dataclass(frozen=True)
class Change:
    """Rows that are new or different, and keys of rows that are gone, by section."""

    put: Sections
    gone: dict[str, list[str]]

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)


def difference(before: Sections, after: Sections) -> Change:
    """What leads from one picture to the other."""
    put: Sections = {}
    gone: dict[str, list[str]] = {}
    for section, rows in after.items():
        known = before.get(section, {})
        changed = {key: row for key, row in rows.items() if (old := known.get(key)) is not row and old != row}
        if changed:
            put[section] = changed
        if lost := [key for key in known if key not in rows]:
            gone[section] = lost
    return Change(put, gone)


class Picture:
    """Makes rows of what was heard. Rows of workloads that did not change are kept: there may be thousands."""

    def __init__(self, *, scale_form: bool) -> None:
        self._scale_form = scale_form
        self._workload_rows: dict[Key, tuple[tuple[Any, ...], Row]] = {}

    def sections(self, seen: Overview, timelines: Timelines, now_ms: int) -> Sections:
        """The whole picture of this moment."""
        needs = attention(seen, now_ms)
        return {
            "about": {"page": self._about(seen)},
            "attention": {
                "all": {
                    "count": len(needs),
                    "items": [
                        {"text": need.text, "level": need.level, "node": need.node, "workload": need.workload}
                        for need in needs[:ATTENTION_SHOWN]
                    ],
                }
            },
            "nodes": {name: node_row(seen, name) for name in sorted({*seen.nodes, *seen.infos})},
            "workloads": self._workloads(seen),
            "actions": {one.status.action_id: action_row(one) for one in _actions(seen, now_ms)},
            "timelines": {line.key: timeline_row(line) for line in _latest(timelines)},
            "events": {"latest": {"items": [event_row(event) for event in _last_events(seen)]}},
            "components": {
                f"{component}/{instance}": {
                    "component": component,
                    "instance": instance,
                    "state": status.state,
                    "level": LEVEL_OF_PRESENCE[status.state],
                    "version": status.version,
                }
                for (component, instance), status in sorted(seen.components.items())
            },
        }

    def _about(self, seen: Overview) -> Row:
        return {
            "scale_form": self._scale_form,
            "meaning": MEANING,
            "workloads": len(seen.workloads),
            "left_out": seen.left_out,
            "simulated": sorted(name for name, info in seen.infos.items() if info.simulated),
        }

    def _workloads(self, seen: Overview) -> dict[str, Row]:
        kept: dict[Key, tuple[tuple[Any, ...], Row]] = {}
        for key in _shown(seen):
            parts = (
                seen.workloads[key],
                seen.measures.uses.get(key),
                seen.measures.apps.get(key),
                seen.degraded.get(key),
                seen.pause_of(key),
            )
            known = self._workload_rows.get(key)
            same = known is not None and all(old is new for old, new in zip(known[0], parts, strict=True))
            kept[key] = known if known is not None and same else (parts, workload_row(*parts))
        self._workload_rows = kept
        return {"/".join(key): row for key, (_, row) in kept.items()}


def _shown(seen: Overview) -> Iterable[Key]:
    if len(seen.workloads) <= WORKLOADS_SHOWN_MAX:
        return seen.workloads
    well = (SyncState.SYNCHRONIZED, SyncState.UNKNOWN)
    ranked = sorted(seen.workloads, key=lambda key: seen.workloads[key].sync_state in well)
    return ranked[:WORKLOADS_SHOWN_MAX]


def _actions(seen: Overview, now_ms: int) -> Iterable[ActionSeen]:
    yield from seen.actions.running(now_ms)
    yield from seen.actions.waiting(now_ms)
    yield from seen.actions.ended()[:ENDED_SHOWN]


def _latest(timelines: Timelines) -> Iterable[Timeline]:
    for number, line in enumerate(timelines):
        if number >= TIMELINES_SHOWN:
            return
        yield line


def _last_events(seen: Overview) -> Iterable[Any]:
    return list(seen.events)[-EVENTS_SHOWN:]
