"""The durable ledger: SQLite behind a unit of work. Nothing is said before it is on disk."""

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from components.resource_manager.capacity import Shares, share
from components.resource_manager.records import ActionRow, Key, NodeRecord, WorkloadRecord
from components.storage import Database

_MIGRATIONS: Final = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE nodes (node TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE workloads (
        node TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (node, name)
    ) WITHOUT ROWID;
    CREATE TABLE generations (
        node TEXT NOT NULL, name TEXT NOT NULL, generation INTEGER NOT NULL, PRIMARY KEY (node, name)
    ) WITHOUT ROWID;
    CREATE TABLE actions (
        action_id TEXT PRIMARY KEY, closed_ms INTEGER NOT NULL, body TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX actions_by_closing ON actions (closed_ms);
    """,
)
KEEP_CLOSED_MS: Final = 24 * 3600 * 1000
"""How long a closed row goes on answering."""


class Ledger:
    """All records, in memory for reading and on disk for keeping.

    Changes are collected in a `Work` and become visible, first on disk and then in memory, when it is left
    without an error. What only follows the measurements (use, busy, an unchanged actual's stamp) is kept in
    memory alone, so that a snapshot without news costs no write.
    """

    def __init__(self, path: Path | None, epoch_s: int, *, durable: bool = True) -> None:
        """Open or begin a ledger. Generations of this process begin above `epoch_s`, the present UTC seconds.

        Raises StorageError when the file can be neither used nor set aside.
        """
        self._database = Database(path, _MIGRATIONS, durable=durable)
        self.nodes: dict[str, NodeRecord] = {}
        self.workloads: dict[Key, WorkloadRecord] = {}
        self.by_node: dict[str, set[str]] = defaultdict(set)
        self._active_rows: dict[str, ActionRow] = {}
        self.active: dict[Key, set[str]] = defaultdict(set)
        """Ids of rows that are open or held, by workload."""
        self.shares = Shares()
        self.generations: dict[Key, int] = {}
        self.meta: dict[str, str] = {}
        self._opened_s = epoch_s
        self._load()
        if "generation_base" not in self.meta:
            with self.work() as work:
                work.meta["generation_base"] = str(epoch_s)
                if self._database.set_aside is not None:
                    work.replaces_lost = True

    @property
    def set_aside(self) -> Path | None:
        """Where an unusable file that was found at the start now is."""
        return self._database.set_aside

    @property
    def fresh(self) -> bool:
        """Whether the file was begun by this process."""
        return self._database.fresh

    def next_generation(self, record: WorkloadRecord) -> int:
        """Above all that was ever used for this name, here or in what agents and retained state remember.

        An old copy of the file cannot be told from the latest one. So each process counts from its start: unless
        the clock was set back, that is above whatever the lost file had come to.
        """
        fenced = record.fence.generation if record.fence else 0
        base = max(int(self.meta["generation_base"]), self._opened_s)
        return max(base, record.generation, self.generations.get(record.key, 0), fenced) + 1

    @contextlib.contextmanager
    def work(self) -> Iterator["Work"]:
        """Collect changes; on disk and visible when the block is left, or not at all.

        Raises StorageError when they cannot be written.
        """
        work = Work(self)
        yield work
        news = work.news
        if news or work.nodes or work.rows or work.generations or work.meta:
            with self._database.transaction() as connection:
                work.write(connection, news)
            work.written = True
        self._apply(work)

    def prune(self, now_ms: int) -> None:
        """Forget rows that closed more than a day ago."""
        oldest = now_ms - KEEP_CLOSED_MS
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM actions WHERE closed_ms > 0 AND closed_ms < ?", (oldest,))

    def row(self, action_id: str) -> ActionRow | None:
        """The row of an action. Closed ones are on disk only: a day of them is more than memory should hold."""
        active = self._active_rows.get(action_id)
        if active is not None:
            return active
        found = self._database.query("SELECT body FROM actions WHERE action_id = ?", action_id)
        return ActionRow.model_validate_json(str(found[0][0])) if found else None

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _load(self) -> None:
        query = self._database.query
        self.meta = {str(key): str(value) for key, value in query("SELECT key, value FROM meta")}
        for (body,) in query("SELECT body FROM nodes"):
            node = NodeRecord.model_validate_json(str(body))
            self.nodes[node.node] = node
        for (body,) in query("SELECT body FROM workloads"):
            self._keep(WorkloadRecord.model_validate_json(str(body)))
        for node_name, name, generation in query("SELECT node, name, generation FROM generations"):
            self.generations[str(node_name), str(name)] = int(str(generation))
        for (body,) in query("SELECT body FROM actions WHERE closed_ms = 0"):
            self._keep_row(ActionRow.model_validate_json(str(body)))
        self._count(self.workloads)

    def _apply(self, work: "Work") -> None:
        self.meta.update(work.meta)
        for name, node in work.nodes.items():
            if node is None:
                self.nodes.pop(name, None)
            else:
                self.nodes[name] = node
        for key, record in work.workloads.items():
            if record is None:
                self.workloads.pop(key, None)
                self.by_node[key[0]].discard(key[1])
            else:
                self._keep(record)
        for row in work.rows.values():
            self._keep_row(row)
        self._count(work.changed)
        self.generations.update(work.generations)

    def _count(self, keys: Iterable[Key]) -> None:
        for key in keys:
            rows = [self._active_rows[action_id] for action_id in self.active.get(key, ())]
            self.shares.put(key, share(self.workloads.get(key), rows))

    def _keep(self, record: WorkloadRecord) -> None:
        self.workloads[record.key] = record
        self.by_node[record.node].add(record.name)

    def _keep_row(self, row: ActionRow) -> None:
        if row.counts:
            self._active_rows[row.action_id] = row
            self.active[row.key].add(row.action_id)
        else:
            self._active_rows.pop(row.action_id, None)
            self.active[row.key].discard(row.action_id)
            if not self.active[row.key]:
                del self.active[row.key]


class Work:
    """One unit of work: reads see its own changes first."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.nodes: dict[str, NodeRecord | None] = {}
        self.workloads: dict[Key, WorkloadRecord | None] = {}
        self.rows: dict[str, ActionRow] = {}
        self.generations: dict[Key, int] = {}
        self.meta: dict[str, str] = {}
        self.written = False
        """Whether there was something to be written, and it is on disk."""

    @property
    def replaces_lost(self) -> bool:
        """Whether the ledger stands in for a lost one, and may not know every reservation yet."""
        return {**self.ledger.meta, **self.meta}.get("replaces_lost") == "yes"

    @replaces_lost.setter
    def replaces_lost(self, it_does: bool) -> None:
        self.meta["replaces_lost"] = "yes" if it_does else "no"

    def node(self, name: str) -> NodeRecord | None:
        """The node, if it is known."""
        return self.nodes[name] if name in self.nodes else self.ledger.nodes.get(name)

    def workload(self, key: Key) -> WorkloadRecord | None:
        """The workload, if it is known."""
        return self.workloads[key] if key in self.workloads else self.ledger.workloads.get(key)

    def row(self, action_id: str) -> ActionRow | None:
        """The action's row, if there is one."""
        return self.rows.get(action_id) or self.ledger.row(action_id)

    def workloads_of(self, node: str) -> list[WorkloadRecord]:
        """All workloads of a node."""
        names = self.ledger.by_node.get(node, set())
        added = {name for of_node, name in self.workloads if of_node == node}
        found = (self.workload((node, name)) for name in sorted(names | added))
        return [record for record in found if record is not None]

    def active_rows(self, key: Key) -> list[ActionRow]:
        """Rows of a workload that are open or held."""
        if not self.rows and key not in self.ledger.active:
            return []
        ids = set(self.ledger.active.get(key, ()))
        ids.update(row.action_id for row in self.rows.values() if row.key == key)
        found = (self.row(action_id) for action_id in sorted(ids))
        return [row for row in found if row is not None and row.counts]

    def open_row(self, key: Key) -> ActionRow | None:
        """The one open row of a workload."""
        return next((row for row in self.active_rows(key) if row.open), None)

    @property
    def changed(self) -> set[Key]:
        """Workloads that are not as the ledger has them, or that have a row that is not."""
        return {*self.workloads, *(row.key for row in self.rows.values())}

    def put_node(self, node: NodeRecord) -> None:
        """Keep a node."""
        self.nodes[node.node] = node

    def put(self, record: WorkloadRecord) -> None:
        """Keep a workload, and its generation for ever."""
        self.workloads[record.key] = record
        if record.generation > self.ledger.generations.get(record.key, 0):
            self.generations[record.key] = record.generation

    def put_row(self, row: ActionRow) -> None:
        """Keep an action's row."""
        self.rows[row.action_id] = row

    def remove(self, key: Key) -> None:
        """Forget a workload; its generation stays remembered."""
        self.workloads[key] = None

    def remove_node(self, node: str) -> None:
        """Forget a node."""
        self.nodes[node] = None

    @property
    def news(self) -> dict[Key, WorkloadRecord | None]:
        """Workloads of which something changed that must be written."""
        return {key: record for key, record in self.workloads.items() if self._is_news(key, record)}

    def _is_news(self, key: Key, record: WorkloadRecord | None) -> bool:
        before = self.ledger.workloads.get(key)
        if record is None or before is None:
            return record is not before
        same_actual = record.actual == before.actual and record.actual_known == before.actual_known
        follows: dict[str, object] = {"usage": before.usage, "busy": before.busy}
        if same_actual:
            follows["stamp"] = before.stamp
        return vars(record) | follows != vars(before)

    def write(self, connection: sqlite3.Connection, news: Mapping[Key, WorkloadRecord | None]) -> None:
        """Write everything collected, of the workloads only the news, inside the caller's transaction."""
        for key, value in self.meta.items():
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
        for name, node in self.nodes.items():
            if node is None:
                connection.execute("DELETE FROM nodes WHERE node = ?", (name,))
            else:
                connection.execute("INSERT OR REPLACE INTO nodes VALUES (?, ?)", (name, node.model_dump_json()))
        for (node_name, name), record in news.items():
            if record is None:
                connection.execute("DELETE FROM workloads WHERE node = ? AND name = ?", (node_name, name))
            else:
                values = (node_name, name, record.model_dump_json())
                connection.execute("INSERT OR REPLACE INTO workloads VALUES (?, ?, ?)", values)
        for (node_name, name), generation in self.generations.items():
            connection.execute(
                "INSERT OR REPLACE INTO generations VALUES (?, ?, ?)", (node_name, name, generation)
            )
        for row in self.rows.values():
            connection.execute(
                "INSERT OR REPLACE INTO actions VALUES (?, ?, ?)",
                (row.action_id, row.closed_ms, row.model_dump_json()),
            )
