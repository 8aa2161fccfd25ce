"""ActionController: carries out one scaling after the other, step by step, and sees each to its one end."""

import time
from collections.abc import Callable

from components.action_controller.controller import ActionController
from components.action_controller.journal import Journal
from components.component import Component, Instant
from components.settings import Settings, state_directory


def build(settings: Settings, post: Callable[[object], None]) -> Component:
    """Wire an ActionController to its journal. Raises StorageError when the file cannot be used."""
    path = settings.action_controller.database or state_directory() / "action_controller.sqlite3"
    now = Instant(time.monotonic(), time.time_ns() // 1_000_000)
    return ActionController(Journal(path), settings.action_controller, now)
