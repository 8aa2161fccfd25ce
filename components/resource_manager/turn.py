"""One turn of ResourceManager: a unit of work, the time, the rules in force, and what is to be said at its end."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from components.component import Instant, Output
from components.presence import away
from components.repeater import Repeater
from components.resource_manager.capacity import allocated, capacity, share
from components.resource_manager.ledger import Work
from components.resource_manager.lifecycle import SyncEvent, transition
from components.resource_manager.records import ActionRow, Key, NodeRecord, Stamp, WorkloadRecord
from components.settings import Settings
from schemas.codec import Cleared
from schemas.enums import Reason
from schemas.limits import Amount
from schemas.message import Message
from schemas.operations import ComponentStatus
from schemas.resources import NodeCapacity, ResourceState

_NO_CAUSE: Final = frozenset({SyncEvent.CONFIRMED, SyncEvent.RECORDED, SyncEvent.RELEASED, SyncEvent.REAPPEARED})
"""After these nothing is left of the cause of an earlier failure."""


@dataclass(frozen=True)
class Told:
    """When an agent last told what is in force, and when it was asked since."""

    stamp: Stamp
    at: float
    asked: float | None = None


@dataclass
class Live:
    """What only this process knows: presence, deadlines on its own clock, requests out, counters.

    Nothing here must survive: after a restart leases and holds run anew from the start, as the protocol says.
    """

    started: float
    agents: dict[str, ComponentStatus] = field(default_factory=dict)
    leases: dict[str, float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    """By action: until when its agent may say what is in force, after the lease ended."""
    absent: dict[Key, float] = field(default_factory=dict)
    """Until when an absent or stopped workload is held."""
    missing: Counter[Key] = field(default_factory=Counter)
    """Complete snapshots in a row without the workload."""
    counted: dict[str, Stamp] = field(default_factory=dict)
    """The latest complete snapshot of each node that was counted."""
    retry_at: dict[Key, float] = field(default_factory=dict)
    backoff: Counter[Key] = field(default_factory=Counter)
    answered: set[str] = field(default_factory=set)
    """Nodes whose agent spoke since the start."""
    told: dict[str, Told] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    """Nodes whose agent is connected, but neither tells what is in force nor answers."""
    repeater: Repeater = field(default_factory=Repeater)
    capacities: dict[str, NodeCapacity] = field(default_factory=dict)
    cleared: dict[Key, float] = field(default_factory=dict)
    """When we last deleted a retained state."""
    echoed: dict[Key, int] = field(default_factory=dict)
    """The highest revision of each state that came back to us on this connection."""
    untrue: dict[Key, bool] = field(default_factory=dict)
    """States that somebody else has overwritten."""
    restated: dict[Key, float] = field(default_factory=dict)
    """From when on a state may be said again over another's word."""
    drifts: Counter[tuple[str, str]] = field(default_factory=Counter)
    reconciles: Counter[str] = field(default_factory=Counter)

    def copy(self) -> "Live":
        """The same, to return to when a turn could not be written down."""
        return Live(**{name: _copied(value) for name, value in vars(self).items()})


def _copied(value: Any) -> Any:
    """A container's copy; each turn makes one of all of them, and most are empty."""
    if isinstance(value, float):
        return value
    return value.copy() if value else type(value)()


