"""What a performance event leads to. Pure: facts in, a decision out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from components.settings import PolicySettings
from schemas.enums import Reason, SyncState
from schemas.limits import LARGEST_QUANTITY, Amount, Limits
from schemas.performance import PerfEvent, PerfRecovered
from schemas.resources import ResourceState
from schemas.units import format_cpu, format_memory

_ROUNDING: Final = 1e-6
"""1000 x 1.1 is 1100.0000000000002 in floating point, and must not become 1101."""


@dataclass(frozen=True)
class Facts:
    """All that a decision rests on."""

    event: PerfEvent
    policy: PolicySettings
    state: ResourceState | None
    """What ResourceManager last said of the workload; None: nothing."""
    paused: str | None = None
    """Which pause holds automatic scaling back, in words; None: none."""
    open_action: str | None = None
    """The workload's action that has not ended."""
    cooldown_left_s: float = 0.0


@dataclass(frozen=True)
class NotRequired:
    """Nothing is to be done, and why."""

    reason: Reason | None
    message: str


@dataclass(frozen=True)
class Scale:
    """An action is needed: from these limits to those, if the generation is still this one."""

    current: Limits
    target: Limits
    base_generation: int


Decision = NotRequired | Scale


@dataclass(frozen=True)
class _Use:
    """One resource of a workload beside its limit."""

    field: str
    used: int
    limit: int | None
    overloaded_percent: float

    def __str__(self) -> str:
        write = format_cpu if self.field == "cpu_limit" else format_memory
        name = self.field.removesuffix("_limit")
        if self.limit is None:
            return f"{name} {write(self.used)}, unlimited"
        return f"{name} {write(self.used)} of {write(self.limit)} ({self.percent:.0f} %)"

    @property
    def percent(self) -> float:
        return 100 * self.used / self.limit if self.limit else 0.0

    @property
    def overloaded(self) -> bool:
        return self.percent >= self.overloaded_percent


def decide(facts: Facts) -> Decision:
    """The decision; what stands first in this function wins."""
    event, state = facts.event, facts.state
    if isinstance(event, PerfRecovered):
        return NotRequired(None, "recovered, nothing to do")
    if facts.paused is not None:
        return NotRequired(Reason.PAUSED, f"automatic scaling is paused {facts.paused}")
    if state is None:
        return NotRequired(Reason.NO_DATA, f"nothing is known of {event.workload_id} on {event.node}")
    current = limits_in_force(state, event.limits)
    if event.usage is None or current is None:
        missing, verb = ("use", "is") if event.usage is None else ("limits", "are")
        return NotRequired(
            Reason.NO_DATA, f"the {missing} of {event.workload_id} on {event.node} {verb} not known"
        )
    uses = _uses(event.usage, current, facts.policy)
    if all(use.limit is None for use in uses):
        return NotRequired(Reason.UNLIMITED, f"nothing to raise: {_list(uses)}")
    bottlenecks = [use for use in uses if use.overloaded]
    if not bottlenecks:
        return NotRequired(Reason.NO_BOTTLENECK, f"neither is near its limit: {_list(uses)}")
    if facts.open_action is not None:
        return NotRequired(Reason.COOLDOWN, f"action {facts.open_action} has not ended yet")
    if facts.cooldown_left_s > 0:
        return NotRequired(
            Reason.COOLDOWN, f"{facts.cooldown_left_s:.1f} s of {facts.policy.cooldown_s:g} s are left"
        )
    raised = {use.field: _raised(use, facts.policy) for use in bottlenecks}
    target = {use.field: raised[use.field] for use in bottlenecks if raised[use.field] > (use.limit or 0)}
    if not target:
        return NotRequired(Reason.AT_MAXIMUM, f"{_list(bottlenecks)}; {_list_maximum(facts.policy)}")
    return Scale(current, Limits.model_validate(target), state.generation)


def limits_in_force(state: ResourceState, sampled: Limits | None = None) -> Limits | None:
    """Limits to reckon from: what is desired once it is synchronized, else what is actual, else the sample.

    None: not known.
    """
    actual = state.actual if state.actual is not None else sampled
    if state.desired is not None and state.sync_state is SyncState.SYNCHRONIZED:
        return (actual or Limits()).merged(state.desired)
    return actual


def back(baseline: Limits | None, policy: PolicySettings, state: ResourceState) -> Scale | None:
    """The scaling back to the baseline, as far as the limits are above it; None: it cannot be told."""
    current = limits_in_force(state)
    if current is None or baseline is None:
        return None
    return Scale(current, restored(baseline.merged(policy.baseline.limits), current), state.generation)


def restored(baseline: Limits, current: Limits) -> Limits:
    """What of the current limits is above the baseline, at its baseline value; empty: nothing."""
    lower = {
        field: before
        for field, before in (("cpu_limit", baseline.cpu_limit), ("memory_limit", baseline.memory_limit))
        if before is not None and before < (getattr(current, field) or 0)
    }
    return Limits.model_validate(lower)


def _uses(usage: Amount, current: Limits, policy: PolicySettings) -> list[_Use]:
    return [
        _Use("cpu_limit", usage.cpu, current.cpu_limit, policy.cpu_percent),
        _Use("memory_limit", usage.memory, current.memory_limit, policy.memory_percent),
    ]


def _raised(use: _Use, policy: PolicySettings) -> int:
    """The limit times the factor, within minimum and maximum."""
    wanted = math.ceil((use.limit or 0) * policy.factor - _ROUNDING)
    least = _asked(policy.min.limits).get(use.field, 1)
    most = _asked(policy.max.limits).get(use.field, LARGEST_QUANTITY)
    return min(max(wanted, least), most)


def _asked(limits: Limits) -> Mapping[str, int]:
    return MappingProxyType(limits.asked)


def _list(uses: list[_Use]) -> str:
    return ", ".join(str(use) for use in uses)


def _list_maximum(policy: PolicySettings) -> str:
    return f"the maximum is cpu {format_cpu(policy.max.cpu)}, memory {format_memory(policy.max.memory)}"
