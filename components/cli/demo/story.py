"""The story: a service with too little CPU is slow; its limit is raised while it runs; it becomes fast."""

import contextlib
import json
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final, NoReturn

from broker.mosquitto import BrokerError, find_mosquitto
from broker.plain import PlainClient
from components.cli.demo.probe import Probe
from components.cli.demo.recorder import Recorder
from components.cli.demo.result import Result, first_scaling, problems, side
from components.cli.demo.screen import Screen
from components.cli.demo.stages import NODE, PodmanStage, SimulatedStage, Stage, StageError
from components.cli.demo.system import RunningSystem, free_port, toml
from components.cli.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK
from schemas.enums import SyncState
from schemas.metrics import ContainerMetrics
from schemas.performance import PerfDegraded
from schemas.resources import NodeCapacity, ResourceState
from schemas.topics import Role

THRESHOLD_MS: Final = 180.0
"""With 50 ms of work, 200m CPU take about 250 ms and 400m about 120 ms."""
READY_WITHIN_S: Final = 30.0
SLOW_FOR_S: Final = 20.0
FAST_WITHIN_S: Final = 90.0
LOOK_BACK_S: Final = 2.0
SAMPLES_MIN: Final = 5
TEMPORARY_PATH_MAX: Final = 20
"""Podman refuses a runroot of more than 50 characters; below a longer folder than this it would be one."""

_COMPONENTS: Final = {
    Role.MONITORING_SERVER,
    Role.POLICY_MANAGER,
    Role.ACTION_CONTROLLER,
    Role.RESOURCE_MANAGER,
    Role.NODE_AGENT,
}


