"""ResourceManager: owner of the desired state, of capacity and of reservations; judge of what is in force."""

import time
from collections.abc import Callable

from components.component import Component, Instant
from components.pullpiri.policies import with_models
from components.resource_manager.ledger import Ledger
from components.resource_manager.manager import ResourceManager
from components.settings import Settings, state_directory


def build(settings: Settings, post: Callable[[object], None]) -> Component:
    """Wire a ResourceManager to its ledger.

    Raises StorageError when the file cannot be used, and ModelError when a model of Pullpiri cannot be read.
    """
    settings = with_models(settings)
    path = settings.resource_manager.database or state_directory() / "resource_manager.sqlite3"
    now = Instant(time.monotonic(), time.time_ns() // 1_000_000)
    return ResourceManager(Ledger(path, now.epoch_ms // 1000), settings, now)
