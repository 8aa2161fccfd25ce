"""Bugs planted on purpose, to show that the simulation finds them. Each breaks one rule of the protocol."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from components.node_agent.fences import Admission, Fences
from components.node_agent.writes import Writes
from components.resource_manager import drift, judgement, leases, observation
from components.resource_manager.ledger import Ledger, Work
from components.resource_manager.records import NEVER, ActionRow, Stage, WorkloadRecord
from components.resource_manager.turn import Turn
from schemas.limits import Limits, mismatches
from schemas.resources import Fence

Patch = tuple[Any, str, Any]


def _said_before_kept() -> Iterator[Patch]:
    """Actions are answered from memory; they reach the disk with a later turn, or never."""
    before = Work.write

    def write(self: Work, connection: Any, news: Any) -> None:
        kept, self.rows = self.rows, {}
        before(self, connection, news)
        self.rows = kept

    yield Work, "write", write


def _no_reservation() -> Iterator[Patch]:
    """A grant holds no room until it is recorded."""

    def counts(row: ActionRow) -> bool:
        return row.stage in (Stage.RECORDED, Stage.HELD)

    yield ActionRow, "counts", property(counts)


def _generation_ignored() -> Iterator[Patch]:
    """The agent carries out whatever comes, in the order it comes."""
    yield Fences, "admit", lambda *_: Admission.NEW


def _retry_from_cache() -> Iterator[Patch]:
    """The agent answers every further attempt at a generation with what the first led to."""
    before = Fences.admit

    def admit(self: Fences, name: str, fence: Fence, action_id: str) -> Admission:
        entry = self._entries.get(name)
        if entry is not None and entry.answer is not None and entry.fence.generation == fence.generation:
            return Admission.ANSWERED
        return before(self, name, fence, action_id)

    yield Fences, "admit", admit


def _rollback_not_sent() -> Iterator[Patch]:
    """A rollback counts as confirmed when the kernel already shows it: a late first command meets no fence."""
    before: Callable[..., WorkloadRecord] = vars(judgement)["roll_back"]

    def roll_back(turn: Turn, record: Any, row: Any, reason: Any, text: str) -> WorkloadRecord:
        rolled = before(turn, record, row, reason, text)
        wrong = mismatches(rolled.desired or Limits(), rolled.actual or Limits())
        return rolled if wrong else judgement.confirm(turn, rolled, rolled.stamp)

    yield judgement, "roll_back", roll_back


def _old_snapshot_judged() -> Iterator[Patch]:
    """Observations are taken as they come, and judged, whatever their stamp."""
    before: Callable[..., WorkloadRecord] = drift.consider

    def consider(turn: Turn, record: WorkloadRecord, cause: Any) -> WorkloadRecord:
        judged = before(turn, turn.change(record, confirmed_stamp=NEVER), cause)
        stamp = max(record.confirmed_stamp, judged.confirmed_stamp)
        return turn.change(judged, confirmed_stamp=stamp)

    yield Turn, "newer", lambda *_: True
    yield observation, "consider", consider


def _busy_ignored() -> Iterator[Patch]:
    """A call whose connection broke is forgotten at once, though it may still take effect."""
    yield Writes, "settle", lambda *_: None


def _generation_forgotten() -> Iterator[Patch]:
    """Generations of a ledger begin at 1, whatever was used before a loss."""

    def next_generation(self: Ledger, record: Any) -> int:
        return int(record.generation) + 1

    yield Ledger, "next_generation", next_generation


def _same_name_is_enough() -> Iterator[Patch]:
    """A container of another image gets the limits of the one it replaced."""
    yield observation, "_same_workload", lambda _turn, record, _container: record


def _lease_forgotten() -> Iterator[Patch]:
    """A reservation without an end."""
    yield leases, "expire", lambda _turn: None


def _old_use_believed() -> Iterator[Patch]:
    """What unlimited containers used before a restart counts until somebody tells otherwise."""
    yield Turn, "unmeasured", lambda *_: ()


PLANTED: Final = {
    "said-before-kept": _said_before_kept,
    "no-reservation": _no_reservation,
    "generation-ignored": _generation_ignored,
    "retry-from-cache": _retry_from_cache,
    "rollback-not-sent": _rollback_not_sent,
    "old-snapshot-judged": _old_snapshot_judged,
    "busy-ignored": _busy_ignored,
    "generation-forgotten": _generation_forgotten,
    "same-name-is-enough": _same_name_is_enough,
    "lease-forgotten": _lease_forgotten,
    "old-use-believed": _old_use_believed,
}


@contextlib.contextmanager
def plant(name: str | None) -> Iterator[None]:
    """Plant a bug by name while the block runs; None: none. Raises KeyError for an unknown name."""
    with contextlib.ExitStack() as undo:
        for place, attribute, replacement in PLANTED[name]() if name else ():
            undo.callback(setattr, place, attribute, vars(place)[attribute])
            setattr(place, attribute, replacement)
        yield
