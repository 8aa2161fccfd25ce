"""`tail`: messages as they pass, decoded."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from broker.bus import Subscription
from components.cli.connection import Heard, Session
from components.cli.errors import EXIT_OK, UsageError
from components.cli.screen import STYLE_OF, console, printable
from components.settings import Settings
from schemas.codec import HEAD_BYTES, unpack
from schemas.topics import DEBUG_PREFIX

_FAMILY_STYLES: Mapping[str, str] = {
    "metrics": "dim",
    "perf": "magenta",
    "scaling": "cyan",
    "resources": "blue",
    "node": "green",
    "component": "yellow",
    "deadletter": "red",
}
LOOK_S: Final = 3600.0
"""How long to wait for one message, or for news of the connection."""
_COMMON = ("v", "id", "ts", "source")


def tail(settings: Settings, pattern: str, *, as_json: bool) -> int:
    """Show messages until Ctrl-C, and on stderr when the broker goes and comes. Returns the exit code."""
    _check(pattern)
    screen = console()
    with Session(settings.broker, (Subscription(pattern, 0),)) as session:
        try:
            _follow(session, pattern, screen, as_json=as_json)
        except KeyboardInterrupt:
            if session.dropped:
                print(f"piriscale: {session.dropped} messages came too fast to be shown", file=sys.stderr)
    return EXIT_OK


def _follow(session: Session, pattern: str, screen: Console, *, as_json: bool) -> None:
    wants_debug = pattern.startswith(DEBUG_PREFIX)
    connected = True
    while True:
        heard = session.receive(LOOK_S)
        if session.connected != connected:
            connected = session.connected
            print(f"piriscale: {'connected again' if connected else session.problem}", file=sys.stderr)
        if heard is None or (heard.topic.startswith(DEBUG_PREFIX) and not wants_debug):
            continue
        if as_json:
            print(json.dumps(_document(heard)), flush=True)
        else:
            screen.print(_line(heard), soft_wrap=True)


def _check(pattern: str) -> None:
    levels = pattern.split("/")
    misplaced = [level for level in levels if level not in ("+", "#") and any(mark in level for mark in "+#")]
    if not pattern or misplaced or "#" in levels[:-1] or "\0" in pattern:
        raise UsageError(
            f"{pattern!r} is no topic filter: + stands for one level, # for all that follow, at the end"
        )


def body_of(payload: bytes) -> dict[str, Any]:
    """What a payload says, schema or not; what cannot be read says so and how it begins."""
    try:
        return unpack(payload)[0]
    except ValueError as error:
        return {"unreadable": True, "why": str(error), "bytes": len(payload), "head": payload[:HEAD_BYTES].hex()}


def _document(heard: Heard) -> dict[str, Any]:
    message = body_of(heard.payload) if heard.payload else None
    return {"topic": heard.topic, "retained": heard.retained, "message": message}


def _line(heard: Heard) -> Text:
    now = datetime.now(UTC)
    line = Text()
    line.append(f"{now:%H:%M:%S}.{now.microsecond // 1000:03} ", "dim")
    line.append(printable(heard.topic), _FAMILY_STYLES.get(heard.topic.split("/", maxsplit=1)[0], ""))
    if heard.retained:
        line.append(" (retained)", "dim")
    if not heard.payload:
        return line.append(" deleted", "red")
    for name, value in body_of(heard.payload).items():
        if name not in _COMMON:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            line.append(f" {printable(name)}=", "dim").append(printable(text), STYLE_OF.get(text, ""))
    return line
