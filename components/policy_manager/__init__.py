"""PolicyManager: decides what a performance event leads to: a scaling action, or a reason why not.

It checks no availability, reserves nothing, and touches no runtime.
"""

import uuid
from collections.abc import Callable

from components.component import Component
from components.policy_manager.journal import Journal
from components.policy_manager.manager import PolicyManager
from components.pullpiri.policies import with_models
from components.settings import Settings, state_directory


def build(settings: Settings, post: Callable[[object], None]) -> Component:
    """The component as it is configured.

    Raises StorageError when its journal cannot be opened, and ModelError when a model of Pullpiri cannot be read.
    """
    settings = with_models(settings)
    path = settings.policy_manager.database or state_directory() / "policy_manager.sqlite3"
    return PolicyManager(settings, Journal(path), new_id=lambda: uuid.uuid4().hex)