class Turn:
    """Everything one handler needs. Changes are kept in `work`; `finish` adds what follows from them."""

    def __init__(self, work: Work, live: Live, settings: Settings, now: Instant) -> None:
        self.work = work
        self.live = live
        self.settings = settings
        self.now = now
        self.out: list[Output] = []
        self._touched: set[str] = set()
        self._published: dict[Key, WorkloadRecord] = {}

    @property
    def rules(self) -> Any:
        """The section [resource_manager]."""
        return self.settings.resource_manager

    def say(self, message: Message) -> None:
        """Publish at the end of the turn."""
        self.out.append(message)

    def change(self, record: WorkloadRecord, event: SyncEvent | None = None, **changes: Any) -> WorkloadRecord:
        """Keep a changed workload; with an event its synchronization state moves on."""
        if event is not None:
            state = transition(record.sync_state, event)
            if state is not record.sync_state:
                changes["sync_state"] = state
                changes["since"] = self.now.epoch_ms
            if event in _NO_CAUSE:
                changes = {"reason": None, "message": None, **changes}
        changed = record.model_copy(update=changes)
        self.work.put(changed)
        self._touched.add(record.node)
        return changed

    def change_row(self, row: ActionRow, **changes: Any) -> ActionRow:
        """Keep a changed action row."""
        changed = row.model_copy(update=changes)
        self.work.put_row(changed)
        self._touched.add(row.node)
        return changed

    def fail(self, record: WorkloadRecord, reason: Reason, message: str) -> WorkloadRecord:
        """Mark a workload FAILED for a reason."""
        return self.change(record, SyncEvent.FAILED, reason=reason, message=message)

    def lease(self, action_id: str) -> None:
        """Let an action's lease begin, or begin anew."""
        self.end_lease(action_id)
        self.live.leases[action_id] = self.now.monotonic + self.rules.lease_s

    def end_lease(self, action_id: str) -> None:
        """Forget an action's lease, and what was asked when it ended."""
        self.live.leases.pop(action_id, None)
        self.live.asked.pop(action_id, None)
        self.live.repeater.answered(("lease", action_id))

    def touch(self, node: str) -> None:
        """Look at a node's capacity again at the end of the turn."""
        self._touched.add(node)

    def reachable(self, node: str) -> bool:
        """Whether commands have a chance to arrive: the agent is not known to be away, and not silent.

        An agent that has not spoken since our own start counts as there. The ledger knows its containers, and
        to refuse whatever was asked while we were away would make every restart of ours visible to users.
        """
        presence = self.live.agents.get(node)
        return node not in self.live.silent and (presence is None or not away(presence))

    def reserved(self, node: NodeRecord) -> Amount:
        """The share of a node that is kept for the system."""
        reserved: Amount = self.rules.reserved.of(node.total or Amount())
        return reserved

    def allocated(self, record: WorkloadRecord) -> Amount:
        """Room that a workload takes."""
        return allocated(record, self.work.active_rows(record.key))

    def room(self, node: NodeRecord) -> NodeCapacity:
        """The node's room as it is now, this turn's changes included."""
        work = self.work
        changed = {
            key: share(work.workload(key), work.active_rows(key)) for key in work.changed if key[0] == node.node
        }
        return capacity(node, self.reserved(node), *work.ledger.shares.of_node(node.node, changed))

    def unmeasured(self, node: NodeRecord) -> tuple[str, ...]:
        """Unlimited containers whose use is not known, since their agent has not spoken since our own start.

        Use is not written down, so a new process knows an old one.
        """
        return () if node.node in self.live.answered else self.room(node).unlimited

    def newer(self, record: WorkloadRecord, stamp: Stamp) -> bool:
        """Whether an observation replaces what is known."""
        return stamp > record.stamp

    def publish(self, record: WorkloadRecord) -> WorkloadRecord:
        """Publish a workload's state now, with a new revision."""
        published = record.model_copy(update={"revision": record.revision + 1})
        self.work.put(published)
        self._published[record.key] = published
        self.say(published.view())
        return published

    def clear(self, key: Key) -> None:
        """Delete a workload's retained state."""
        self.live.cleared[key] = self.now.monotonic
        for about in (self.live.echoed, self.live.untrue, self.live.restated):
            about.pop(key, None)
        self.out.append(Cleared(ResourceState, {"node": key[0], "workload_id": key[1]}))

    def finish(self) -> list[Output]:
        """Publish every state and capacity that changed in this turn."""
        for key, record in list(self.work.workloads.items()):
            if record is None or record.dormant:
                continue
            before = self._published.get(key) or self.work.ledger.workloads.get(key)
            if before is None or before.dormant or before.shown != record.shown:
                self.publish(record)
        for name in sorted(self._touched):
            node = self.work.node(name)
            if node is not None and node.total is not None:
                room = self.room(node)
                if self.live.capacities.get(name) != room:
                    self.live.capacities[name] = room
                    self.say(room)
        return self.out
