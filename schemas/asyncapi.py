"""The contract as an AsyncAPI 3.0 document, made from the registry of topics, the message types and the examples.

Pure data in, pure data out: the command `piriscale schema` writes it, `schemas/asyncapi.yaml` is its copy.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic.json_schema import models_json_schema

from schemas.codec import MESSAGE_BYTES_MAX, encode
from schemas.enums import Reason
from schemas.examples import EXAMPLES
from schemas.meanings import MEANINGS
from schemas.message import NAME_LENGTH_MAX, Id, Message, Name, Reply, Request, Wire
from schemas.node import StatusReply, StatusRequest, UpdateReply, UpdateRequest
from schemas.resources import (
    ActualReply,
    ActualReport,
    Attempt,
    DesiredReply,
    DesiredRequest,
    ValidateReply,
    ValidateRequest,
)
from schemas.topics import DEBUG_PREFIX, FIELD_OF_PLACEHOLDER, TOPICS, Role, Topic, topic_of

CONTRACT_VERSION: Final = "1.0.0"
"""Its first number is `v` of the messages; the second grows when a topic, a message or a field is added."""

JSON_TYPE: Final = "application/json"
MSGPACK_TYPE: Final = "application/vnd.msgpack"

REPLIES: Final[Mapping[type[Request], type[Reply]]] = {
    ValidateRequest: ValidateReply,
    DesiredRequest: DesiredReply,
    ActualReport: ActualReply,
    UpdateRequest: UpdateReply,
    StatusRequest: StatusReply,
}
"""The answer of each request that has one."""

_OF_ITS_TYPE: Final = (None, *(get_args(kind)[1].description for kind in (Name, Id, Attempt)))
"""Descriptions that say what the type is, not what the field means."""

_MQTT_BINDING: Final = "0.2.0"
_SCHEMA_AT: Final = "#/components/schemas/{model}"

_DESCRIPTION: Final = f"""\
Run-time CPU and memory scaling for containers on vehicle computers.

- Every message is a map, written as MessagePack ({MSGPACK_TYPE}). JSON ({JSON_TYPE}) is accepted on every topic,
  if its first byte is an opening brace or white space; a request or an action in JSON is answered in JSON.
- On input only the fields listed as required are needed; those that the topic carries may be left out. On output
  absent values are left out, never null. Unknown fields are ignored, but an unknown *limit* is refused
  (`{Reason.UNSUPPORTED}`): ignoring it would be a lie.
- At most {MESSAGE_BYTES_MAX} bytes; no NaN, no infinities, no binary values.
- CPU is millicores, memory MiB, both integers. In a target or a desired state an absent limit is not asked for;
  in an actual state it is unlimited.
- MQTT 3.1.1 is enough: nothing depends on properties of MQTT 5. Metrics may be published with QoS 0 or 1.
- A configured `topic_prefix` stands before every address. Under `{DEBUG_PREFIX}` every message is repeated as
  JSON, for people. An empty payload on a retained topic deletes what is retained.
