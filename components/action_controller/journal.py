"""ActionController's inbox on disk: accepted actions that have not ended, and the final statuses of a day.

How far an action came is not kept here but in ResourceManager's ledger: after a crash it begins again, and is
answered at once up to where it was.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from components.storage import Database, read_rows
from schemas.message import Wire
from schemas.scaling import ScalingAction, ScalingStatus

_MIGRATIONS: Final = (
    """
    CREATE TABLE actions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        action_id TEXT NOT NULL UNIQUE,
        action TEXT NOT NULL,
        wire TEXT,
        accepted_ms INTEGER NOT NULL,
        final TEXT,
        final_ms INTEGER,
        said INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX actions_by_end ON actions (final_ms);
    """,
)
_HISTORY: Final = (
    "SELECT final_ms, final, wire FROM actions WHERE final IS NOT NULL ORDER BY final_ms DESC, seq DESC LIMIT ?"
)
KEEP_FINAL_MS: Final = 24 * 3600 * 1000


class Journal:
    """Accepted actions in order, and how they ended. All methods raise StorageError when they cannot write."""

    def __init__(self, path: Path | None, *, durable: bool = True) -> None:
        self._database = Database(path, _MIGRATIONS, durable=durable)

    def accept(self, action: ScalingAction, now_ms: int) -> None:
        """Keep an action; it will be carried to its end whatever happens."""
        values = (action.action_id, action.model_dump_json(exclude_none=True), action.wire, now_ms)
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO actions (action_id, action, wire, accepted_ms) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (action_id) DO NOTHING",  # a second instance, started by mistake, took it first
                values,
            )

    def end(self, action: ScalingAction, final: ScalingStatus, accepted_ms: int, now_ms: int) -> None:
        """Keep the one final status of an action, or of a reconcile that was never accepted here."""
        body = final.model_dump_json(exclude_none=True)
        asked = action.model_dump_json(exclude_none=True)
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO actions (action_id, action, wire, accepted_ms, final, final_ms) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (action_id) "
                "DO UPDATE SET final = excluded.final, final_ms = excluded.final_ms WHERE final IS NULL",
                (
                    final.action_id,
                    asked,
                    action.wire,
                    accepted_ms,
                    body,
                    now_ms,
                ),
            )

    def final_of(self, action_id: str) -> ScalingStatus | None:
        """The final status of an action, if it ended in the last day."""
        rows = self._database.query(
            "SELECT final, wire FROM actions WHERE action_id = ? AND final IS NOT NULL", action_id
        )
        return _final(*rows[0]) if rows else None

    def open_actions(self) -> list[tuple[ScalingAction, int]]:
        """Actions that were accepted and have not ended, oldest first, each with its time of acceptance (ms)."""
        rows = self._database.query(
            "SELECT action, wire, accepted_ms FROM actions WHERE final IS NULL ORDER BY seq"
        )
        return [(_action(body, wire), int(str(accepted))) for body, wire, accepted in rows]

    def unsaid(self) -> list[ScalingStatus]:
        """Final statuses that are not known to have been published."""
        rows = self._database.query(
            "SELECT final, wire FROM actions WHERE final IS NOT NULL AND said = 0 ORDER BY seq"
        )
        return [_final(body, wire) for body, wire in rows]

    def said(self, action_ids: Iterable[str]) -> None:
        """Note that these final statuses were published."""
        with self._database.transaction() as connection:
            connection.executemany("UPDATE actions SET said = 1 WHERE action_id = ?", [(i,) for i in action_ids])

    def history(self, limit: int) -> list[tuple[int, ScalingStatus]]:
        """The latest final statuses, newest first, each with the time it ended (UTC epoch ms)."""
        return _endings(self._database.query(_HISTORY, limit))

    def prune(self, now_ms: int) -> None:
        """Forget what ended more than a day ago."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM actions WHERE final_ms < ?", (now_ms - KEEP_FINAL_MS,))

    def probe(self) -> None:
        """Write without changing anything; raises StorageError when that is not possible."""
        with self._database.transaction() as connection:
            connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def read_history(path: Path, limit: int) -> list[tuple[int, ScalingStatus]]:
    """The same as `Journal.history`, from beside a running ActionController: nothing is written or set aside.

    Raises StorageError when the file cannot be read.
    """
    return _endings(read_rows(path, _HISTORY, limit))


def _endings(rows: list[tuple[object, ...]]) -> list[tuple[int, ScalingStatus]]:
    return [(int(str(ended)), _final(body, wire)) for ended, body, wire in rows]


def _wire(text: object) -> Wire | None:
    return Wire(str(text)) if text else None


def _action(body: object, wire: object) -> ScalingAction:
    return ScalingAction.model_validate_json(str(body)).model_copy(update={"wire": _wire(wire)})


def _final(body: object, wire: object) -> ScalingStatus:
    return ScalingStatus.model_validate_json(str(body)).model_copy(update={"wire": _wire(wire)})
