"""Which components there are, and how each is built: the one place that knows them all."""

import importlib
from functools import partial
from typing import Final

from components.cli.errors import UsageError
from components.settings import Settings, state_directory
from components.shell.run import Build
from schemas.topics import Role

ROLES: Final = (
    Role.RESOURCE_MANAGER,
    Role.ACTION_CONTROLLER,
    Role.POLICY_MANAGER,
    Role.MONITORING_SERVER,
    Role.NODE_AGENT,
    Role.DEBUG_TAP,
    Role.DASHBOARD,
)
"""In the order in which `up` starts them: who answers comes before who asks."""

OPTIONAL: Final = frozenset({Role.DASHBOARD})
"""What `up` goes on without when it cannot start: scaling does not depend on a page that shows it."""


def role_of(name: str) -> Role:
    """The component of that name, written with `_` or `-`. Raises UsageError."""
    text = name.replace("-", "_")
    if text not in ROLES:
        raise UsageError(f"{name!r} is no component; there are {', '.join(sorted(ROLES))}")
    return Role(text)


def roles_of(settings: Settings) -> tuple[Role, ...]:
    """What `up` runs: everything that is not switched off."""
    return tuple(role for role in ROLES if role is not Role.DASHBOARD or settings.dashboard.port)


def builder_of(role: Role, settings: Settings) -> Build:
    """What makes this component; its package is imported now."""
    package = importlib.import_module(f"components.{role}")
    return partial(package.build, settings)


def place_of(role: Role, settings: Settings) -> str:
    """Where this component keeps or reaches what it works with, for the table of `up`."""
    agent = settings.node_agent
    match role:
        case Role.NODE_AGENT:
            simulated = agent.runtime == "simulated"
            runtime = (
                "simulated containers" if simulated else f"Podman at {agent.podman_url or 'its usual socket'}"
            )
            return f"node {agent.node}, {runtime}"
        case Role.RESOURCE_MANAGER:
            return str(settings.resource_manager.database or default_database(role))
        case Role.ACTION_CONTROLLER:
            return str(settings.action_controller.database or default_database(role))
        case Role.POLICY_MANAGER:
            return str(settings.policy_manager.database or default_database(role))
        case Role.DASHBOARD:
            page = settings.dashboard
            return f"http://{f'[{page.host}]' if ':' in page.host else page.host}:{page.port}/"
        case Role.DEBUG_TAP:
            return "JSON of every message under debug/"
        case _:
            return "in memory"


def default_database(role: Role) -> str:
    """Where a component keeps its database unless it is configured."""
    return str(state_directory() / f"{role}.sqlite3")
