"""The cells of the table of operations, and how one is filled: by trying, and looking at the kernel.

"works" is said only when the kernel, read independently of our own reader, shows what was asked; a refusal only
when it shows what was there before.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from components.node_agent.verdict import UpdateResult
from schemas.limits import Limits, mismatches, parse_cpuset
from tests.vm.guest.bench import Bench, KernelView

WORKS: Final = "works"
STEADY: Final = "steady"
"""The container that most operations use: it runs, has limits, and uses next to nothing."""


@dataclass(frozen=True)
class Cell:
    """What came of an operation."""

    result: str
    """"works", a Reason, or a short observation."""
    detail: str = ""
    """The agent's own words, or what was seen."""


class WrongError(Exception):
    """The agent's answer and the kernel disagree."""


Operation = Callable[[Bench], Cell]


def snapshot(view: KernelView) -> dict[str, Any]:
    """All that an update can change."""
    return {
        "cpu_limit": view.cpu(),
        "memory_limit": view.memory(),
        "cpu_shares": view.weight(),
        "cpuset_cpus": parse_cpuset(view.cpuset()),
    }


def tried(bench: Bench, name: str, **target: Any) -> Cell:
    """Ask for an update of a running container, and hold the agent's answer against the kernel."""
    before = snapshot(bench.kernel(name))
    result = bench.update(name, **target)
    after = snapshot(bench.kernel(name))
    if not result.success:
        if after != before and not result.partial:
            raise WrongError(f"{result.reason}: {result.message}; but the kernel went from {before} to {after}")
        return refused(result)
    for key, wanted in target.items():
        if key == "cpu_shares":
            taken = after[key] == wanted if bench.kernel(name).version == 1 else after[key] != before[key]
        elif key == "cpuset_cpus":
            taken = after[key] == parse_cpuset(wanted)
        else:
            taken = abs(after[key] - wanted) <= (10 if key == "cpu_limit" else 1)
        if not taken:
            raise WrongError(f"{result.message}; but {key} went from {before[key]} to {after[key]}")
    return Cell(WORKS, result.message)


def refused(result: UpdateResult) -> Cell:
    """The cell of an update that was not made."""
    return Cell("no reason" if result.reason is None else result.reason.name, result.message)


def both(*cells: Cell) -> Cell:
    """The first that did not work, else the last."""
    return next((cell for cell in cells if cell.result != WORKS), cells[-1])


def kept_or_lost(bench: Bench, name: str, cpu: int, memory: int) -> Cell:
    """Whether limits still hold, or would be taken for drift; where they were lost, they must be set again."""
    view = bench.kernel(name)
    shown = bench.runtime.read(bench.runtime.resolve(name)).limits
    if (shown.cpu_limit, shown.memory_limit) != (view.cpu(), view.memory()):
        raise WrongError(f"the agent reads {shown}, the kernel shows {snapshot(view)}")
    if not mismatches(Limits(cpu_limit=cpu, memory_limit=memory), shown):
        return Cell("kept", f"{view.cpu()}m, {view.memory()}Mi")
    again = tried(bench, name, cpu_limit=cpu, memory_limit=memory)
    if again.result != WORKS:
        raise WrongError(f"lost, and cannot be set again: {again}")
    return Cell("lost, re-applied", f"{view.cpu()}m, {view.memory()}Mi")


def wait_until(done: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Poll. Raises TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come to that")
        time.sleep(0.1)
