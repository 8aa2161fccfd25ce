"""The table of operations in the node agent's README, made from what the tests found.

python -m tests.vm.table prints it; with --write it is put into the README.
"""

import sys
from pathlib import Path
from typing import Any, Final

from tests.vm import results
from tests.vm.guest.operations import OPERATIONS

README: Final = Path(__file__).parent.parent.parent / "components/node_agent/README.md"
BEGIN: Final = "<!-- operations: made by `python -m tests.vm.table --write` -->"
END: Final = "<!-- operations: end -->"


def markdown() -> str:
    """The table, as far as it is known."""
    columns = [found for _, found in results.known()]
    lines = [row("", [head(found) for found in columns]), row("---", ["---"] * len(columns))]
    lines += [
        row(operation, [shown(found["cells"].get(operation, "")) for found in columns]) for operation in OPERATIONS
    ]
    return "\n".join(lines)


def head(found: dict[str, Any]) -> str:
    """A column's head."""
    version = ".".join(found["podman"].split(".")[:2])
    whose = "rootless" if found["rootless"] else "rootful"
    return f"Podman {version}, cgroup v{found['cgroup']}, {whose}, {found['manager']}"


def shown(result: str) -> str:
    """A cell: a reason looks like code, all else like text."""
    return f"`{result}`" if result.isupper() else result


def row(first: str, cells: list[str]) -> str:
    """A line of the table."""
    return f"| {' | '.join([first, *cells])} |"


def insert(text: str) -> str:
    """A README with the table between its marks. Raises ValueError when it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{README} has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{markdown()}\n{END}{after}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        README.write_text(insert(README.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(markdown())
