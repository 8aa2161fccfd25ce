"""`scale`: one action, said again until its final status comes."""

import sys
import time
import uuid
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from rich.console import Console

from components.cli.connection import Session, subscriptions_to
from components.cli.errors import (
    EXIT_NOT_DONE,
    EXIT_OK,
    EXIT_REJECTED,
    EXIT_TIMED_OUT,
    UsageError,
)
from components.cli.nodes import only_node
from components.cli.quantities import parse_duration
from components.cli.screen import console, styled
from components.cli.streams import reader_may_go
from components.overview.words import describe, describe_actual
from components.repeater import Repeater
from components.settings import Settings
from schemas.enums import ActionOutcome, CauseType, OnShortage, Phase
from schemas.limits import Limits
from schemas.node import NodeInfo
from schemas.operations import ComponentStatus
from schemas.resources import NodeCapacity
from schemas.scaling import Cause, ScalingAction, ScalingStatus
from schemas.topics import Role
from schemas.units import parse_cpu, parse_memory

LEFT_FOR_THE_ANSWER_S: Final = 2.0
"""An action that waits for room gives up so long before we do, so that we hear its end."""

EXIT_OF: Final = {
    ActionOutcome.COMPLETED: EXIT_OK,
    ActionOutcome.REJECTED: EXIT_REJECTED,
    ActionOutcome.FAILED: EXIT_NOT_DONE,
    ActionOutcome.INCONSISTENT: EXIT_NOT_DONE,
}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was asked for on the command line, not yet read."""

    workload: str
    node: str | None
    cpu: str | None = None
    memory: str | None = None
    cpu_shares: int | None = None
    cpuset: str | None = None
    dry_run: bool
    wait: str
    on_shortage: str

    @property
    def wait_s(self) -> float:
        """How long to wait for the end, seconds. Raises UsageError."""
        return parse_duration(self.wait, "--wait")

    def action(self, node: str) -> ScalingAction:
        """The action. Raises UsageError for what cannot be meant."""
        try:
            target = Limits(
                cpu_limit=parse_cpu(self.cpu) if self.cpu is not None else None,
                memory_limit=parse_memory(self.memory) if self.memory is not None else None,
                cpu_shares=self.cpu_shares,
                cpuset_cpus=self.cpuset,
            )
            action = ScalingAction(
                action_id=f"cli-{uuid.uuid4().hex}",
                node=node,
                workload_id=self.workload,
                target=target,
                dry_run=self.dry_run,
                on_shortage=_on_shortage(self.on_shortage),
                wait_s=max(self.wait_s - LEFT_FOR_THE_ANSWER_S, self.wait_s * 0.8),
                cause=Cause(type=CauseType.CLI),
            )
        except ValidationError as error:
            raise UsageError("; ".join(f"{m['loc'][-1]}: {m['msg']}" for m in error.errors())) from error
        except ValueError as error:
            raise UsageError(str(error)) from error
        if target.empty:
            raise UsageError("say what to change: --cpu, --memory, --cpu-shares or --cpuset")
        return action


def _on_shortage(text: str) -> OnShortage:
    try:
        return OnShortage(text)
    except ValueError:
        raise UsageError(f"--on-shortage {text!r}: write one of {', '.join(OnShortage)}") from None


def scale(settings: Settings, wanted: Wanted, *, as_json: bool) -> int:
    """Carry out one scaling and show how it goes. Returns the exit code."""
    wanted.action(wanted.node or "unknown")  # mistakes first, before anything is connected
    topics = subscriptions_to(ScalingStatus, ComponentStatus, NodeInfo, NodeCapacity)
    with Session(settings.broker, topics) as session:
        action = wanted.action(wanted.node or only_node(heard.decoded for heard in session.retained()))
        return _Following(session, action, wanted.wait_s, as_json=as_json).follow()


class _Following:
    """One action from its first word to its final status."""

    def __init__(self, session: Session, action: ScalingAction, wait_s: float, *, as_json: bool) -> None:
        self._session = session
        self._action = action
        self._wait_s = wait_s
        self._json = as_json
        self._out: Console = console()
        self._repeater = Repeater()
        self._controller: ComponentStatus | None = None
        self._shown: tuple[Phase, str] | None = None
        self._began = time.monotonic()

    def follow(self) -> int:
        """Say it, again and again, until it has ended, time is up, or the user has seen enough."""
        self._show(f"{self._action.workload_id} on {self._action.node}: {describe(self._action.target)}")
        try:
            final = self._wait_for_end()
        except KeyboardInterrupt:
            self._tell(f"the action {self._action.action_id} goes on; see `piriscale status`")
            raise
        if final is None:
            self._tell(self._why_no_end())
            return EXIT_TIMED_OUT
        self._show_final(final)
        return EXIT_OF[final.outcome] if final.outcome else EXIT_NOT_DONE

    def _wait_for_end(self) -> ScalingStatus | None:
        deadline = self._began + self._wait_s
        self._session.publish(self._repeater.send("action", self._action, self._began))
        while (now := time.monotonic()) < deadline:
            for request in self._repeater.due(now):
                self._session.publish(request)
            heard = self._session.receive(min(0.2, deadline - now))
            if heard is None:
                continue
            message = heard.decoded
            if isinstance(message, ScalingStatus) and message.action_id == self._action.action_id:
                if message.final:
                    return message
                self._show_progress(message)
            elif isinstance(message, ComponentStatus) and message.component == Role.ACTION_CONTROLLER:
                self._controller = message
        return None

    def _why_no_end(self) -> str:
        if problem := self._session.no_connection:
            return (
                f"no end was heard of after {self._wait_s:g} s: {problem}. "
                f"The action {self._action.action_id} may be carried out nevertheless"
            )
        if self._shown is not None:
            return (
                f"not finished after {self._wait_s:g} s, in phase {self._shown[0]}; "
                f"the action {self._action.action_id} goes on"
            )
        state = f"says {self._controller.state}" if self._controller else "was never seen"
        return (
            f"no answer after {self._wait_s:g} s: action_controller {state} on this broker. If it comes back, "
            f"the action {self._action.action_id} may still be carried out"
        )

    def _show_progress(self, status: ScalingStatus) -> None:
        if (status.phase, status.message) == self._shown:
            return
        self._shown = (status.phase, status.message)
        self._show(f"  {status.phase:<11}{self._elapsed_ms():>7} ms  {status.message}".rstrip())

    def _show_final(self, final: ScalingStatus) -> None:
        if self._json:
            with reader_may_go(sys.stdout):
                print(final.model_dump_json(exclude_none=True), flush=True)
            return
        words = [str(final.outcome), *([str(final.reason)] if final.reason else []), final.message]
        self._show(" ".join(word for word in words if word), styled(str(final.outcome)))
        if final.actual is not None and not final.dry_run:
            self._show(
                f"  in force: {describe_actual(final.actual, self._action.target)}, after {self._elapsed_ms()} ms"
            )

    def _elapsed_ms(self) -> int:
        return round((time.monotonic() - self._began) * 1000)

    def _show(self, text: str, style: str = "") -> None:
        if not self._json:
            with reader_may_go(sys.stdout):
                self._out.print(text, style=style)

    @staticmethod
    def _tell(text: str) -> None:
        print(f"piriscale: {text}", file=sys.stderr)