"""

_ROLES: Final = {
    Role.MONITORING_SERVER: "watches metrics, raises performance events",
    Role.POLICY_MANAGER: "decides whether, and to what limits, to scale",
    Role.ACTION_CONTROLLER: "carries out one scaling step by step",
    Role.RESOURCE_MANAGER: "owns capacity, reservations and the desired state",
    Role.NODE_AGENT: "changes limits of running containers, reads from the kernel what is in force",
    Role.DEBUG_TAP: "repeats every message as JSON, for people",
    Role.DASHBOARD: "shows the live picture as a web page",
    Role.CLI: "the command piriscale",
    Role.APPLICATION: "an application, or an ECU that watches it",
    Role.ANYONE: "whoever the broker's access rules let in",
}

_PARAMETERS: Final = {
    "node": ("The node, as its agent is called.", "hpc-1"),
    "workload": ("The container's name, or its full id.", "navigation"),
    "component": ("What kind of component.", "node_agent"),
    "instance": ("Which one: the node for agents, else main.", "main"),
}


def document() -> dict[str, Any]:
    """The whole document, of plain maps, lists, text and numbers."""
    made = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "piriscale",
            "version": CONTRACT_VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
            "tags": [{"name": role, "description": text} for role, text in _ROLES.items()],
        },
        "defaultContentType": MSGPACK_TYPE,
        "servers": {
            "vehicle": {
                "host": "127.0.0.1:1883",
                "protocol": "mqtt",
                "description": "The broker of the vehicle, as `piriscale up` starts it; yours may be elsewhere.",
            }
        },
        "channels": {_channel_id(topic): _channel(topic) for topic in TOPICS},
        "operations": dict(_operation(role, action, topic) for role, action, topic in _operations()),
        "components": {
            "parameters": {name: _parameter(*told) for name, told in _PARAMETERS.items()},
            "messages": {topic.message.__name__: _message(topic) for topic in TOPICS},
            "schemas": _schemas(),
        },
    }
    plain: dict[str, Any] = json.loads(json.dumps(made))  # enums become text, and nothing is shared
    return plain


def _channel_id(topic: Topic) -> str:
    name = topic.message.__name__
    return name[0].lower() + name[1:]


def _channel(topic: Topic) -> dict[str, Any]:
    name = topic.message.__name__
    placeholders = [level[1:-1] for level in topic.template.split("/") if level in FIELD_OF_PLACEHOLDER]
    channel: dict[str, Any] = {
        "address": topic.template,
        "description": f"QoS {topic.qos}, {'retained' if topic.retained else 'not retained'}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
    }
    if placeholders:
        channel["parameters"] = {one: {"$ref": f"#/components/parameters/{one}"} for one in placeholders}
    return channel


def _parameter(description: str, example: str) -> dict[str, Any]:
    allowed = f"Letters, digits, '.', '_' and '-', at most {NAME_LENGTH_MAX}."
    return {"description": f"{description} {allowed}", "examples": [example]}


def _operations() -> list[tuple[Role, str, Topic]]:
    """Who sends and receives what, component by component."""
    return [
        (role, action, topic)
        for role in Role
        for action, party in (("receive", "readers"), ("send", "writers"))
        for topic in TOPICS
        if role in getattr(topic, party)
    ]


def _operation(role: Role, action: str, topic: Topic) -> tuple[str, dict[str, Any]]:
    name = topic.message.__name__
    operation: dict[str, Any] = {
        "action": action,
        "channel": {"$ref": f"#/channels/{_channel_id(topic)}"},
        "messages": [_message_of(topic)],
        "tags": [{"name": role}],
        "bindings": {"mqtt": {"qos": topic.qos, "retain": topic.retained, "bindingVersion": _MQTT_BINDING}},
    }
    answer = REPLIES.get(topic.message) if issubclass(topic.message, Request) else None
    if answer is not None:
        reply = topic_of(answer)
        operation["reply"] = {
            "channel": {"$ref": f"#/channels/{_channel_id(reply)}"},
            "messages": [_message_of(reply)],
        }
    return f"{role}.{action}.{name}", operation


def _message_of(topic: Topic) -> dict[str, str]:
    return {"$ref": f"#/channels/{_channel_id(topic)}/messages/{topic.message.__name__}"}


def _message(topic: Topic) -> dict[str, Any]:
    kind = topic.message
    summary, _, rest = (kind.__doc__ or "").partition("\n")
    example = EXAMPLES[kind]
    frame = encode(example)
    message: dict[str, Any] = {
        "name": kind.__name__,
        "summary": summary,
        "payload": {"$ref": _SCHEMA_AT.format(model=kind.__name__)},
        "examples": [{"summary": frame.topic, "payload": json.loads(encode(example, Wire.JSON).payload)}],
        "x-messagepack-hex": frame.payload.hex(),
    }
    if rest.strip():
        message["description"] = " ".join(rest.split())
    where = _correlation(kind)
    if where is not None:
        message["correlationId"] = {"location": f"$message.payload#/{where}"}
    return message


def _correlation(kind: type[Message]) -> str | None:
    """The field by which a message belongs to others, if there is one."""
    if issubclass(kind, Reply):
        return "in_reply_to"
    if issubclass(kind, Request):
        return "id"
    return next((field for field in ("action_id", "event_id") if field in kind.model_fields), None)


def _schemas() -> dict[str, Any]:
    """The payload of every message and what they share, as JSON Schema (draft 7) describes what is on the wire."""
    kinds = [topic.message for topic in TOPICS]
    _, found = models_json_schema([(kind, "validation") for kind in kinds], ref_template=_SCHEMA_AT)
    schemas: dict[str, Any] = found["$defs"]
    for kind in kinds:
        schema = schemas[kind.__name__]
        del schema["properties"]["wire"]  # how it came is known from its bytes
        carried = set(topic_of(kind).fields)
        needed = [field for field in schema.pop("required", []) if field not in carried]
        if needed:
            schema["required"] = needed
    del schemas[Wire.__name__]
    for name, schema in schemas.items():
        for field, told in schema.get("properties", {}).items():
            meaning = MEANINGS.get(f"{name}.{field}", MEANINGS.get(field))
            if meaning is not None and told.get("description") in _OF_ITS_TYPE:
                told["description"] = meaning
    return {name: _on_the_wire(schema) for name, schema in sorted(schemas.items())}


def _on_the_wire(schema: Any) -> Any:
    """A schema without null, which is never sent, and without names that only repeat the field's."""
    if isinstance(schema, list):
        return [_on_the_wire(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: part for key, part in schema.items() if not _noise(key, part)}
    options = [option for option in kept.pop("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        kept = {**options[0], **kept}
    elif options:
        kept["anyOf"] = options
    if "$ref" in kept and len(kept) > 1:  # what stands beside a reference would be ignored
        kept["allOf"] = [{"$ref": kept.pop("$ref")}]
    if "description" in kept and isinstance(kept["description"], str):
        kept["description"] = " ".join(kept["description"].split())
    return {key: _on_the_wire(part) for key, part in kept.items()}


def _noise(key: str, part: Any) -> bool:
    return (key == "title" and isinstance(part, str)) or (key == "default" and part is None)
