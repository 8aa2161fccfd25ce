"""PolicyManager's durable memory: what it decided, before it says so."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Final, cast

from pydantic import ValidationError

from components.component import Instant
from components.pauses import Pause
from components.policy_manager.messages import Key
from components.policy_manager.standing import Standing, moment
from components.storage import Database
from schemas.limits import Limits
from schemas.message import Wire
from schemas.performance import PerfOutcome
from schemas.scaling import ScalingAction

_log = logging.getLogger(__name__)

EVENTS_MAX: Final = 500_000
"""Answered events kept, at most; at 100 bytes and more each, a day of a wild fleet must not fill the disk."""

_MIGRATIONS: Final = (
    """
    CREATE TABLE event (
        event_id TEXT PRIMARY KEY, wire TEXT, outcome TEXT, decided_ms INTEGER NOT NULL
    );
    CREATE INDEX event_by_age ON event (decided_ms);
    CREATE TABLE open_action (action_id TEXT PRIMARY KEY, event_id TEXT, body TEXT NOT NULL);
    CREATE TABLE standing (
        node TEXT, workload TEXT, ended_ms INTEGER, baseline TEXT, recovered_ms INTEGER, recovered_event TEXT,
        PRIMARY KEY (node, workload)
    );
    CREATE TABLE pause (number INTEGER PRIMARY KEY, paused INTEGER NOT NULL, node TEXT, workload TEXT);
    """,
)


@dataclass(frozen=True)
class Decided:
    """A performance event that was decided: its outcome, or none while its action is open."""

    outcome: PerfOutcome | None
    wire: Wire | None
    """How the event came; None: as configured."""


class Journal:
    """Every method that writes does so in one transaction. All raise StorageError; then nothing was changed."""

    def __init__(self, path: Path | None, *, durable: bool = True) -> None:
        """Open or create the file (None: in memory, for tests)."""
        self._database = Database(path, _MIGRATIONS, durable=durable)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # Reading

    def event(self, event_id: str) -> Decided | None:
        """What was decided of an event; None: nothing yet."""
        rows = self._database.query("SELECT outcome, wire FROM event WHERE event_id = ?", event_id)
        if not rows:
            return None
        outcome, wire = cast("tuple[str | None, str | None]", rows[0])
        return Decided(
            outcome=PerfOutcome.model_validate_json(outcome) if outcome else None,
            wire=Wire(wire) if wire else None,
        )

    def open_actions(self) -> list[ScalingAction]:
        """Actions that have not ended. One that cannot be read is forgotten: its event is decided anew."""
        found = []
        rows = self._database.query("SELECT action_id, event_id, body FROM open_action ORDER BY rowid")
        for action_id, event_id, body in rows:
            try:
                found.append(ScalingAction.model_validate_json(cast("str", body)))
            except ValidationError:
                _log.exception("an open action of the journal cannot be read", extra={"action_id": action_id})
                with self._database.transaction() as connection:
                    connection.execute("DELETE FROM open_action WHERE action_id = ?", (action_id,))
                    connection.execute("DELETE FROM event WHERE event_id = ? AND outcome IS NULL", (event_id,))
        return found

    def standings(self, now: Instant) -> dict[Key, Standing]:
        """How every workload stands."""
        rows = self._database.query(
            "SELECT node, workload, ended_ms, baseline, recovered_ms, recovered_event FROM standing"
        )
        typed = cast("list[tuple[str, str, int | None, str | None, int | None, str | None]]", rows)
        return {
            (node, workload): Standing(
                ended=None if ended is None else moment(ended, now),
                baseline=Limits.model_validate_json(baseline) if baseline else None,
                recovered=None if recovered is None else moment(recovered, now),
                recovered_event=event or "",
            )
            for node, workload, ended, baseline, recovered, event in typed
        }

    def pauses(self) -> tuple[Pause, ...]:
        """The pauses in force, oldest first."""
        rows = self._database.query("SELECT paused, node, workload FROM pause ORDER BY number")
        typed = cast("list[tuple[int, str | None, str | None]]", rows)
        return tuple(Pause(bool(paused), node, workload) for paused, node, workload in typed)

    # Writing

    def answer(self, outcomes: Iterable[PerfOutcome], now: Instant, wire: Wire | None = None) -> None:
        """Events that need no action. Without any, this only tells whether the journal can be written."""
        with self._database.transaction() as connection:
            for outcome in outcomes:
                _write_event(connection, outcome.event_id, wire, outcome, now)

    def decide(
        self,
        key: Key,
        event_id: str,
        wire: Wire | None,
        decision: PerfOutcome | ScalingAction,
        standing: Standing | None,
        now: Instant,
    ) -> None:
        """An event, with its outcome or its action, and how its workload stands then (None: as before)."""
        with self._database.transaction() as connection:
            if isinstance(decision, ScalingAction):
                _write_event(connection, event_id, wire, None, now)
                _write_action(connection, decision)
            else:
                _write_event(connection, event_id, wire, decision, now)
            if standing is not None:
                _write_standing(connection, key, standing)

    def begin(self, key: Key, action: ScalingAction, standing: Standing) -> None:
        """An action that no event waits for."""
        with self._database.transaction() as connection:
            _write_action(connection, action)
            _write_standing(connection, key, standing)

    def end(self, key: Key, action_id: str, outcome: PerfOutcome | None, standing: Standing) -> Wire | None:
        """The end of an action, with the outcome of the event that it was for; how that event came."""
        decided = self.event(outcome.event_id) if outcome else None
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM open_action WHERE action_id = ?", (action_id,))
            if outcome is not None:
                connection.execute(
                    "UPDATE event SET outcome = ? WHERE event_id = ?", (_text(outcome), outcome.event_id)
                )
            _write_standing(connection, key, standing)
        return decided.wire if decided else None

    def stand(self, key: Key, standing: Standing) -> None:
        """How a workload stands."""
        with self._database.transaction() as connection:
            _write_standing(connection, key, standing)

    def pause(self, pauses: tuple[Pause, ...]) -> None:
        """The pauses in force."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM pause")
            connection.executemany(
                "INSERT INTO pause (paused, node, workload) VALUES (?, ?, ?)",
                [(pause.paused, pause.node, pause.workload) for pause in pauses],
            )

    def prune(self, older_than_ms: int, forgotten: Iterable[Key], keep: int = EVENTS_MAX) -> None:
        """Forget answered events decided before then, or beyond the newest `keep`, and these workloads."""
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM event WHERE outcome IS NOT NULL AND (decided_ms < ?"
                " OR rowid <= (SELECT max(rowid) FROM event) - ?)",
                (older_than_ms, keep),
            )
            connection.executemany("DELETE FROM standing WHERE node = ? AND workload = ?", forgotten)


def _text(message: PerfOutcome | ScalingAction | Limits) -> str:
    return message.model_dump_json(exclude_none=True)


def _write_event(
    connection: Connection, event_id: str, wire: Wire | None, outcome: PerfOutcome | None, now: Instant
) -> None:
    connection.execute(
        "INSERT INTO event (event_id, wire, outcome, decided_ms) VALUES (?, ?, ?, ?)",
        (event_id, wire, _text(outcome) if outcome else None, now.epoch_ms),
    )


def _write_action(connection: Connection, action: ScalingAction) -> None:
    connection.execute(
        "INSERT INTO open_action (action_id, event_id, body) VALUES (?, ?, ?)",
        (action.action_id, action.cause.event_id, _text(action)),
    )


def _write_standing(connection: Connection, key: Key, standing: Standing) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO standing (node, workload, ended_ms, baseline, recovered_ms, recovered_event)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            *key,
            standing.ended.epoch_ms if standing.ended else None,
            _text(standing.baseline) if standing.baseline else None,
            standing.recovered.epoch_ms if standing.recovered else None,
            standing.recovered_event or None,
        ),
    )
