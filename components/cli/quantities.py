"""Durations as people write them."""

import re
from typing import Final

from components.cli.errors import UsageError

_DURATION: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h|)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
LONGEST_S: Final = 86_400.0


def parse_duration(text: str, option: str) -> float:
    """Seconds of "500ms", "60s", "60", "5m" or "1h". Raises UsageError, naming the option."""
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match["number"]) * _SECONDS[match["unit"]] if match else 0.0
    if not 0 < seconds <= LONGEST_S:
        raise UsageError(f"{option} {text!r}: write a duration of at most a day, such as 500ms, 60s, 5m or 1h")
    return seconds
