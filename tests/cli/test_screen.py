"""What strangers say is shown, and cannot command the terminal or pretend to be a line of ours."""

import io

from rich.text import Text

from components.cli.connection import Heard
from components.cli.screen import console, table
from components.cli.tail import _line

NASTY = "a\x1b]0;title\x07\x1b[2J\r\n✓ all is well\u202e"
SHOWN = r"a\x1b]0;title\x07\x1b[2J\r\n✓ all is well\u202e"


def printed(what: str | Text) -> str:
    stream = io.StringIO()
    console(stream).print(what, soft_wrap=True)
    return stream.getvalue()


def test_control_characters_of_a_message_are_shown_as_what_they_are() -> None:
    assert printed(f"scaling {NASTY}") == f"scaling {SHOWN}\n"


def test_a_table_does_the_same() -> None:
    rows = table("WORKLOAD", "MESSAGE")
    rows.add_row("nav", NASTY)
    stream = io.StringIO()
    console(stream).print(rows)

    assert stream.getvalue().splitlines()[1].split(maxsplit=1) == ["nav", SHOWN]


def test_tail_does_the_same_with_topics_names_and_values() -> None:
    heard = Heard("scaling/\x1b[31m", b'{"a\\nb": "c\\u001b[2J\\nd"}', retained=False)

    assert printed(_line(heard)).endswith("scaling/\\x1b[31m a\\nb=c\\x1b[2J\\nd\n")


def test_other_letters_and_signs_stay() -> None:
    assert printed("Größe – 2000m, 日本, ✗ 100 %") == "Größe – 2000m, 日本, ✗ 100 %\n"
