"""`pause` and `resume`: one retained message that PolicyManager heeds."""

import time
from typing import Final

from pydantic import ValidationError

from components.cli.connection import Session, subscriptions_to
from components.cli.errors import EXIT_OK, CliError, UsageError
from components.settings import Settings
from schemas.enums import ConnectionState
from schemas.message import Message
from schemas.operations import ComponentStatus
from schemas.scaling import ScalingControl
from schemas.topics import Role

ECHO_WITHIN_S: Final = 5.0


def control(settings: Settings, *, paused: bool, node: str | None, workload: str | None) -> int:
    """Pause or resume, and see that the broker keeps it. Returns the exit code."""
    try:
        wanted = ScalingControl(paused=paused, node=node, workload=workload, id=f"cli-{time.time_ns()}")
    except ValidationError as error:
        raise UsageError("; ".join(f"{m['loc'][-1]}: {m['msg']}" for m in error.errors())) from error
    with Session(settings.broker, subscriptions_to(ScalingControl, ComponentStatus)) as session:
        present = [heard.decoded for heard in session.retained()]
        session.publish(wanted)
        _await_echo(session, wanted)
    scope = " ".join(
        f"on {name}" for name in (workload and f"workload {workload}", node and f"node {node}") if name
    )
    print(f"automatic scaling is {'paused' if paused else 'resumed'}{' ' + scope if scope else ''}")
    if not any(_is_ready(message) for message in present if isinstance(message, Message)):
        print("policy_manager is not ready now; it heeds this when it starts")
    return EXIT_OK


def _await_echo(session: Session, wanted: ScalingControl) -> None:
    """What the broker accepted comes back to us as to everyone."""
    for heard in session.until(time.monotonic() + ECHO_WITHIN_S):
        message = heard.decoded
        if isinstance(message, ScalingControl) and message.id == wanted.id:
            return
    raise CliError("the broker did not take it; this user may not be allowed to write control/scaling")


def _is_ready(message: Message) -> bool:
    return (
        isinstance(message, ComponentStatus)
        and message.component == Role.POLICY_MANAGER
        and message.state is ConnectionState.READY
    )
