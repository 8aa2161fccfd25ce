"""What the demo found, and whether that is a success."""

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from components.cli.demo.recorder import Recorder
from schemas.enums import ActionOutcome, SyncState
from schemas.limits import Limits, mismatches
from schemas.performance import PerfDegraded
from schemas.resources import ResourceState
from schemas.scaling import ScalingStatus


@dataclass(frozen=True)
class Side:
    """One side of the comparison."""

    cpu_limit: int | None
    """Millicores, read from the kernel."""
    memory_limit: int | None
    """MiB, read from the kernel."""
    latency_ms_p50: float


@dataclass(frozen=True)
class Result:
    """The last line of `piriscale demo --json`."""

    runtime: str
    simulated: bool
    before: Side
    after: Side
    sync_state: SyncState | None
    event_to_verified_ms: float | None
    action_id: str | None
    threshold_ms: float
    problems: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def side(limits: Limits, latencies: list[float]) -> Side:
    """One side of the comparison; a latency of 0 when nothing was measured."""
    p50 = round(median(latencies), 1) if latencies else 0.0
    return Side(limits.cpu_limit, limits.memory_limit, p50)


def first_scaling(recorder: Recorder) -> tuple[str | None, float | None]:
    """Id of the first action that completed, and the time from its event to the verified end, ms."""
    events = {event.event_id: at for at, event in reversed(recorder.all(PerfDegraded))}
    for at, status in recorder.all(ScalingStatus):
        if status.outcome is ActionOutcome.COMPLETED and status.cause.event_id in events:
            return status.action_id, round((at - events[status.cause.event_id]) * 1000, 1)
    return None, None


def problems(before: Side, after: Side, state: ResourceState | None, threshold_ms: float) -> tuple[str, ...]:
    """What is missing for a success; empty: nothing."""
    found = []
    if not before.cpu_limit or not after.cpu_limit or after.cpu_limit <= before.cpu_limit:
        found.append(f"the kernel's CPU limit did not rise: {before.cpu_limit}m before, {after.cpu_limit}m after")
    if state is None or state.desired is None or state.actual is None:
        found.append("ResourceManager does not know both the desired and the actual state")
    elif state.sync_state is not SyncState.SYNCHRONIZED or mismatches(state.desired, state.actual):
        found.append(f"desired and actual do not agree: {state.sync_state}")
    elif mismatches(state.desired, Limits(cpu_limit=after.cpu_limit, memory_limit=after.memory_limit)):
        found.append("what the kernel enforces is not what is desired")
    if not 0 < after.latency_ms_p50 < threshold_ms:
        found.append(
            f"the latency is {after.latency_ms_p50:.0f} ms, not under the {threshold_ms:.0f} ms threshold"
        )
    return tuple(found)
