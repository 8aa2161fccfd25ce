"""`schema`: the contract as an AsyncAPI document, for people, generators and viewers."""

import json
import sys
from typing import Any, Final

import yaml

from components.cli.errors import EXIT_OK
from schemas.asyncapi import document
from schemas.reference import as_markdown

_WIDTH: Final = 115
_HEAD: Final = "# Made by `piriscale schema` from the code in schemas/; not to be edited by hand.\n"


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as it is read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def show_schema(*, as_json: bool, as_page: bool) -> int:
    """Print the document, or the page for reading. Returns the exit code."""
    sys.stdout.write(as_markdown() if as_page else as_text(document(), as_json=as_json))
    return EXIT_OK


def as_text(made: dict[str, Any], *, as_json: bool) -> str:
    """A document as YAML, or as JSON."""
    if as_json:
        return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    written: str = yaml.dump(made, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return _HEAD + written
