"""The node agent's README shows what the tests found, and nothing else."""

import pytest

from tests.vm import results, table
from tests.vm.columns import Column
from tests.vm.guest.operations import OPERATIONS

KNOWN = [pytest.param(column, found, id=column.name) for column, found in results.known()]


def test_the_readme_shows_what_was_found() -> None:
    text = table.README.read_text(encoding="utf-8")
    assert table.insert(text) == text, "run: python -m tests.vm.table --write"


@pytest.mark.parametrize(("column", "found"), KNOWN)
def test_a_column_has_every_operation(column: Column, found: dict[str, dict[str, str]]) -> None:
    assert list(found["cells"]) == list(OPERATIONS), f"record {column.name} anew: see tests/vm/README.md"


@pytest.mark.parametrize(("column", "found"), KNOWN)
def test_no_cell_hides_a_failure(column: Column, found: dict[str, dict[str, str]]) -> None:
    assert "ERROR" not in found["cells"].values(), f"{column.name}: an operation that goes wrong is a defect"
