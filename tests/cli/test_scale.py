"""`scale` as a person and as a script sees it."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.plain import PlainClient
from schemas.codec import decode, encode
from schemas.enums import ActionOutcome, Phase, TaskState
from schemas.limits import Limits
from schemas.message import Wire
from schemas.scaling import ScalingAction, ScalingStatus
from tests.cli.system import NODE, Configuration, configuration, until, workload
from tests.fixtures.broker import RunningBroker, running_broker

Answer = Callable[[ScalingAction], list[ScalingStatus]]


def status_of(action: ScalingAction, phase: Phase, outcome: ActionOutcome | None = None) -> ScalingStatus:
    state = TaskState.RUNNING if outcome is None else TaskState.FAILED
    return ScalingStatus(
        action_id=action.action_id,
        node=action.node,
        workload_id=action.workload_id,
        state=state,
        phase=phase,
        outcome=outcome,
        message="as the test wants it",
        wire=Wire.JSON,
    )


class Controller:
    """Answers actions as a test wants it; keeps those it heard."""

    def __init__(self, answer: Answer) -> None:
        self.heard: list[ScalingAction] = []
        self.news = threading.Event()
        self._answer = answer
        self.client: PlainClient | None = None

    def take(self, topic: str, payload: bytes, _retained: bool) -> None:
        action = decode(topic, payload)
        assert isinstance(action, ScalingAction)
        self.heard.append(action)
        self.news.set()
        assert self.client is not None
        for status in self._answer(action):
            frame = encode(status)
            self.client.publish(frame.topic, frame.payload, 1)


@contextmanager
def controller(broker: RunningBroker, answer: Answer) -> Iterator[Controller]:
    taking = Controller(answer)
    client = PlainClient(broker.host, broker.port, "controller", taking.take, ("scaling/action",))
    taking.client = client
    with client:
        yield taking


def test_a_running_container_gets_its_limits_and_every_phase_is_shown(system: Configuration) -> None:
    result = system.cli("scale", "sim-1", "--node", NODE, "--cpu", "0.75", "--memory", "300Mi")

    assert result.exit_code == 0, result.output
    places = [result.stdout.index(word) for word in ("validating", "recording", "updating", "COMPLETED")]
    assert places == sorted(places)
    assert "in force: 750m CPU, 300Mi" in result.stdout
    state = workload(system, "sim-1")
    assert state["sync_state"] == "SYNCHRONIZED"
    assert (state["actual"]["cpu_limit"], state["actual"]["memory_limit"]) == (750, 300)


def test_json_is_one_line_the_final_status(system: Configuration) -> None:
    result = system.cli("scale", "sim-2", "--cpu", "600m", "--json")

    assert result.exit_code == 0, result.output
    (line,) = result.stdout.splitlines()
    final = ScalingStatus.model_validate_json(line)
    assert final.outcome is ActionOutcome.COMPLETED
    assert (final.node, final.workload_id) == (NODE, "sim-2"), "the only node is found"
    assert final.cause.type == "CLI"


def test_a_dry_run_says_what_would_happen_and_changes_nothing(system: Configuration) -> None:
    before = workload(system, "sim-3")

    result = system.cli("scale", "sim-3", "--cpu", "1", "--dry-run")

    assert result.exit_code == 0, result.output
    assert "in force" not in result.stdout
    assert workload(system, "sim-3") == before


def test_what_can_never_be_given_is_rejected_with_numbers(system: Configuration) -> None:
    result = system.cli("scale", "sim-1", "--cpu", "500", "--json")

    assert result.exit_code == 3
    final = json.loads(result.stdout)
    assert (final["outcome"], final["reason"]) == ("REJECTED", "INFEASIBLE")
    assert "500000m" in final["message"]


def test_a_workload_nobody_knows_is_rejected(system: Configuration) -> None:
    result = system.cli("scale", "no-such", "--cpu", "1", "--wait", "30s")

    assert result.exit_code == 3
    assert "UNKNOWN_WORKLOAD" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "say what to change"),
        (("--cpu", "two"), "'two' is no CPU quantity"),
        (("--cpu", "0"), "cpu_limit"),
        (("--memory", "1Zi"), "'1Zi' is no memory quantity"),
        (("--cpuset", "2-1"), "cpuset_cpus"),
        (("--cpu-shares", "1"), "cpu_shares"),
        (("--cpu", "1", "--wait", "soon"), "--wait 'soon'"),
        (("--cpu", "1", "--wait", "0"), "--wait '0'"),
        (("--cpu", "1", "--on-shortage", "pray"), "--on-shortage 'pray': write one of reject, wait"),
        (("--cpu", "1", "--node", "a/b"), "node"),
    ],
)
def test_a_mistake_is_told_before_anything_is_sent(
    alone: Configuration, arguments: tuple[str, ...], says: str
) -> None:
    result = alone.cli("scale", "cam", "--node", "n", *arguments)

    assert result.exit_code == 2
    assert says in result.stderr


def test_without_a_known_node_it_must_be_named(alone: Configuration) -> None:
    result = alone.cli("scale", "cam", "--cpu", "1")

    assert result.exit_code == 2
    assert "--node" in result.stderr


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (ActionOutcome.COMPLETED, 0),
        (ActionOutcome.REJECTED, 3),
        (ActionOutcome.FAILED, 4),
        (ActionOutcome.INCONSISTENT, 4),
    ],
)
def test_the_exit_code_tells_a_script_how_it_ended(
    alone: Configuration, broker: RunningBroker, outcome: ActionOutcome, code: int
) -> None:
    with controller(broker, lambda action: [status_of(action, Phase.DONE, outcome)]):
        result = alone.cli("scale", "cam", "--node", "n", "--cpu", "1")

    assert result.exit_code == code
    assert outcome in result.stdout


def test_options_reach_the_action(alone: Configuration, broker: RunningBroker) -> None:
    with controller(broker, lambda action: [status_of(action, Phase.DONE, ActionOutcome.COMPLETED)]) as taking:
        alone.cli(
            *("scale", "cam", "--node", "n", "--cpu", "1.5", "--memory", "2Gi", "--cpu-shares", "512"),
            *("--cpuset", "0-1", "--dry-run", "--on-shortage", "wait", "--wait", "5m"),
        )

    (action,) = taking.heard
    assert action.target == Limits(cpu_limit=1500, memory_limit=2048, cpu_shares=512, cpuset_cpus="0-1")
    assert (action.dry_run, action.on_shortage, action.source) == (True, "wait", "cli")
    assert 290 < action.wait_s < 300, "it ends a little before we stop waiting, so that we hear how"


def test_somebody_elses_end_is_not_ours(alone: Configuration, broker: RunningBroker) -> None:
    def answer(action: ScalingAction) -> list[ScalingStatus]:
        other = action.model_copy(update={"action_id": "somebody-else"})
        return [
            status_of(other, Phase.DONE, ActionOutcome.FAILED),
            status_of(action, Phase.DONE, ActionOutcome.COMPLETED),
        ]

    with controller(broker, answer):
        assert alone.cli("scale", "cam", "--node", "n", "--cpu", "1").exit_code == 0


def test_an_action_is_said_again_until_somebody_answers(alone: Configuration, broker: RunningBroker) -> None:
    asked: list[str] = []

    def answer(action: ScalingAction) -> list[ScalingStatus]:
        asked.append(action.action_id)
        return [status_of(action, Phase.DONE, ActionOutcome.COMPLETED)] if len(asked) == 2 else []

    with controller(broker, answer):
        assert alone.cli("scale", "cam", "--node", "n", "--cpu", "1").exit_code == 0

    assert len(set(asked)) == 1


def test_without_an_answer_it_gives_up_and_says_who_is_missing(alone: Configuration) -> None:
    began = time.monotonic()

    result = alone.cli("scale", "cam", "--node", "n", "--cpu", "1", "--wait", "700ms", "--json")

    assert result.exit_code == 5
    assert result.stdout == ""
    assert "action_controller was never seen" in result.stderr
    assert 0.6 < time.monotonic() - began < 5


def test_a_lost_connection_is_not_blamed_on_action_controller(tmp_path: Path) -> None:
    with running_broker() as own:
        settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{own.port}")
        with settings.child("scale", "cam", "--node", "n", "--cpu", "1", "--wait", "3s") as child:
            assert "cam on n" in child.read_line()
            own.kill()
            code = child.finish()

    assert code == 5
    assert f"no connection to the broker: cannot reach the broker 127.0.0.1:{own.port}" in child.err
    assert "action_controller" not in child.err


def test_an_action_that_takes_too_long_is_said_to_go_on(alone: Configuration, broker: RunningBroker) -> None:
    with controller(broker, lambda action: [status_of(action, Phase.UPDATING)]) as taking:
        result = alone.cli("scale", "cam", "--node", "n", "--cpu", "1", "--wait", "700ms")

    assert result.exit_code == 5
    assert "in phase updating" in result.stderr
    assert taking.heard[0].action_id in result.stderr


def test_ctrl_c_leaves_and_says_that_the_action_goes_on(alone: Configuration, broker: RunningBroker) -> None:
    with (
        controller(broker, lambda action: [status_of(action, Phase.UPDATING)]) as taking,
        alone.child("scale", "cam", "--node", "n", "--cpu", "1") as child,
    ):
        while "updating" not in child.read_line():
            assert child.running
        code = child.end(signal.SIGINT)

    assert code == 130
    assert f"{taking.heard[0].action_id} goes on" in child.err
    assert "Traceback" not in child.err


def test_a_lost_connection_is_mended_and_the_action_said_again(
    alone: Configuration, broker: RunningBroker
) -> None:
    with alone.child("scale", "cam", "--node", "n", "--cpu", "1") as child:
        with controller(broker, lambda action: [status_of(action, Phase.VALIDATING)]) as taking:
            while "validating" not in child.read_line():
                assert child.running
        broker.kill()
        broker.start()
        with controller(broker, lambda action: [status_of(action, Phase.DONE, ActionOutcome.COMPLETED)]) as again:
            assert child.finish() == 0, child.err

    assert taking.heard[0].action_id == again.heard[0].action_id
    until(lambda: True, "nothing more")
