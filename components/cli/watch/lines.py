"""Without a terminal: one line for each change, as text or as JSON."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from components.cli.screen import printable
from components.overview.attention import Need, attention
from components.overview.events import Event, Level

if TYPE_CHECKING:
    from components.cli.watch.watching import Watching

LOOK_S: Final = 1.0
"""How often attention is judged anew although nothing happens."""


def follow_lines(watching: "Watching", *, as_json: bool) -> None:
    """Print what needs attention, and then each change, until interrupted."""
    lines = Lines(as_json=as_json)
    watching.begin()
    watching.news.clear()
    lines.begin(attention(watching.seen, watching.now_ms()), watching.now_ms())
    while True:
        watching.take(LOOK_S)
        now_ms = watching.now_ms()
        lines.connection(watching.problem if watching.lost_ms is not None else None, now_ms)
        while watching.news:
            lines.event(watching.news.popleft())
        lines.needs(attention(watching.seen, now_ms), now_ms)


class Lines:
    """Changes as lines; remembers what was said, so that each is said once."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._needs: dict[str, Need] = {}
        self._lost: str | None = None

    def begin(self, needs: list[Need], now_ms: int) -> None:
        """How things are at the start."""
        if not needs:
            self._print(Event(now_ms, Level.GOOD, "attention", "all is well"))
        self.needs(needs, now_ms)

    def event(self, event: Event) -> None:
        """Something happened."""
        self._print(event)

    def needs(self, needs: list[Need], now_ms: int) -> None:
        """What needs attention now: says what is new, and what is over."""
        present = {need.key: need for need in needs}
        for key, need in present.items():
            if key not in self._needs:
                text = f"needs attention: {need.text}"
                self._print(Event(now_ms, need.level, "attention", text, need.node, need.workload))
        for key, need in self._needs.items():
            if key not in present:
                text = f"no longer: {need.text}"
                self._print(Event(now_ms, Level.GOOD, "attention", text, need.node, need.workload))
        self._needs = present

    def connection(self, problem: str | None, now_ms: int) -> None:
        """Whether the connection to the broker stands: None, or why not."""
        if (problem is None) == (self._lost is None):
            return
        self._lost = problem
        if problem is not None:
            self._print(Event(now_ms, Level.BAD, "connection", f"no connection, trying again: {problem}"))
        else:
            self._print(Event(now_ms, Level.GOOD, "connection", "connected again"))

    def _print(self, event: Event) -> None:
        print(self._document(event) if self._json else _line(event), flush=True)

    @staticmethod
    def _document(event: Event) -> str:
        fields = {
            "at_ms": event.at_ms,
            "kind": event.kind,
            "level": event.level,
            "node": event.node,
            "workload": event.workload,
            "text": event.text,
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None})


def _line(event: Event) -> str:
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC)
    about = (
        f"{event.workload} on {event.node}: "
        if event.workload and event.node and event.kind != "attention"
        else ""
    )
    return printable(f"{at:%Y-%m-%dT%H:%M:%S}.{event.at_ms % 1000:03}Z {event.level:<5} {about}{event.text}")
