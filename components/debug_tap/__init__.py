"""debug_tap: repeats every message as JSON under `debug/`, for people with MQTT Explorer. Decides nothing."""

from collections.abc import Callable

from components.component import Component
from components.debug_tap.tap import DebugTap
from components.settings import Settings


def build(settings: Settings, post: Callable[[object], None]) -> Component:
    """Make the tap. It needs neither configuration nor threads of its own."""
    del settings, post
    return DebugTap()
