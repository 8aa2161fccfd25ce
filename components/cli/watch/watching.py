"""The loop of `watch`: messages and keys in, a page out, a few times a second at most."""

import sys
import time
from collections import deque
from typing import Final

from components.cli.connection import Session, subscriptions_to
from components.cli.errors import EXIT_OK
from components.cli.journals import add_journals
from components.cli.screen import console
from components.cli.watch.lines import follow_lines
from components.cli.watch.page import Moment, page
from components.cli.watch.terminal import Terminal
from components.cli.watch.view import View
from components.overview.events import Event
from components.overview.overview import HEARD, Overview
from components.settings import Settings
from schemas.codec import Decoded

REDRAW_S: Final = 0.25
"""Shortest time between two pages that no key asked for."""

KEY_REDRAW_S: Final = 0.04
"""Shortest time between two pages when keys are pressed."""

REST: Final = 4
"""How much longer to rest than the last page took: a large fleet is drawn less often."""

STILL_S: Final = 1.0
"""Longest time between two pages: ages grow although nothing happens."""

NEWS_MAX: Final = 1_000
AT_ONCE: Final = 500
"""Messages taken in before keys are looked at again."""


def watch(settings: Settings, *, as_json: bool) -> int:
    """Show the system until `q` or Ctrl-C. Returns the exit code."""
    with Session(settings.broker, subscriptions_to(*HEARD)) as session:
        watching = Watching(session, settings)
        try:
            if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
                follow_lines(watching, as_json=as_json)
            else:
                _follow_keys(watching, session, View())
        except KeyboardInterrupt:
            return EXIT_OK
    return EXIT_OK


class Watching:
    """The picture, kept up to date from a session, through lost connections."""

    def __init__(self, session: Session, settings: Settings) -> None:
        self.seen = Overview(settings.monitoring.repeat_s)
        self.broker = session.broker
        self.lost_ms: int | None = None
        """Since when there is no connection, UTC epoch ms; None: there is one."""
        self.news: deque[Event] = deque(maxlen=NEWS_MAX)
        """What happened, for who takes it from here; the oldest go when nobody does."""
        self._session = session
        self._settings = settings

    @property
    def problem(self) -> str:
        """Why there is no connection."""
        return self._session.problem

    @property
    def dropped(self) -> int:
        """Messages that came faster than they were taken in."""
        return self._session.dropped

    @staticmethod
    def now_ms() -> int:
        """UTC epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def begin(self) -> None:
        """Take in what is retained, and what only journals know."""
        for heard in self._session.retained(whole=False):
            self._hear(heard.decoded, retained=heard.retained)
        add_journals(self.seen, self._settings)

    def take(self, timeout_s: float) -> bool:
        """Take in what came, waiting for it up to so long. Whether anything changed."""
        heard = self._session.receive(timeout_s)
        changed = self._look_at_connection()
        for _ in range(AT_ONCE):
            if heard is None:
                return changed
            self._hear(heard.decoded, retained=heard.retained)
            changed = True
            heard = self._session.receive(0)
        return changed

    def _hear(self, message: Decoded, *, retained: bool) -> None:
        event = self.seen.hear(message, self.now_ms(), retained=retained)
        if event is not None:
            self.news.append(event)

    def _look_at_connection(self) -> bool:
        if self._session.connected == (self.lost_ms is None):
            return False
        if self._session.connected:
            self.lost_ms = None
            self.seen.reconnected(self.now_ms())
            add_journals(self.seen, self._settings)
        else:
            self.lost_ms = self.now_ms()
        return True


def _follow_keys(watching: Watching, session: Session, view: View) -> None:
    watching.begin()
    with Terminal(console(), session.wake) as terminal:
        drawn, took_s, changed, urgent = float("-inf"), 0.0, True, True
        while True:
            for key in terminal.pressed():
                urgent = True
                if not view.press(key):
                    return
            urgent = urgent or terminal.resized
            pause_s = KEY_REDRAW_S if urgent else REDRAW_S if changed else STILL_S
            pause_s = max(pause_s, took_s if urgent else took_s * REST)
            left_s = drawn + pause_s - time.monotonic()
            if left_s > 0:
                changed = watching.take(left_s) or changed
                continue
            began = time.monotonic()
            terminal.draw(page(watching.seen, view, _moment(watching), *terminal.size))
            drawn, changed, urgent = time.monotonic(), False, False
            took_s = drawn - began


def _moment(watching: Watching) -> Moment:
    lost_ms = watching.lost_ms
    return Moment(
        watching.broker,
        watching.now_ms(),
        lost=None if lost_ms is None else watching.problem,
        lost_ms=lost_ms or 0,
        dropped=watching.dropped,
    )
