"""Logs: one line an event, UTC, key=value or JSON, with the component and the action it is about."""

import contextlib
import contextvars
import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, TextIO

_about: contextvars.ContextVar[dict[str, str]] = contextvars.ContextVar("about")

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLAIN: Final = re.compile(r'[^\s"=]+')
LEVELS: Final = ("debug", "info", "warning", "error")


@contextlib.contextmanager
def about(**fields: str | None) -> Iterator[None]:
    """Add these fields to every line logged in the block, in this thread and in calls that begin in it."""
    added = {name: value for name, value in fields.items() if value}
    token = _about.set({**_about.get({}), **added})
    try:
        yield
    finally:
        _about.reset(token)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What a line says, in order: time, level, text, whom it is about, and the `extra` of the call."""
    time = datetime.fromtimestamp(record.created, UTC)
    fields: dict[str, Any] = {
        "time": f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z",
        "level": record.levelname.lower(),
        "event": record.getMessage(),
        **_about.get({}),
    }
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    fields.update({name: value for name, value in extra.items() if value is not None})
    if record.exc_info:
        fields["error"] = logging.Formatter().formatException(record.exc_info)
    return fields


class KeyValueFormatter(logging.Formatter):
    """key=value; values with blanks or quotes are quoted as in JSON, so that a line stays a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return " ".join(f"{name}={_quoted(value)}" for name, value in fields_of(record).items())


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return json.dumps(fields_of(record), default=str, ensure_ascii=False)


def _quoted(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if _PLAIN.fullmatch(text) and text.isprintable() else json.dumps(text, ensure_ascii=False)


def start_logging(level: str = "info", *, as_json: bool = False, stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (stderr). Raises ValueError for an unknown level."""
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no log level; allowed: {', '.join(LEVELS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else KeyValueFormatter())
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # nobody shows them
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
