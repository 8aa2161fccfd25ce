"""The component without I/O: what it is told and asked, and what it says and shows."""

import itertools
import json
from collections.abc import Iterable
from typing import Any

from broker.bus import Delivery
from components.component import Instant, Output
from components.dashboard.dashboard import Dashboard
from components.dashboard.form import ScaleForm
from components.dashboard.items import Asked, AskError, Document, Joined, Left, ScalingAsked
from schemas.codec import encode
from schemas.enums import ActionOutcome, Phase, Reason, SyncState, TaskState
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.resources import NodeCapacity, ResourceState
from schemas.scaling import ScalingAction, ScalingStatus

START = Instant(1000.0, 1_800_000_000_000)
NODE, WORKLOAD = "hpc-1", "nav"


class Closed:
    """A web server that serves nothing."""

    problem: str | None = None

    def __init__(self) -> None:
        self.running = False

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False


class Screen:
    """A browser: the picture as its events give it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Document]] = []
        self.sections: dict[str, dict[str, Any]] = {}

    def send(self, frame: bytes) -> None:
        head, _, data = frame.decode().partition("\n")
        assert head.startswith("event: ") and data.startswith("data: ") and data.endswith("\n\n")
        event, body = head.removeprefix("event: "), json.loads(data.removeprefix("data: "))
        self.events.append((event, body))
        if event == "picture":
            self.sections = {}
        for section, keys in body.get("gone", {}).items():
            for key in keys:
                del self.sections[section][key]
        for section, rows in body["put"].items():
            self.sections.setdefault(section, {}).update(rows)


class Desk:
    """A dashboard whose clock stands still until it is moved."""

    def __init__(self, dashboard: Dashboard | None = None, *, scale_form: bool = True) -> None:
        """`dashboard`: in place of its own; its web server is not started."""
        numbers = itertools.count(1)
        self.server = Closed()
        self.now = START
        self.dashboard = dashboard or Dashboard(
            self.server, lambda: f"web-{next(numbers)}", scale_form=scale_form, repeat_s=30.0
        )
        if dashboard is None:
            self.dashboard.start(self.now)
        self.dashboard.connected(self.now)

    def pass_time(self, seconds: float) -> list[Output]:
        self.now = Instant(self.now.monotonic + seconds, self.now.epoch_ms + round(seconds * 1000))
        return self.dashboard.tick(self.now)

    def hear(self, *messages: Message, retained: bool = False) -> None:
        for message in messages:
            frame = encode(message)
            self.dashboard.handle(Delivery(frame.topic, frame.payload, retained), self.now)

    def watch(self) -> Screen:
        screen = Screen()
        self.dashboard.handle(Joined(screen), self.now)
        return screen

    def leave(self, screen: Screen) -> None:
        self.dashboard.handle(Left(screen), self.now)

    def ask(self, asked: Asked) -> Document:
        """The answer. Raises AskError."""
        self.dashboard.handle(asked, self.now)
        return asked.answer.result(0)

    def submit(self, **fields: Any) -> tuple[Document | AskError, list[ScalingAction]]:
        """The answer to a form, and the actions that were said."""
        form = ScaleForm(**{"node": NODE, "workload": WORKLOAD, "cpu": "2", "dry_run": False, **fields})
        asked = ScalingAsked(form)
        said = actions(self.dashboard.handle(asked, self.now))
        error = asked.answer.exception(0)
        assert error is None or isinstance(error, AskError)
        return error or asked.answer.result(0), said


def actions(outputs: Iterable[Output]) -> list[ScalingAction]:
    found = list(outputs)
    assert all(isinstance(one, ScalingAction) for one in found)
    return [one for one in found if isinstance(one, ScalingAction)]


def state(workload: str = WORKLOAD, **fields: Any) -> ResourceState:
    sound = ResourceState(
        node=NODE,
        workload_id=workload,
        desired=Limits(cpu_limit=1000, memory_limit=512),
        actual=Limits(cpu_limit=1000, memory_limit=512),
        sync_state=SyncState.SYNCHRONIZED,
        generation=7,
        since=START.epoch_ms - 5000,
        revision=1,
    )
    return sound.model_copy(update=fields)


def capacity(node: str = NODE) -> NodeCapacity:
    return NodeCapacity(
        node=node,
        total=Amount(cpu=8000, memory=16_384),
        allocated=Amount(cpu=5000, memory=4096),
        reserved=Amount(cpu=1000, memory=1024),
        available=Amount(cpu=2000, memory=11_264),
    )


def status(action_id: str, phase: Phase = Phase.VALIDATING, **fields: object) -> ScalingStatus:
    made = ScalingStatus(
        action_id=action_id, node=NODE, workload_id=WORKLOAD, state=TaskState.RUNNING, phase=phase
    )
    return made.model_copy(update=fields)


def refused(action_id: str) -> ScalingStatus:
    return status(
        action_id,
        Phase.DONE,
        state=TaskState.FAILED,
        outcome=ActionOutcome.REJECTED,
        reason=Reason.INSUFFICIENT_CPU,
        message="needs 3000m more CPU, node hpc-1 has 2000m available",
    )