def run_demo(*, json_output: bool, simulated: bool) -> int:
    """Run the demo and return its exit code.

    0 only if the kernel's limit really rose, desired equals actual, and the latency came under the threshold.
    Raises BrokenPipeError when nobody reads what it shows; then, too, all is stopped and removed.
    """
    screen = Screen(to_stderr=json_output)
    try:
        with _interruptible(), contextlib.ExitStack() as cleanup:
            result = _play(screen, cleanup, simulated=simulated)
    except StageError as error:
        screen.trouble(str(error))
        return EXIT_FAILURE
    except KeyboardInterrupt:
        screen.trouble("interrupted; everything the demo started was stopped and removed")
        return EXIT_INTERRUPTED
    for problem in result.problems:
        screen.trouble(problem)
    if json_output:
        print(json.dumps(result.document()), flush=True)
    return EXIT_FAILURE if result.problems else EXIT_OK


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that all is cleaned up."""

    def interrupt(_number: int, _frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _play(screen: Screen, cleanup: contextlib.ExitStack, *, simulated: bool) -> Result:
    try:
        find_mosquitto()
    except BrokerError as error:
        raise StageError("mosquitto is missing; install it: apt-get install mosquitto") from error
    short = tempfile.gettempdir() if len(tempfile.gettempdir()) <= TEMPORARY_PATH_MAX else "/tmp"  # noqa: S108
    folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="piriscale-", dir=short)))
    recorder = Recorder(screen.event)
    stage: Stage = SimulatedStage(recorder) if simulated else PodmanStage(folder)
    screen.step(f"starting the application ({stage.describe()})")
    cleanup.enter_context(stage)
    port = free_port()
    configuration = folder / "piriscale.toml"
    configuration.write_text(_configuration(stage, folder, port), encoding="utf-8")
    screen.step("starting piriscale: a broker of its own and the five components")
    system = cleanup.enter_context(RunningSystem(configuration, folder / "piriscale.log"))
    client = cleanup.enter_context(_connected(port, recorder, system))
    if not recorder.wait(
        lambda: recorder.ready() >= _COMPONENTS and _sees(recorder, stage.workload), READY_WITHIN_S
    ):
        missing = ", ".join(sorted(_COMPONENTS - recorder.ready())) or "metrics of the container"
        raise StageError(f"not ready after {READY_WITHIN_S:.0f} s: {missing}\n{system.log_tail()}")
    before = stage.limits()
    screen.step(
        f"an ECU measures the application's latency and publishes it; the threshold is {THRESHOLD_MS:.0f} ms"
    )
    probe = Probe(stage.measure(), f"metrics/{NODE}/app/{stage.workload}", client.publish)
    cleanup.callback(probe.stop)
    began = time.monotonic()
    probe.start()
    return _watch(screen, stage, recorder, probe, began, before_limits=before)


@contextlib.contextmanager
def _connected(port: int, recorder: Recorder, system: RunningSystem) -> Iterator[PlainClient]:
    """Connect as soon as the broker that piriscale started answers."""
    end = time.monotonic() + READY_WITHIN_S
    while True:
        client = PlainClient("127.0.0.1", port, "demo-ecu", recorder.hear, ("#",))
        try:
            client.__enter__()
            break
        except OSError:
            if system.ended or time.monotonic() > end:
                raise StageError(f"piriscale did not start:\n{system.log_tail()}") from None
            time.sleep(0.1)
    try:
        yield client
    finally:
        client.__exit__(None, None, None)


def _sees(recorder: Recorder, workload: str) -> bool:
    """Whether use and limits of the workload are known, to the agent and to ResourceManager."""
    metrics = recorder.latest(ContainerMetrics)
    sampled = metrics is not None and any(c.workload_id == workload for c in metrics.containers)
    sized = recorder.latest(NodeCapacity) is not None
    return sampled and sized and _state(recorder, workload) is not None


def _watch(
    screen: Screen, stage: Stage, recorder: Recorder, probe: Probe, began: float, *, before_limits: Any
) -> Result:
    """Wait until it is slow, then until it is fast; then compare."""
    recorder.wait(lambda: bool(recorder.all(PerfDegraded)), SLOW_FOR_S)
    degraded = recorder.all(PerfDegraded)
    slow_until = degraded[0][0] if degraded else time.monotonic()
    before = side(before_limits, probe.latencies(began, slow_until))
    recorder.wait(lambda: _settled(recorder, probe, stage.workload), FAST_WITHIN_S)
    since = max(time.monotonic() - LOOK_BACK_S, began)
    after = side(stage.limits(), probe.latencies(since))
    state = _state(recorder, stage.workload)
    action_id, verified_ms = first_scaling(recorder)
    result = Result(
        runtime=stage.runtime,
        simulated=stage.simulated,
        before=before,
        after=after,
        sync_state=state.sync_state if state else None,
        event_to_verified_ms=verified_ms,
        action_id=action_id,
        threshold_ms=THRESHOLD_MS,
        problems=problems(before, after, state, THRESHOLD_MS),
    )
    screen.ending(result, probe.latencies(began), THRESHOLD_MS)
    return result


def _state(recorder: Recorder, workload: str) -> ResourceState | None:
    states = [state for _, state in recorder.all(ResourceState) if state.workload_id == workload]
    return states[-1] if states else None


def _settled(recorder: Recorder, probe: Probe, workload: str) -> bool:
    """Whether limits agree, and the latency has been under the threshold for a while since."""
    states = [(at, state) for at, state in recorder.all(ResourceState) if state.workload_id == workload]
    if not states or states[-1][1].sync_state is not SyncState.SYNCHRONIZED:
        return False
    agreed_at, look_back = states[-1][0], time.monotonic() - LOOK_BACK_S
    recent = probe.latencies(look_back)
    return agreed_at < look_back and len(recent) >= SAMPLES_MIN and median(recent) < THRESHOLD_MS


def _configuration(stage: Stage, folder: Path, port: int) -> str:
    """The configuration of the demo: quick to notice, everything in a folder of its own."""
    return toml(
        {
            "broker": {"port": port, "data_dir": str(folder / "broker")},
            "node_agent": {
                "node": NODE,
                "metrics_interval_s": 0.5,
                "sync_interval_s": 10,
                "state_dir": str(folder / "agent"),
                **stage.agent_settings(),
            },
            "monitoring": {
                "window": 5,
                "needed": 3,
                "repeat_s": 5,
                "thresholds": [{"workload": stage.workload, "latency_ms": THRESHOLD_MS}],
            },
            "policy_manager": {"database": str(folder / "policy_manager.sqlite3")},
            "resource_manager": {"database": str(folder / "resource_manager.sqlite3")},
            "action_controller": {"database": str(folder / "action_controller.sqlite3")},
            "metrics": {"port": 0},
            "dashboard": {"port": 0},
            "policy": [{"workload": stage.workload, "cooldown_s": 3, **stage.policy()}],
        }
    )
