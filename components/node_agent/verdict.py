"""How an update is judged: by what the kernel enforces afterwards, whatever the runtime said."""

from dataclasses import dataclass, replace

from components.node_agent.runtime import Container, ContainerRuntimeError
from schemas.enums import Reason
from schemas.limits import Limits, mismatches
from schemas.units import format_cpu, format_memory


@dataclass(frozen=True)
class UpdateOrder:
    """What is to be done to one container."""

    workload: str
    """Exact name or full id."""
    target: Limits
    deadline: float
    """Never begin to write after this, by the clock's seconds."""
    runtime_id: str | None = None
    """The full id it is meant for; None: whichever has the name."""


@dataclass(frozen=True)
class UpdateResult:
    """What became of it."""

    success: bool = False
    partial: bool = False
    """Some of what was to change did, not all."""
    reason: Reason | None = None
    message: str = ""
    container: Container | None = None
    """None: not found."""
    actual: Limits | None = None
    """What is in force; None: not known."""
    seq: int = 0
    """The stamp of the kernel read that `actual` comes from; 0: none."""
    wrote: bool = False
    """Whether the runtime was called."""
    broken: bool = False
    """Whether a call may still be at work in the runtime: the container stays busy."""


def judge(
    target: Limits, changes: Limits, error: ContainerRuntimeError | None, done: UpdateResult, actual: Limits
) -> UpdateResult:
    """The verdict on an update that asked for `target`, of which `changes` were not in force before."""
    done = replace(done, actual=actual)
    name = "" if done.container is None else done.container.name
    wrong = mismatches(target, actual)
    if not wrong:
        text = f"{name} has {describe(actual.only(set(target.asked)))}"
        return replace(done, success=True, message=text if error is None else f"{text}, although: {error}")
    difference = "; ".join(
        f"{key} {_value(key, getattr(target, key))} was asked, {_value(key, getattr(actual, key))} is in force"
        for key in wrong
    )
    cause = "" if error is None else f". {error}"
    if not set(changes.asked) <= set(wrong):
        return replace(done, partial=True, reason=Reason.PARTIAL, message=f"only a part took: {difference}{cause}")
    if error is not None:
        return replace(done, reason=error.reason, message=f"{difference}{cause}")
    text = f"the runtime says it is done, but the kernel shows that {difference}; look at the container's cgroup"
    return replace(done, reason=Reason.VERIFY_FAILED, message=text)


def describe(limits: Limits) -> str:
    """Limits for people: "cpu_limit 2000m, memory_limit 512Mi"."""
    return ", ".join(f"{name} {_value(name, value)}" for name, value in limits.asked.items()) or "no limits"


def _value(name: str, value: int | str | None) -> str:
    if isinstance(value, str):
        return value
    if name == "memory_limit":
        return format_memory(value)
    return format_cpu(value) if name == "cpu_limit" else str(value)
