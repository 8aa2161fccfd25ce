"""Logs: one line an event, UTC, key=value or JSON, with the component and the action it is about."""

import contextlib
import contextvars
import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
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
    second, fraction = divmod(record.created, 1)
    fields: dict[str, Any] = {
        "time": f"{_to_the_second(second)}.{int(fraction * 1000):03}Z",
        "level": record.levelname.lower(),
        "event": record.getMessage(),
        **_about.get({}),
    }
    fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD and value is not None}
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


@lru_cache(maxsize=2)
def _to_the_second(epoch_s: float) -> str:
    return f"{datetime.fromtimestamp(epoch_s, UTC):%Y-%m-%dT%H:%M:%S}"


def _quoted(value: Any) -> str:
    return _quoted_text(value if isinstance(value, str) else str(value))


@lru_cache(maxsize=512)
def _quoted_text(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text.isprintable() else json.dumps(text, ensure_ascii=False)


def start_logging(level: str = "info", *, as_json: bool = False, stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (stderr). Raises ValueError for an unknown level."""
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no log level; allowed: {', '.join(LEVELS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else KeyValueFormatter())
    # Nobody shows threads, processes and source lines, so they are not looked up for each line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 # the way that the library's HOWTO names
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
