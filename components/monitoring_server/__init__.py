"""MonitoringServer: watches metrics against thresholds, and raises performance events.

It decides nothing about scaling, allocates nothing, and touches no runtime.
"""

import uuid
from collections.abc import Callable

from components.component import Component
from components.monitoring_server.server import MonitoringServer
from components.settings import Settings


def build(settings: Settings, post: Callable[[object], None]) -> Component:
    """The component as it is configured. It has no threads of its own, so it posts nothing."""
    return MonitoringServer(settings, new_id=lambda: uuid.uuid4().hex)
