"""One seed from beginning to end."""

import contextlib
import itertools
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from components.shell import dispatch, status
from tests.simulation.bus import once
from tests.simulation.faults import Faults
from tests.simulation.planted import plant
from tests.simulation.rest import unrest
from tests.simulation.system import System
from tests.simulation.world import Note, Violation, World

REST_WITHIN_S: Final = 600.0
"""How long after the last fault everything must have come to rest."""
_LOOK_EVERY_S: Final = 5.0
_RESTFUL_LOOKS: Final = 5
"""So many looks in a row without unrest: it will stay so."""


@dataclass(frozen=True)
class Result:
    """What came of a seed."""

    seed: int
    violation: str | None
    history: tuple[Note, ...]
    events: int
    steps: int
    actions: int


def simulate(seed: int, *, planted: str | None = None, listener: Callable[[Note], None] | None = None) -> Result:
    """Run one seed. A bug of the simulation itself raises; a violated invariant is in the result."""
    logging.getLogger("components").setLevel(logging.CRITICAL + 1)
    shared = Path("/dev/shm")  # noqa: S108 - a directory in memory, of which each run makes a private one
    directory = Path(tempfile.mkdtemp(prefix="piriscale-sim-", dir=shared if shared.is_dir() else None))
    world = World(seed, listener=listener)
    violation = None
    system = None
    try:
        with plant(planted), _once_only():
            system = System(world, directory)
            try:
                _run(system)
            except Violation as found:
                violation = str(found)
                world.note("VIOLATION {}", violation)
    finally:
        if system is not None:
            system.close()
        shutil.rmtree(directory, ignore_errors=True)
    steps = system.monitor.checked
    return Result(seed, violation, tuple(world.history), world.events, steps, len(system.requester.asked))


@contextlib.contextmanager
def _once_only() -> Iterator[None]:
    """Let the codec read the same bytes once for all who hear them, and processes not look for their version."""
    codec, release = vars(dispatch), vars(status)
    before = codec["decode"], release["version"]
    codec["decode"], release["version"] = once, lambda: "simulated"
    try:
        yield
    finally:
        codec["decode"], release["version"] = before


def _run(system: System) -> None:
    world = system.world
    faults = Faults(system)
    faults.plan()
    system.start()
    world.run(faults.until)
    faults.heal()
    _come_to_rest(system)


def _come_to_rest(system: System) -> None:
    world = system.world
    deadline = world.now + REST_WITHIN_S
    restful = 0
    for look in itertools.count(1):
        world.run(world.now + _LOOK_EVERY_S)
        wrong = list(unrest(system))
        restful = 0 if wrong else restful + 1
        if restful >= _RESTFUL_LOOKS:
            return
        if world.now >= deadline:
            raise Violation(
                "at rest", f"{REST_WITHIN_S:g} s after the last fault: {'; '.join(wrong)} (look {look})"
            )
