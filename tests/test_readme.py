"""What the README shows holds: its configuration is complete and valid, its commands and links exist."""

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from typer.main import get_command

from components.cli.main import app
from components.settings import Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```toml\n(.*?)```", README, flags=re.DOTALL)[0]
EXAMPLES_ONLY = {"thresholds", "policy"}
"""Sections of which the README shows examples, beside defaults."""


def uncommented(text: str) -> str:
    """The example with every commented key in force."""
    lines = re.sub(r"^# (?=[a-z_]+ = |\[)", "", text, flags=re.MULTILINE).splitlines()
    tables = [number for number, line in enumerate(lines) if line.startswith("[broker.tls]")]
    assert tables, "the example shows TLS"
    return "\n".join(lines)


def keys(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Every key of the configuration, dotted."""
    found = set()
    for name, field in model.model_fields.items():
        inner = [t for t in (field.annotation, *_flat(field.annotation)) if _is_section(t)]
        found |= keys(inner[0], f"{prefix}{name}.") if inner else {f"{prefix}{name}"}
    return found


def _flat(annotation: Any) -> list[Any]:
    return [part for argument in get_args(annotation) for part in (argument, *_flat(argument))]


def _is_section(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def shown(body: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for name, value in body.items():
        rows = value if isinstance(value, list) else [value]
        for row in rows:
            found |= shown(row, f"{prefix}{name}.") if isinstance(row, dict) else {f"{prefix}{name}"}
    return found


def test_the_example_configuration_shows_every_key_and_no_other() -> None:
    assert shown(tomllib.loads(uncommented(EXAMPLE))) == keys(Settings)


def test_the_example_configuration_is_valid_as_it_stands_and_with_every_key_in_force() -> None:
    Settings.model_validate(tomllib.loads(EXAMPLE))
    Settings.model_validate(tomllib.loads(uncommented(EXAMPLE)))


def test_the_values_shown_are_the_defaults() -> None:
    given = Settings.model_validate(tomllib.loads(EXAMPLE))
    assert given.model_copy(update={"policy": (), "monitoring": Settings().monitoring}) == Settings(), "defaults"
    assert given.monitoring.model_copy(update={"thresholds": ()}) == Settings().monitoring


def test_every_command_is_in_the_table_and_the_other_way_round() -> None:
    commands = set(getattr(get_command(app), "commands", {}))
    rows = [line for line in README.splitlines() if line.startswith("| `piriscale ")]
    told = {word for row in rows for word in re.findall(r"[a-z][a-z-]+", row.split("|")[1]) if word != "piriscale"}
    assert commands <= told


def pages() -> list[Path]:
    """Every document that is ours."""
    found = (path for path in ROOT.rglob("*.md") if not {".venv", "node_modules"} & set(path.parts))
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]


def anchors(text: str) -> set[str]:
    """The names under which a page's headings can be linked."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
        there = page.parent / target if target else page
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there.read_text(encoding="utf-8")), f"{target}#{anchor}"
