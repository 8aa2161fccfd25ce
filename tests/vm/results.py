"""What the tests found, kept beside them: the expectation of the next run, and the source of the table."""

import json
from pathlib import Path
from typing import Any, Final

from tests.vm.columns import COLUMNS, Column

FOLDER: Final = Path(__file__).parent / "results"
MACHINE: Final = ("podman", "cgroup", "rootless", "manager", "runtime")
"""What a column says of itself."""


def load(column: Column) -> dict[str, Any] | None:
    """A column as it was found; None: never."""
    file = FOLDER / f"{column.name}.json"
    if not file.exists():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def save(column: Column, found: dict[str, Any]) -> None:
    """Keep what has a meaning beyond the run: no words, no times."""
    cells = {operation: cell["result"] for operation, cell in found["cells"].items()}
    kept = {key: found[key] for key in MACHINE} | {"cells": cells}
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{column.name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def known() -> list[tuple[Column, dict[str, Any]]]:
    """All columns that were found, in the order of the table."""
    return [(column, found) for column in COLUMNS if (found := load(column)) is not None]
