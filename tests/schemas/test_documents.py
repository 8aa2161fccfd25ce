"""The pages beside the code: complete, current, and naming only what exists."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import schemas
from components.cli.main import app
from components.settings import Settings
from schemas.asyncapi import document
from schemas.enums import Reason
from schemas.meanings import MEANINGS
from schemas.operations import RejectReason
from schemas.reference import as_markdown
from schemas.topics import TOPICS

HERE = Path(str(schemas.__file__)).parent
PAGES = ("README.md", "messages.md", "reasons.md", "glossary.md")
SHAPES: dict[str, Any] = document()["components"]["schemas"]


def page(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """What stands under each heading of the second level."""
    _, *parts = re.split(r"^## ", text.partition("# Dead letters")[0], flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def test_every_reason_has_its_entry_in_the_order_of_the_enum() -> None:
    assert list(sections(page("reasons.md"))) == list(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_an_entry_says_what_the_reason_means_and_what_to_do(reason: Reason) -> None:
    parts = re.findall(r"\*\*(Means|Do):\*\* (.+?)(?=\n\n|\n*\Z)", sections(page("reasons.md"))[reason], re.DOTALL)
    assert [name for name, _ in parts] == ["Means", "Do"]
    assert all(len(text) > 15 or text == "the same." for _, text in parts)


def test_every_kind_of_dead_letter_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .{10,} \| .{10,} \|$", page("reasons.md"), flags=re.MULTILINE)
    assert rows == list(RejectReason)


def test_the_page_of_messages_is_current() -> None:
    assert page("messages.md") == as_markdown(), "run: piriscale schema --markdown > schemas/messages.md"


def test_the_page_of_messages_tells_every_topic() -> None:
    text = page("messages.md")
    assert [topic.template for topic in TOPICS if f"`{topic.template}` · QoS {topic.qos}" not in text] == []


def test_every_field_has_a_meaning() -> None:
    blank = [
        f"{name}.{field}"
        for name, schema in SHAPES.items()
        for field, told in schema.get("properties", {}).items()
        if not told.get("description")
    ]
    assert blank == [], "say it at the field, or in schemas/meanings.py"


def test_no_meaning_is_left_over() -> None:
    told = {
        (f"{name}.{field}", field, schema["properties"][field]["description"])
        for name, schema in SHAPES.items()
        for field in schema.get("properties", {})
    }
    used = {key for key, text in MEANINGS.items() if any(key in one[:2] and one[2] == text for one in told)}
    assert set(MEANINGS) - used == set()


@pytest.mark.parametrize("name", PAGES)
def test_configuration_and_commands_that_are_named_exist(name: str) -> None:
    text = page(name)
    sections_of_settings = "|".join(Settings.model_fields)
    for section, key in re.findall(rf"`(?:\[+)?({sections_of_settings})\.(?!py`)(\w+)`", text):
        model: Any = Settings.model_fields[section].annotation
        assert key in model.model_fields, f"{section}.{key}"
    commands = set(getattr(get_command(app), "commands", {}))
    assert set(re.findall(r"`piriscale ([a-z-]+)", text)) <= commands


def test_the_glossary_is_in_order_and_says_each_word_once() -> None:
    words = re.findall(r"^\| ([^|]+?) \| ", page("glossary.md"), flags=re.MULTILINE)[1:]
    assert words == sorted(set(words), key=str.lower)
    assert len(words) > 50
