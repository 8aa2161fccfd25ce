"""What the bus says of the whole system: nodes, workloads, actions, components, pauses, and what happened last."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from components.overview.actions import Actions
from components.overview.episodes import Episodes
from components.overview.events import Event, event_of
from components.overview.measures import Measures
from components.overview.names import NODES_MAX, WORKLOADS_MAX, Key
from components.overview.newest import Recent
from components.pauses import Pause, TooManyPausesError, after, pause_of
from components.presence import away, supersedes
from schemas.codec import Cleared, Decoded
from schemas.message import Message
from schemas.metrics import AppMetrics, ContainerMetrics, NodeMetrics
from schemas.node import NodeInfo, NodeSnapshot
from schemas.operations import ComponentStatus, DeadLetter
from schemas.performance import PerfDegraded, PerfOutcome, PerfRecovered
from schemas.resources import NodeCapacity, ResourceState
from schemas.scaling import ScalingAction, ScalingControl, ScalingStatus
from schemas.topics import Role, address_of, lookup

RETAINED: Final[tuple[type[Message], ...]] = (
    NodeCapacity,
    NodeInfo,
    NodeSnapshot,
    ResourceState,
    ComponentStatus,
    ScalingControl,
)
"""What a newcomer is told at once; enough for a picture of this moment."""

PASSING: Final[tuple[type[Message], ...]] = (
    ScalingAction,
    ScalingStatus,
    PerfDegraded,
    PerfRecovered,
    PerfOutcome,
    DeadLetter,
    ContainerMetrics,
    NodeMetrics,
    AppMetrics,
)
"""What is said once, and makes the picture a live one."""

HEARD: Final = RETAINED + PASSING

COMPONENTS_MAX: Final = 2_000
EVENTS_MAX: Final = 500
_SAID_MAX: Final = 5_000
"""Ids of what was told as an event: messages are repeated, and told once."""

DEAD_LETTERS_MAX: Final = 100
SETTLE_MS: Final = 3_000
"""Within which the broker tells all that is retained, after a connection."""

SWEEP_MS: Final = 5_000
"""How often what fell silent is looked for."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass
class DeadLetters:
    """What a component could not use, since we listen."""

    count: int
    last: DeadLetter
    at_ms: int


