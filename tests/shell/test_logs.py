"""Logs are one line an event, whatever is in it, and name the action."""

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from components.shell.logs import about, fields_of, start_logging


@pytest.fixture(autouse=True)
def _logging_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for setting in ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing"):
        monkeypatch.setattr(logging, setting, getattr(logging, setting))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(*, as_json: bool, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    start_logging(level, as_json=as_json, stream=stream)
    return stream


def test_a_line_is_key_value_with_utc_time_and_the_action_it_is_about() -> None:
    stream = lines(as_json=False)

    with about(component="action_controller", action_id="a-1"):
        logging.getLogger("x").info("sent %s", "it", extra={"topic": "scaling/status", "reason": None})

    line = stream.getvalue()
    assert re.match(r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=info ", line)
    assert line.endswith('event="sent it" component=action_controller action_id=a-1 topic=scaling/status\n')


@pytest.mark.parametrize(
    ("epoch_s", "told"),
    [
        (1_700_000_000.0, "2023-11-14T22:13:20.000Z"),
        (1_700_000_000.75, "2023-11-14T22:13:20.750Z"),
        (1_700_000_001.0625, "2023-11-14T22:13:21.062Z"),
    ],
)
def test_the_time_of_a_line_is_utc_to_the_millisecond(epoch_s: float, told: str) -> None:
    record = logging.makeLogRecord({"created": epoch_s, "msg": "x"})

    assert fields_of(record)["time"] == told


def test_a_line_stays_a_line_when_values_hold_line_ends_quotes_or_an_exception() -> None:
    stream = lines(as_json=False)

    try:
        int('say "no"\nagain')
    except ValueError:
        logging.getLogger("x").exception("failed", extra={"topic": "a\nb=c"})

    assert stream.getvalue().count("\n") == 1
    assert r'topic="a\nb=c"' in stream.getvalue()
    assert "ValueError" in stream.getvalue()


def test_json_lines_are_json_objects() -> None:
    stream = lines(as_json=True)

    with about(action_id="a-1"):
        logging.getLogger("x").warning("lost", extra={"count": 3, "what": object})

    parsed = json.loads(stream.getvalue())
    assert (parsed["level"], parsed["event"], parsed["action_id"], parsed["count"]) == (
        "warning",
        "lost",
        "a-1",
        3,
    )


def test_fields_end_with_their_block() -> None:
    stream = lines(as_json=False)

    with about(action_id="a-1"):
        pass
    logging.getLogger("x").info("later")

    assert "action_id" not in stream.getvalue()


def test_lines_below_the_level_are_left_out_and_an_unknown_level_is_refused() -> None:
    stream = lines(as_json=False, level="warning")
    logging.getLogger("x").info("quiet")

    assert stream.getvalue() == ""
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        start_logging("loud")
