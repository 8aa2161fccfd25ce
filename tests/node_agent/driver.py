"""A NodeAgent on a simulated runtime, with a clock of its own: calls run, and time passes, when a test says so."""

from collections.abc import Callable
from typing import Any, TypeVar

from components.component import Call, CallFailed, Instant, Output
from components.node_agent.agent import NodeAgent
from components.node_agent.node_metrics import SimulatedSampler
from components.node_agent.simulated import SimulatedRuntime
from components.node_agent.store import IntentStore, MemoryStore
from components.node_agent.work import SnapshotWork, UpdateWork
from components.settings import Settings
from schemas.limits import Limits
from schemas.message import Message
from schemas.node import NodeSnapshot, StatusReply, StatusRequest, UpdateReply, UpdateRequest

NODE = "hpc-1"
TICK_S = 0.05
TIMEOUT_S = 10.0
EPOCH_S = 1_700_000_000

M = TypeVar("M", bound=Message)


class Driver:
    """Drives one agent. `said` is all it published, in order."""

    def __init__(
        self,
        runtime: SimulatedRuntime | None = None,
        *,
        store: IntentStore | None = None,
        clock: "Clock | None" = None,
        boot_id: int = 7,
        **settings: Any,
    ) -> None:
        self.clock = clock or Clock()
        self.runtime = runtime or SimulatedRuntime(
            timeout_s=TIMEOUT_S, sleep=self.clock.sleep, clock=self.clock, epoch_ms=self.clock.epoch_ms
        )
        self.store = store or MemoryStore()
        self.said: list[Message] = []
        self.waiting: list[Call] = []
        self.agent = NodeAgent(
            Settings.model_validate({"node_agent": {"node": NODE, **settings}}),
            self.runtime,
            self.store,
            boot_id,
            sampler=SimulatedSampler(self.runtime.world.total, self.runtime.world.usage),
            watcher=None,
            clock=self.clock,
            outlive=self._outlive,
        )
        self.outlived: list[int] = []
        """Boots that the next one has to be above."""
        self.store_is_broken = False
        self._ids = 0

    def _outlive(self, boot_id: int) -> bool:
        self.outlived.append(boot_id)
        return not self.store_is_broken

    def start(self) -> "Driver":
        """Start, and let the first looks come back."""
        self._take(self.agent.start(self.now))
        self.run()
        return self

    @property
    def now(self) -> Instant:
        return Instant(self.clock.seconds, self.clock.epoch_ms())

    def give(self, item: object) -> list[Message]:
        """Hand something in; what is said at once."""
        return self._take(self.agent.handle(item, self.now))

    def _take(self, outputs: list[Output]) -> list[Message]:
        said = [output for output in outputs if isinstance(output, Message)]
        self.waiting += [output for output in outputs if isinstance(output, Call)]
        self.said += said
        return said

    def run(self, which: Callable[[Call], bool] = lambda _: True) -> list[Message]:
        """Run waiting calls, and those that follow from them; what is said."""
        said: list[Message] = []
        while (call := next(filter(which, self.waiting), None)) is not None:
            self.waiting.remove(call)
            said += self.give(self.result_of(call))
        return said

    @staticmethod
    def result_of(call: Call) -> object:
        try:
            return call.run()
        except Exception as error:  # noqa: BLE001 - as the shell does
            return CallFailed(call, error)

    def run_updates(self) -> list[Message]:
        """Run waiting updates only."""
        return self.run(lambda call: isinstance(call.run, UpdateWork))

    def updates_waiting(self) -> list[Call]:
        """Updates that were handed out and do not run yet."""
        return [call for call in self.waiting if isinstance(call.run, UpdateWork)]

    def snapshots_waiting(self) -> list[SnapshotWork]:
        """Snapshots that were handed out and are not read yet."""
        return [call.run for call in self.waiting if isinstance(call.run, SnapshotWork)]

    def advance(self, seconds: float, *, run: bool = False) -> list[Message]:
        """Let time pass, tick by tick; what is said."""
        said: list[Message] = []
        end = self.clock.seconds + seconds
        while self.clock.seconds < end:
            self.clock.seconds = min(end, self.clock.seconds + TICK_S)
            said += self._take(self.agent.tick(self.now))
            if run:
                said += self.run()
        return said

    def request(self, workload: str = "app", *, request_id: str | None = None, **fields: Any) -> UpdateRequest:
        """An update request; by hand, unless `generation` and the like are given."""
        self._ids += 1
        body = {"id": request_id or f"r{self._ids}", "node": NODE, "workload_id": workload, **fields}
        return UpdateRequest.model_validate(body)

    def command(self, generation: int, workload: str = "app", **fields: Any) -> UpdateRequest:
        """An update request as ActionController sends it."""
        body = {"action_id": f"a{generation}", "boot_id": self.agent.boot_id, "cpu_limit": 1000, **fields}
        return self.request(workload, generation=generation, **body)

    def update(self, request: UpdateRequest) -> UpdateReply:
        """Send a request, let it be carried out, and give back its answer."""
        said = [*self.give(request), *self.run_updates()]
        replies = [reply for reply in of_type(said, UpdateReply) if reply.in_reply_to == request.id]
        assert len(replies) == 1, said
        return replies[0]

    def status(self, workload: str | None = None) -> StatusReply:
        """Ask what is in force."""
        self._ids += 1
        request = StatusRequest(id=f"s{self._ids}", node=NODE, workload_id=workload)
        return of_type([*self.give(request), *self.run()], StatusReply)[-1]

    @property
    def snapshot(self) -> NodeSnapshot:
        """The last snapshot."""
        return of_type(self.said, NodeSnapshot)[-1]

    def limits(self, workload: str = "app") -> Limits:
        """What the simulated kernel enforces."""
        return self.runtime.world.limits_of(workload)


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def epoch_ms(self) -> int:
        return int((EPOCH_S + self.seconds) * 1000)


def of_type(messages: list[Message], kind: type[M]) -> list[M]:
    """Those messages that are of a kind."""
    return [message for message in messages if isinstance(message, kind)]