class Overview:
    """The system as the messages heard so far show it. Bounded: what is beyond is left out and counted.

    All times are UTC epoch milliseconds of the listener's own clock, given with each message.
    """

    def __init__(self, repeat_s: float = 0.0) -> None:
        """`repeat_s`: how often MonitoringServer says a degradation anew, by the viewer's configuration."""
        self.nodes: dict[str, NodeCapacity] = {}
        self.infos: dict[str, NodeInfo] = {}
        self.workloads: dict[Key, ResourceState] = {}
        self.measures = Measures()
        self.components: dict[tuple[str, str], ComponentStatus] = {}
        self.actions = Actions()
        self.control: ScalingControl | None = None
        """The last word on pauses, the one that is retained."""
        self.pauses: tuple[Pause, ...] = ()
        """The pauses that follow from all words heard, later words last; see `pauses_known`."""
        self.pauses_known = True
        """False when earlier words, not retained any more, may have paused what `pauses` does not show."""
        self.dead_letters: dict[str, DeadLetters] = {}
        self.events: deque[Event] = deque(maxlen=EVENTS_MAX)
        """What happened, the latest last."""
        self.left_out = 0
        """Things that there was no room for, counted at each message about them."""
        self._episodes = Episodes(repeat_s)
        self._swept_ms = 0
        self._said: Recent[tuple[str, str]] = Recent(_SAID_MAX)
        self._words_missed = True
        """Whether there may have been words on pauses that we did not hear."""
        self._untold: set[str] = set()
        """Retained topics that were known before a lost connection, and not told since."""
        self._settles_ms = 0

    def hear(self, message: Decoded, now_ms: int = 0, *, retained: bool = False) -> Event | None:
        """Take one message in; what does not belong here is ignored. Returns what happened, if it is worth a line.

        `retained` is what the broker kept: it tells how things are, not that something happened now.
        """
        if self._untold:
            self._settle(message, now_ms)
        if not 0 <= now_ms - self._swept_ms < SWEEP_MS:
            self._sweep(now_ms)
        event = self._news(message, now_ms, retained=retained)
        self._take(message, now_ms, repeated=event is None)
        if event is not None:
            self.events.append(event)
        return event

    def reconnected(self, now_ms: int) -> None:
        """The connection was lost and is back: what was said meanwhile was missed.

        What is retained comes anew; what does not come within 3 s was deleted meanwhile, and is forgotten then.
        """
        self.actions.doubt(now_ms)
        self._episodes.doubt(now_ms)
        self._words_missed = True
        self._settles_ms = now_ms + SETTLE_MS
        kept = (self.nodes, self.infos, self.workloads, self.components)
        self._untold = {address_of(message) for messages in kept for message in messages.values()}

    @property
    def degraded(self) -> Mapping[Key, PerfDegraded]:
        """Workloads that perform badly now, with the last event that said so."""
        return self._episodes.lasting

    def pauses_are(self, pauses: tuple[Pause, ...]) -> None:
        """All pauses in force, from who knows them: PolicyManager's journal."""
        self.pauses = pauses if self.control is None else after(pauses, self.control)
        self.pauses_known = True

    def pause_of(self, key: Key) -> Pause | None:
        """The pause that holds back automatic scaling of a workload, as far as it is known."""
        return pause_of(self.pauses, *key)

    def document(self) -> dict[str, list[dict[str, object]]]:
        """The picture as JSON for scripts: nodes, workloads, actions, components."""
        parts: dict[str, Iterable[Message]] = {
            "nodes": self.nodes.values(),
            "workloads": self.workloads.values(),
            "actions": self.actions.statuses(),
            "components": self.components.values(),
        }
        return {
            name: [message.model_dump(mode="json", exclude_none=True) for message in messages]
            for name, messages in parts.items()
        }

    def _take(self, message: Decoded, now_ms: int, *, repeated: bool) -> None:
        match message:
            case NodeCapacity() | NodeInfo() | ResourceState():
                self._take_state(message)
            case NodeMetrics() | NodeSnapshot() | ContainerMetrics() | AppMetrics():
                self.left_out += not self.measures.hear(message, now_ms)
            case PerfDegraded() | PerfRecovered():
                self.left_out += not self._episodes.hear(message, now_ms, repeated=repeated)
            case ComponentStatus():
                self._take_component(message, now_ms)
            case ScalingAction():
                self.actions.asked(message, now_ms)
            case ScalingStatus():
                self.actions.hear(message, now_ms)
            case ScalingControl():
                self._take_control(message)
            case DeadLetter():
                self._take_dead_letter(message, now_ms)
            case Cleared():
                self._forget(message)

    def _take_state(self, message: NodeCapacity | NodeInfo | ResourceState) -> None:
        match message:
            case NodeCapacity():
                self._put(self.nodes, message.node, message, NODES_MAX)
            case NodeInfo():
                self._put(self.infos, message.node, message, NODES_MAX)
            case ResourceState():
                self._put(self.workloads, (message.node, message.workload_id), message, WORKLOADS_MAX)

    def _take_component(self, status: ComponentStatus, now_ms: int) -> None:
        key = (status.component, status.instance)
        known = self.components.get(key)
        if not supersedes(known, status):
            return
        self._put(self.components, key, status, COMPONENTS_MAX)
        if status.component == Role.NODE_AGENT and away(status):
            self._episodes.end_on(status.instance)
        elif status.component == Role.MONITORING_SERVER and (known is None or known.boot_id != status.boot_id):
            self._episodes.doubt(now_ms)  # it begins with nothing known; other instances say theirs again

    def _take_control(self, control: ScalingControl) -> None:
        missed, self._words_missed = self._words_missed and control != self.control, False
        if control.node is None and control.workload is None:
            self.pauses_known = True
        elif missed:
            self.pauses_known = False  # the broker keeps one word, and those before it were about other parts
        self.control = control
        try:
            self.pauses = after(self.pauses, control)
        except TooManyPausesError:
            self.pauses_known = False

    def _take_dead_letter(self, letter: DeadLetter, now_ms: int) -> None:
        known = self.dead_letters.get(letter.component)
        count = 1 if known is None else known.count + 1
        self._put(self.dead_letters, letter.component, DeadLetters(count, letter, now_ms), DEAD_LETTERS_MAX)

    def _forget(self, cleared: Cleared) -> None:
        values = cleared.values
        if cleared.message is ResourceState:
            key = (values["node"], values["workload_id"])
            self.workloads.pop(key, None)
            self.measures.forget(key)
            self._episodes.end(key)
        elif cleared.message is NodeCapacity:
            self.nodes.pop(values["node"], None)
        elif cleared.message is NodeInfo:
            self.infos.pop(values["node"], None)
            self.measures.forget_node(values["node"])
            self._episodes.end_on(values["node"])
        elif cleared.message is ComponentStatus:
            self.components.pop((values["component"], values["instance"]), None)
            if values["component"] == Role.NODE_AGENT:
                self._episodes.end_on(values["instance"])
        elif cleared.message is ScalingControl:
            self._take_control(ScalingControl(paused=False))

    def _settle(self, message: Decoded, now_ms: int) -> None:
        """Forget what was not told again after a lost connection."""
        if isinstance(message, NodeCapacity | NodeInfo | ResourceState | ComponentStatus):
            self._untold.discard(address_of(message))
        if now_ms < self._settles_ms:
            return
        for address in self._untold:
            found = lookup(address)
            if found is not None:
                self._forget(Cleared(found[0].message, found[1]))
        self._untold = set()

    def _sweep(self, now_ms: int) -> None:
        """Forget measures that fell silent, and degradations that ended unheard."""
        self._swept_ms = now_ms
        self.measures.forget_silent(now_ms)
        self._episodes.forget_silent(now_ms, self.measures.uses.keys() | self.measures.apps.keys())

    def _put(self, kept: dict[K, V], key: K, value: V, most: int) -> None:
        if key in kept or len(kept) < most:
            kept[key] = value
        else:
            self.left_out += 1

    def _news(self, message: Decoded, now_ms: int, *, retained: bool) -> Event | None:
        event = event_of(message, now_ms)
        if event is None or self._is_known(message, retained=retained) or self._was_told(message):
            return None
        return event

    def _is_known(self, message: Decoded, *, retained: bool) -> bool:
        """Whether the picture shows already what a retained topic says; at first sight that is not news."""
        match message:
            case ResourceState():
                state = self.workloads.get((message.node, message.workload_id))
                return retained if state is None else state.sync_state is message.sync_state
            case ComponentStatus():
                status = self.components.get((message.component, message.instance))
                if not supersedes(status, message):
                    return True
                same = status is not None and (status.state, status.boot_id) == (message.state, message.boot_id)
                return retained if status is None else same
            case ScalingControl():
                return retained
            case _:
                return False

    def _was_told(self, message: Decoded) -> bool:
        """Whether this is a repeat. What has no id is never one."""
        match message:
            case PerfDegraded() | PerfRecovered() | PerfOutcome():
                mark = (type(message).__name__, message.event_id)
            case ScalingAction() | ScalingStatus():
                mark = (type(message).__name__, message.action_id)
            case _:
                return False
        return not self._said.add(mark)
