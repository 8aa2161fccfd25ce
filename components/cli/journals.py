"""What journals on this machine know and the broker does not keep: actions that have not ended, and all pauses."""

from pathlib import Path
from typing import Final

from components.cli.assembly import default_database
from components.overview.overview import Overview
from components.pauses import Pause
from components.settings import Settings
from components.storage import StorageError, read_rows
from schemas.enums import Phase, TaskState
from schemas.scaling import ScalingAction, ScalingStatus
from schemas.topics import Role

_OPEN: Final = "SELECT accepted_ms, action FROM actions WHERE final IS NULL ORDER BY seq LIMIT ?"
_OPEN_MAX: Final = 10_000
_PAUSES: Final = "SELECT paused, node, workload FROM pause ORDER BY number"
_HERE: Final = ("127.0.0.1", "localhost", "::1")


def add_journals(seen: Overview, settings: Settings) -> None:
    """Complete the picture from the journals that are here, if they are those of this broker.

    They are taken to be when they are configured, or when the broker is on this machine. What cannot be read adds
    nothing: the picture then says itself what it does not know.
    """
    controller = _journal(settings, settings.action_controller.database, Role.ACTION_CONTROLLER)
    manager = _journal(settings, settings.policy_manager.database, Role.POLICY_MANAGER)
    if controller is not None:
        _add_open_actions(seen, controller)
    if manager is not None:
        _add_pauses(seen, manager)


def _journal(settings: Settings, configured: Path | None, role: Role) -> Path | None:
    if configured is None and settings.broker.address[0] not in _HERE:
        return None
    path = configured or Path(default_database(role))
    try:
        return path if path.exists() else None
    except PermissionError:  # another user's: not for us
        return None


def _add_open_actions(seen: Overview, path: Path) -> None:
    try:
        rows = read_rows(path, _OPEN, _OPEN_MAX)
        found = [(int(str(at_ms)), ScalingAction.model_validate_json(str(body))) for at_ms, body in rows]
    except (StorageError, ValueError):  # `history` says why; here it is an addition
        return
    for accepted_ms, action in found:
        status = ScalingStatus(
            action_id=action.action_id,
            node=action.node,
            workload_id=action.workload_id,
            state=TaskState.PENDING,
            phase=Phase.ACCEPTED,
            message="accepted, and not ended",
            dry_run=action.dry_run,
            cause=action.cause,
        )
        seen.actions.accepted(action, accepted_ms, status)


def _add_pauses(seen: Overview, path: Path) -> None:
    try:
        rows = read_rows(path, _PAUSES)
    except StorageError:  # `pauses_known` stays as it is
        return
    seen.pauses_are(tuple(Pause(bool(paused), _name(node), _name(workload)) for paused, node, workload in rows))


def _name(value: object) -> str | None:
    return None if value is None else str(value)
