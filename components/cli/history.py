"""`history`: how scalings ended and what was decided, read from the components' databases on this machine."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from rich.console import Console
from rich.text import Text

from components.action_controller.journal import read_history
from components.cli.assembly import default_database
from components.cli.errors import EXIT_OK, CliError
from components.cli.screen import console, styled, table
from components.overview.words import describe_actual
from components.settings import Settings
from components.storage import StorageError, read_rows
from schemas.message import Message
from schemas.performance import PerfOutcome
from schemas.scaling import ScalingStatus
from schemas.topics import Role

M = TypeVar("M", bound=Message)
Dated = Sequence[tuple[int, M]]
"""Messages, newest first, each with its time (UTC epoch ms)."""

_DECISIONS: Final = (
    "SELECT decided_ms, outcome FROM event WHERE outcome IS NOT NULL ORDER BY decided_ms DESC, rowid DESC LIMIT ?"
)


def show_history(settings: Settings, limit: int, *, as_json: bool) -> int:
    """Show the latest endings and decisions. Returns the exit code."""
    controller = _journal(settings.action_controller.database, Role.ACTION_CONTROLLER)
    manager = _journal(settings.policy_manager.database, Role.POLICY_MANAGER)
    endings = _read(controller, read_history, limit)
    decisions = _read(manager, read_decisions, limit)
    if endings is None and decisions is None:
        raise CliError(
            f"neither action_controller nor policy_manager keeps its journal here ({controller}, {manager}); "
            "run this where they do, as the user they run as (sudo), or name their `database` in the configuration"
        )
    if as_json:
        print(json.dumps({"actions": _documents(endings), "decisions": _documents(decisions)}))
        return EXIT_OK
    screen = console()
    _show_endings(screen, endings)
    screen.print()
    _show_decisions(screen, decisions)
    return EXIT_OK


def read_decisions(path: Path, limit: int) -> list[tuple[int, PerfOutcome]]:
    """What became of the latest performance events, from PolicyManager's journal. Raises StorageError."""
    rows = read_rows(path, _DECISIONS, limit)
    return [(int(str(decided)), PerfOutcome.model_validate_json(str(body))) for decided, body in rows]


def _journal(database: Path | None, role: Role) -> Path:
    return database or Path(default_database(role))


def _read(path: Path, read: Callable[[Path, int], Dated[M]], limit: int) -> Dated[M] | None:
    """None when there is no such file here. Raises CliError when it cannot be read."""
    try:
        return read(path, limit) if path.exists() else None
    except (StorageError, PermissionError) as error:
        raise CliError(str(error)) from error
    except ValueError as error:
        why = " ".join(str(error).split())
        raise CliError(f"{path}: a row is damaged, or was written by a newer version: {why}") from error


def _documents(dated: Dated[M] | None) -> list[dict[str, object]] | None:
    """None, which is null in JSON, when the journal is not here."""
    if dated is None:
        return None
    return [{"at_ms": at_ms, **message.model_dump(mode="json", exclude_none=True)} for at_ms, message in dated]


def _show_endings(screen: Console, endings: Dated[ScalingStatus] | None) -> None:
    if endings is None:
        screen.print("action_controller keeps no journal on this machine")
        return
    rows = table("ENDED (UTC)", "NODE", "WORKLOAD", "CAUSE", "OUTCOME", "IN FORCE", "MESSAGE", title="scalings")
    for at_ms, final in endings:
        outcome = str(final.outcome or final.state)
        rows.add_row(
            _time(at_ms),
            final.node,
            final.workload_id,
            final.cause.type,
            Text(f"{outcome}{' (dry run)' if final.dry_run else ''}", styled(outcome)),
            describe_actual(final.actual, final.desired),
            _why(final.reason, final.message),
        )
    screen.print(rows if endings else "nothing was scaled in the last day")


def _show_decisions(screen: Console, decisions: Dated[PerfOutcome] | None) -> None:
    if decisions is None:
        screen.print("policy_manager keeps no journal on this machine")
        return
    rows = table("DECIDED (UTC)", "NODE", "WORKLOAD", "OUTCOME", "MESSAGE", title="performance events")
    for at_ms, decided in decisions:
        outcome = str(decided.outcome)
        rows.add_row(
            _time(at_ms),
            decided.node,
            decided.workload_id,
            Text(outcome, styled(outcome)),
            _why(decided.reason, decided.message),
        )
    screen.print(rows if decisions else "no performance event came in the last day")


def _time(epoch_ms: int) -> str:
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _why(reason: str | None, text: str) -> str:
    return " ".join(part for part in (reason, text) if part)
