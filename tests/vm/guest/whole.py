"""The whole of piriscale on a real Podman: what a vehicle sees when it asks, and when others interfere.

Prints JSON: python -m tests.vm.guest.whole URL IMAGE PODMAN-COMMAND...
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from components.cli.demo.system import RunningSystem, free_port, toml
from tests.system.foreign import Body, ForeignClient
from tests.vm.guest import quadlet
from tests.vm.guest.bench import HELD_MIB, HOLD, Bench, resource_limits, run
from tests.vm.guest.cells import wait_until

NODE: Final = "vehicle"
APP: Final = "app"
PATIENCE_S: Final = 180.0
METRICS_INTERVAL_S: Final = 5
"""An emulated machine is some ten times slower than a real one."""


class Vehicle:
    """The running system, a client that knows only the documents, and the Podman below."""

    def __init__(self, bench: Bench, client: ForeignClient) -> None:
        self.bench = bench
        self.client = client
        self.answers: list[str] = []
        """What was said at the end of each scaling."""

    def scale(self, workload: str, **target: int) -> str:
        """Ask for a scaling and wait for its end: COMPLETED, or how else it ended and the reason."""
        final = self.client.final(
            self.client.scale(NODE, workload, target=target, cause={"type": "EXTERNAL"}), timeout_s=PATIENCE_S
        )
        self.answers.append(str(final))
        return " ".join(str(final[key]) for key in ("outcome", "reason") if key in final)

    def state(self, workload: str, wanted: Callable[[Body], bool], since: int = 0) -> Body:
        """Wait for a retained state."""
        topic = f"resources/state/{NODE}/{workload}"
        return self.client.await_message(topic, wanted, since=since, timeout_s=PATIENCE_S)

    def await_limits(self, workload: str, cpu: int, memory: int) -> str:
        """Wait until the kernel enforces these limits."""
        wanted = (cpu, memory)
        wait_until(lambda: self.limits(workload) == wanted, PATIENCE_S)
        return "re-applied"

    def limits(self, workload: str) -> tuple[int | None, int | None] | None:
        """What the kernel enforces; None while the container does not run."""
        if not self.bench.runs(workload):
            return None
        try:
            view = self.bench.kernel(workload)
            return view.cpu(), view.memory()
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            return None


def scaled(vehicle: Vehicle) -> str:
    outcome = vehicle.scale(APP, cpu_limit=1000, memory_limit=200)
    return outcome if vehicle.limits(APP) == (1000, 200) else f"{outcome}, but {vehicle.limits(APP)} is in force"


def too_much(vehicle: Vehicle) -> str:
    return vehicle.scale(APP, cpu_limit=1950)


def drifted(vehicle: Vehicle) -> str:
    since = vehicle.client.mark()
    vehicle.bench.cli("update", "--cpus", "0.25", APP)
    vehicle.state(APP, lambda b: b["sync_state"] == "DRIFT_DETECTED", since)
    return vehicle.await_limits(APP, 1000, 200)


def recreated(vehicle: Vehicle) -> str:
    vehicle.bench.start(APP, **resource_limits(cpu=500, memory=128))
    return vehicle.await_limits(APP, 1000, 200)


def below_use(vehicle: Vehicle) -> str:
    vehicle.bench.start("full", script=HOLD, **resource_limits(cpu=100, memory=128))
    try:
        wait_until(lambda: vehicle.bench.kernel("full").memory_used() > HELD_MIB << 20, PATIENCE_S)
        vehicle.state("full", lambda b: b["actual"]["memory_limit"] == 128)
        outcome = vehicle.scale("full", memory_limit=40)
        view = vehicle.bench.kernel("full")
        return outcome if view.memory() == 128 and not view.killed() else f"{outcome}, with harm done"
    finally:
        vehicle.bench.remove("full")


def from_quadlet(vehicle: Vehicle) -> str:
    with quadlet.running(vehicle.bench) as systemctl:
        vehicle.state("quadlet", lambda b: b["actual"]["cpu_limit"] == 500)
        outcome = vehicle.scale("quadlet", cpu_limit=700, memory_limit=160)
        if outcome != "COMPLETED":
            return outcome
        run(*systemctl, "restart", quadlet.SERVICE)
        return vehicle.await_limits("quadlet", 700, 160)


STEPS: Final[dict[str, tuple[Callable[[Vehicle], str], str]]] = {
    "a container is given more": (scaled, "COMPLETED"),
    "more than can ever be given is refused": (too_much, "REJECTED INFEASIBLE"),
    "an update by somebody else is undone": (drifted, "re-applied"),
    "a re-created container gets its limits back": (recreated, "re-applied"),
    "memory in use is not taken away": (below_use, "FAILED BELOW_USAGE"),
    "a quadlet's container keeps its limits over a restart of its service": (from_quadlet, "re-applied"),
}
"""What is done, and what must come of it."""


def drive(bench: Bench, url: str, folder: Path) -> dict[str, Any]:
    """Start piriscale beside Podman, and take every step."""
    port = free_port()
    agent = {
        "node": NODE,
        "podman_url": url,
        "state_dir": str(folder / "agent"),
        "call_timeout_s": 60,
        "metrics_interval_s": METRICS_INTERVAL_S,
    }
    body: dict[str, dict[str, Any]] = {
        "broker": {"port": port, "data_dir": str(folder / "broker")},
        "node_agent": agent,
        "action_controller": {"deadline_ms": 60_000, "retries": 0},
        "resource_manager": {"reserved": {"cpu": "200m", "memory": "256Mi"}},
        "metrics": {"port": free_port()},
    }
    for component in ("policy_manager", "resource_manager", "action_controller"):
        body[component] = {"database": str(folder / f"{component}.sqlite3"), **body.get(component, {})}
    configuration = folder / "piriscale.toml"
    configuration.write_text(toml(body), encoding="utf-8")
    bench.start(APP, **resource_limits(cpu=500, memory=128))
    with RunningSystem(configuration, folder / "piriscale.log") as system, connected(port, system) as client:
        vehicle = Vehicle(bench, client)
        client.await_message(f"resources/capacity/{NODE}", lambda b: b["total"]["cpu"] > 0, timeout_s=PATIENCE_S)
        vehicle.state(APP, lambda b: (b["actual"]["cpu_limit"], b["actual"]["memory_limit"]) == (500, 128))
        steps = {name: take(step, vehicle) for name, (step, _) in STEPS.items()}
        return {"steps": steps, "log": "\n".join([*vehicle.answers, system.log_tail(60)])}


def take(step: Callable[[Vehicle], str], vehicle: Vehicle) -> str:
    """What came of a step; whatever goes wrong is its result."""
    started = time.monotonic()
    try:
        result = step(vehicle)
    except Exception as error:  # noqa: BLE001 - the next step is tried all the same
        result = f"{type(error).__name__}: {error}"
    print(f"{step.__name__}: {result} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)
    return result


@contextmanager
def connected(port: int, system: RunningSystem) -> Iterator[ForeignClient]:
    """A client of the broker that piriscale starts."""
    end = time.monotonic() + PATIENCE_S
    with ExitStack() as stack:
        while True:
            try:
                client = stack.enter_context(ForeignClient(port))
                break
            except OSError as error:
                if system.ended or time.monotonic() > end:
                    raise RuntimeError(f"piriscale did not start:\n{system.log_tail(40)}") from error
                time.sleep(0.2)
        yield client


if __name__ == "__main__":
    url, image, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="vehicle-") as name:
        print(json.dumps(drive(Bench(url, partial(run, *command), image), url, Path(name))))
