"""Lowers the memory limit of a container whose use moves, again and again; nothing in it may be killed by that.

Begins as an agent does that was started a moment ago: without ever having looked at the container before.

Prints JSON: python -m tests.vm.guest.shrink URL IMAGE ATTEMPTS SEED
"""

import json
import random
import sys
import time
from collections import Counter
from functools import partial
from typing import Any, Final

from schemas.enums import Reason
from tests.vm.guest.bench import Bench, KernelView, resource_limits, run
from tests.vm.guest.cells import wait_until

ROOMY_MIB: Final = 256
TARGETS_MIB: Final = range(16, 160)
MOVER: Final = "mover"
MOVES: Final = """
while true; do
    echo round
    for size in 4 48 16 64 8 32; do
        /bin/busybox dd if=/dev/zero of=/dev/null bs=${size}M count=1 2>/dev/null || echo killed
    done
done
"""
"""Between next to nothing and 64 MiB, several times a second."""


def shrink(bench: Bench, attempts: int, seed: int) -> dict[str, Any]:
    """Try to lower the limit, to anything between too little and roomy; after a success raise it again."""
    chance = random.Random(seed)
    bench.start(MOVER, script=MOVES, **resource_limits(memory=ROOMY_MIB))
    view = bench.kernel(MOVER)
    # A use that never was can be foreseen by nobody.
    wait_until(lambda: bench.cli("logs", MOVER).count("round") > 1, 300)
    outcomes = Counter[str]()
    kills: list[str] = []
    seconds: list[float] = []
    seen = 0
    try:
        for _ in range(attempts):
            target = chance.choice(TARGETS_MIB)
            started = time.monotonic()
            result = bench.update(MOVER, memory_limit=target)
            seconds.append(time.monotonic() - started)
            outcomes["lowered" if result.success else getattr(result.reason, "name", "no reason")] += 1
            if result.success:
                bench.update(MOVER, memory_limit=ROOMY_MIB)
            killed = kills_in(view)
            if killed is None or result.reason is Reason.NOT_RUNNING:
                kills.append(f"{target}Mi ended the whole container: {result.message}")
                bench.start(MOVER, script=MOVES, **resource_limits(memory=ROOMY_MIB))
                view = bench.kernel(MOVER)
                killed = 0
            elif killed > seen:
                kills.append(f"{target}Mi: {result.message}")
            seen = killed
    finally:
        bench.remove(MOVER)
    seconds.sort()
    return {"outcomes": outcomes, "kills": kills, "median_s": seconds[len(seconds) // 2], "longest_s": seconds[-1]}


def kills_in(view: KernelView) -> int | None:
    """Processes killed in a container so far; None: it has ended, as systemd ends a scope after one was killed."""
    try:
        return view.killed()
    except (OSError, StopIteration):
        return None


if __name__ == "__main__":
    url, image, attempts, seed = sys.argv[1:]
    print(json.dumps(shrink(Bench(url, partial(run, "podman"), image), int(attempts), int(seed))))
