"""One thing that was looked at."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How good it is."""

    OK = "ok"
    NOTE = "note"
    """Works, but less than it could, or is not needed now."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """What was found, and in one line how to mend it."""

    area: str
    level: Level
    text: str
    remedy: str = ""


def ok(area: str, text: str) -> Finding:
    """It works."""
    return Finding(area, Level.OK, text)


def note(area: str, text: str, remedy: str = "") -> Finding:
    """It works less than it could."""
    return Finding(area, Level.NOTE, text, remedy)


def wrong(area: str, text: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(area, Level.WRONG, text, remedy)
