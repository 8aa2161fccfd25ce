"""YAML with places: every value knows its file, its line and its path, so that a mistake can be shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from components.settings import SettingsError

FILE_BYTES_MAX: Final = 64 * 1024
"""A model has some hundred; YAML takes seconds for a megabyte, and components wait for it as they start."""
_NULL: Final = "tag:yaml.org,2002:null"


class ModelError(SettingsError):
    """A model cannot be read; the text names the file, the line, the field, and what is wrong with it."""


@dataclass(frozen=True)
class Place:
    """A value in a file."""

    file: Path
    path: str
    node: yaml.Node

    def wrong(self, text: str) -> ModelError:
        """The error that this value is."""
        return ModelError(f"{self.file}:{self.node.start_mark.line + 1}: {self.path or 'document'}: {text}")

    @property
    def text(self) -> str:
        """A scalar as it is written. Raises ModelError when it is none, or empty."""
        if not isinstance(self.node, yaml.ScalarNode) or self.empty:
            raise self.wrong("a text or number is needed")
        return str(self.node.value)

    @property
    def empty(self) -> bool:
        """Whether nothing stands here."""
        return isinstance(self.node, yaml.ScalarNode) and (self.node.tag == _NULL or not self.node.value)

    def find(self, key: str) -> "Place | None":
        """What a map has under a key; None: nothing. Raises ModelError when this is no map, or has it twice."""
        if self.empty:
            return None
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong("a map is needed")
        path = f"{self.path}.{key}" if self.path else key
        found = [Place(self.file, path, inner) for name, inner in self.node.value if name.value == key]
        if len(found) > 1:
            raise found[1].wrong("stands here for the second time")
        return found[0] if found and not found[0].empty else None

    def need(self, key: str) -> "Place":
        """What a map has under a key. Raises ModelError when there is nothing."""
        found = self.find(key)
        if found is None:
            raise self.wrong(f"{key} is missing")
        return found

    def each(self) -> Iterator["Place"]:
        """The entries of a list. Raises ModelError when this is none."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.wrong("a list is needed")
        for number, inner in enumerate(self.node.value):
            yield Place(self.file, f"{self.path}[{number}]", inner)


def documents(file: Path) -> Iterator[Place]:
    """The maps among the documents of a file. Raises ModelError for what is no YAML, or more than 64 KiB."""
    try:
        size = file.stat().st_size
        if not file.is_file():
            raise ModelError(f"{file}: neither a file nor a folder")
        if size > FILE_BYTES_MAX:
            raise ModelError(f"{file}: more than {FILE_BYTES_MAX} bytes; this is no model")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{file}: cannot be read: {error}") from error
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        raise ModelError(f"{file}: no YAML: {' '.join(str(error).split())}") from error
    return (Place(file, "", node) for node in nodes if isinstance(node, yaml.MappingNode))
