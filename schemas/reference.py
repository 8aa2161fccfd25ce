"""The contract as Markdown, for reading: every message with its topic, its fields and an example.

Made from the AsyncAPI document, so that both say the same; `schemas/messages.md` is its copy.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from schemas.asyncapi import document
from schemas.message import Message
from schemas.topics import FIELD_OF_PLACEHOLDER, TOPICS, Role, Topic

COMMON: Final = ("v", "id", "ts", "source")
_EACH: Final = frozenset(Role) - {Role.CLI, Role.APPLICATION, Role.ANYONE}

_HEAD: Final = """\
# Messages

<!-- Made by `piriscale schema --markdown` from the code beside it; not to be edited by hand. -->

Every message by its topic, with its own fields and an example. How messages are read, and the table of topics, are
in the [README](README.md); the same for machines is in [asyncapi.yaml](asyncapi.yaml).

A field in **bold** is needed on input. What the topic carries may be left out of the body and is not listed. All
messages have besides:
"""

_SHAPES_HEAD: Final = """\
## Shapes that messages share
"""

_WORDS_HEAD: Final = """\
## Words

Closed vocabularies; any other word is refused.
"""


def as_markdown() -> str:
    """The whole page."""
    made = document()
    schemas = made["components"]["schemas"]
    parts = [_HEAD, *_fields(schemas[TOPICS[0].message.__name__], COMMON), ""]
    for topic in TOPICS:
        parts += _section(topic, made["components"]["messages"][topic.message.__name__], schemas)
    words, shapes = {}, {}
    for name, schema in schemas.items():
        if "enum" in schema:
            words[name] = schema
        elif name not in made["components"]["messages"]:
            shapes[name] = schema
    parts.append(_SHAPES_HEAD)
    for name, schema in shapes.items():
        parts += [f"### {name}", "", schema.get("description", ""), "", *_fields(schema), ""]
    parts.append(_WORDS_HEAD)
    for name, schema in words.items():
        parts += [
            f"### {name}",
            "",
            schema["description"],
            "",
            ", ".join(f"`{word}`" for word in schema["enum"]),
            "",
        ]
    return "\n".join(parts)


def _section(topic: Topic, message: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    (example,) = message["examples"]
    hidden = {*COMMON, *(FIELD_OF_PLACEHOLDER[level] for level in topic.template.split("/") if level[0] == "{")}
    schema = schemas[topic.message.__name__]
    shown = [field for field in schema["properties"] if field not in hidden]
    yield f"## {topic.message.__name__}"
    yield ""
    retained = ", retained" if topic.retained else ""
    yield f"`{topic.template}` · QoS {topic.qos}{retained} · {_roles(topic.writers)} → {_roles(topic.readers)}"
    yield ""
    yield " ".join(part for part in (message["summary"], message.get("description", "")) if part)
    yield ""
    yield from _fields(schema, shown)
    yield ""
    yield f"`{example['summary']}`"
    yield "```json"
    yield json.dumps(_without_common(topic.message, example["payload"]), ensure_ascii=False)
    yield "```"
    yield ""


def _without_common(kind: type[Message], payload: Mapping[str, Any]) -> dict[str, Any]:
    needed = {name for name, field in kind.model_fields.items() if field.is_required()}
    return {name: value for name, value in payload.items() if name in needed or name not in COMMON}


def _fields(schema: Mapping[str, Any], shown: Any = None) -> Iterator[str]:
    yield "| field | is | meaning |"
    yield "|---|---|---|"
    needed = schema.get("required", [])
    for name, field in schema["properties"].items():
        if shown is None or name in shown:
            written = f"**{name}**" if name in needed else name
            meaning = field["description"].replace("schemas/reasons.md", "[reasons](reasons.md)")
            yield f"| {written} | {_type(field)} | {meaning} |"


def _type(field: Mapping[str, Any]) -> str:
    """The type of a field in a few words, with its default where that says something."""
    if "$ref" in field:
        return _anchor(field["$ref"].rsplit("/", 1)[-1])
    if "allOf" in field:
        return _type(field["allOf"][0]) + _default(field)
    if "const" in field:
        return f"`{field['const']}`"
    kind = str(field["type"])
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if kind == "object":
        inner = field.get("additionalProperties")
        return f"map of {_type(inner)}" if isinstance(inner, dict) else "map"
    return kind + _default(field)


def _default(field: Mapping[str, Any]) -> str:
    default = field.get("default")
    told = default not in (None, "", 0, False) and not isinstance(default, dict | list)
    return f" (`{default}`)" if told else ""


def _anchor(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _roles(roles: frozenset[Role]) -> str:
    rest = roles - _EACH if roles >= _EACH else roles
    return ", ".join([*(["each component"] if roles >= _EACH else []), *sorted(rest)])
