"""The blocking work of an agent, and what each brings back. A class each, so that a failed one can be told."""

from dataclasses import dataclass

from components.node_agent.node_metrics import NodeSample, NodeSampler
from components.node_agent.observe import Observation, Observer, Unseen
from components.node_agent.runtime import ContainerRuntime, ContainerRuntimeError, RuntimeInfo
from components.node_agent.update import UpdateProcedure
from components.node_agent.verdict import UpdateResult
from components.node_agent.writes import Write
from schemas.enums import SnapshotTrigger
from schemas.node import StatusRequest


@dataclass(frozen=True)
class UpdateDone:
    """What became of a write."""

    write: Write
    result: UpdateResult

    @property
    def action_id(self) -> str | None:
        """For the log."""
        return self.write.request.action_id


@dataclass(frozen=True)
class UpdateWork:
    """Carry out a write."""

    write: Write
    procedure: UpdateProcedure

    def __call__(self) -> UpdateDone:
        """Blocks until the runtime answered or timed out."""
        return UpdateDone(self.write, self.procedure.run(self.write.order))


@dataclass(frozen=True)
class SnapshotRead:
    """What a snapshot is to be made of."""

    work: "SnapshotWork"
    seen: Observation | Unseen


@dataclass(frozen=True)
class SnapshotWork:
    """Look at all containers for a snapshot."""

    trigger: SnapshotTrigger
    fresh: bool
    asked_at: float
    observer: Observer

    def __call__(self) -> SnapshotRead:
        """Blocks until all are read."""
        return SnapshotRead(self, self.observer.all(fresh=self.fresh))


@dataclass(frozen=True)
class StatusRead:
    """What a status reply is to be made of."""

    request: StatusRequest
    asked_at: float
    seen: Observation | Unseen


@dataclass(frozen=True)
class StatusWork:
    """Look at the containers that a request asks for."""

    request: StatusRequest
    asked_at: float
    observer: Observer

    def __call__(self) -> StatusRead:
        """Blocks until they are read."""
        workload = self.request.workload_id
        seen = self.observer.all(fresh=True) if workload is None else self.observer.one(workload)
        return StatusRead(self.request, self.asked_at, seen)


@dataclass(frozen=True)
class MetricsRead:
    """What metrics are to be made of."""

    node: NodeSample
    seen: Observation | Unseen


@dataclass(frozen=True)
class MetricsWork:
    """Look at the node, and at all containers."""

    sampler: NodeSampler
    observer: Observer

    def __call__(self) -> MetricsRead:
        """Blocks until all are read."""
        return MetricsRead(self.sampler.sample(), self.observer.all(fresh=False))


@dataclass(frozen=True)
class InfoRead:
    """What the runtime is; or, as text, why it cannot be told."""

    info: RuntimeInfo | str


@dataclass(frozen=True)
class InfoWork:
    """Ask what the runtime is and can do."""

    runtime: ContainerRuntime

    def __call__(self) -> InfoRead:
        """Blocks until it answered."""
        try:
            return InfoRead(self.runtime.info())
        except ContainerRuntimeError as error:
            return InfoRead(str(error))
