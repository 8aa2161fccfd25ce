"""The contract as AsyncAPI: valid by the official schema, complete, and true of what the codec does."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from jsonschema import Draft7Validator

import schemas
from components.cli.schema import as_text
from schemas.asyncapi import CONTRACT_VERSION, REPLIES, document
from schemas.codec import BadRequest, decode, encode
from schemas.enums import Reason
from schemas.examples import EXAMPLES
from schemas.message import Message, Reply, Wire
from schemas.scaling import ScalingAction
from schemas.topics import TOPICS, Role, Topic
from tests.schemas.strategies import any_message

OFFICIAL = Path(__file__).parents[1] / "fixtures" / "asyncapi-3.0.0" / "schema.json"
COMMITTED = Path(str(schemas.__file__)).with_name("asyncapi.yaml")
DOCUMENT = document()


def each_topic(topic: Topic) -> str:
    return topic.message.__name__


TOPIC = pytest.mark.parametrize("topic", TOPICS, ids=each_topic)


def official() -> Draft7Validator:
    return Draft7Validator(json.loads(OFFICIAL.read_text(encoding="utf-8")))


def payload_schema(kind: type[Message]) -> Draft7Validator:
    """What the document says of a payload, references and all."""
    return Draft7Validator({"$ref": f"#/components/schemas/{kind.__name__}", "components": DOCUMENT["components"]})


def resolved(reference: str) -> Any:
    found: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def operations(topic: Topic, action: str) -> list[dict[str, Any]]:
    """The operations that a topic has in the document."""
    return [
        operation
        for operation in DOCUMENT["operations"].values()
        if operation["action"] == action and resolved(operation["channel"]["$ref"])["address"] == topic.template
    ]


def parties(topic: Topic, action: str) -> set[str]:
    return {tag["name"] for operation in operations(topic, action) for tag in operation["tags"]}


def test_it_is_valid_asyncapi() -> None:
    assert [error.message for error in official().iter_errors(DOCUMENT)] == []


def test_the_official_schema_is_really_asked() -> None:
    wrong = deepcopy(DOCUMENT)
    wrong["operations"]["cli.send.ScalingAction"]["bindings"]["mqtt"]["qos"] = 3
    wrong["channels"]["perfDegraded"]["adress"] = "perf/degraded"
    wrong["components"]["messages"]["PerfDegraded"]["examples"] = [{"summary": "no payload"}]
    del wrong["info"]["version"]
    assert len(list(official().iter_errors(wrong))) >= 4


def test_every_payload_schema_is_itself_a_valid_schema() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft7Validator.check_schema(schema)


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    found = set(references(DOCUMENT))
    for reference in found:
        assert resolved(reference) is not None, reference
    shapes = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert shapes <= found


@TOPIC
def test_every_topic_has_its_channel_with_its_parameters_and_its_message(topic: Topic) -> None:
    (channel,) = [one for one in DOCUMENT["channels"].values() if one["address"] == topic.template]
    placeholders = {level[1:-1] for level in topic.template.split("/") if level.startswith("{")}
    assert set(channel.get("parameters", {})) == placeholders
    assert list(channel["messages"]) == [topic.message.__name__]
    assert ("not retained" in channel["description"]) is not topic.retained


def test_there_is_no_channel_beside_the_registry() -> None:
    assert len(DOCUMENT["channels"]) == len(TOPICS)


@TOPIC
def test_who_sends_and_who_receives_is_told_with_qos_and_retain_flag(topic: Topic) -> None:
    assert parties(topic, "send") == topic.writers
    assert parties(topic, "receive") == topic.readers
    for operation in [*operations(topic, "send"), *operations(topic, "receive")]:
        binding = operation["bindings"]["mqtt"]
        assert (binding["qos"], binding["retain"]) == (topic.qos, topic.retained)


def test_every_role_is_explained() -> None:
    assert {tag["name"] for tag in DOCUMENT["info"]["tags"]} == set(Role)


def test_a_request_names_where_its_reply_comes_and_no_reply_is_forgotten() -> None:
    assert set(REPLIES.values()) == {t.message for t in TOPICS if issubclass(t.message, Reply)}
    for topic in TOPICS:
        for operation in operations(topic, "send"):
            reply = operation.get("reply")
            assert (reply is not None) is (topic.message in REPLIES)
            if reply is not None:
                address = resolved(reply["channel"]["$ref"])["address"]
                assert address.endswith("/reply")
                assert address.split("/")[:2] == topic.template.split("/")[:2]


@TOPIC
def test_an_example_decodes_from_json_and_from_messagepack_to_the_same_message(topic: Topic) -> None:
    message = DOCUMENT["components"]["messages"][topic.message.__name__]
    (example,) = message["examples"]
    as_json = decode(example["summary"], json.dumps(example["payload"]).encode())
    as_packed = decode(example["summary"], bytes.fromhex(message["x-messagepack-hex"]))
    assert isinstance(as_json, topic.message)
    assert isinstance(as_packed, topic.message)
    assert as_json.model_copy(update={"wire": None}) == EXAMPLES[topic.message]
    assert as_packed.model_copy(update={"wire": None}) == EXAMPLES[topic.message]


@TOPIC
def test_an_example_is_what_its_schema_describes(topic: Topic) -> None:
    (example,) = DOCUMENT["components"]["messages"][topic.message.__name__]["examples"]
    payload_schema(topic.message).validate(example["payload"])


@given(message=any_message())
@settings(max_examples=60, deadline=None)
def test_whatever_we_can_say_the_schema_allows(message: Message) -> None:
    payload_schema(type(message)).validate(json.loads(encode(message, Wire.JSON).payload))


def spoiled(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The body with one field missing, or with a value that hardly fits."""
    for field in body:
        yield {name: value for name, value in body.items() if name != field}
        for value in (None, -1, 1.5, "", "a b", "x" * 5000, True, [], {}, [1], {"unknown": 1}, 2**60):
            yield {**body, field: value}


@TOPIC
def test_what_the_schema_allows_is_understood(topic: Topic) -> None:
    frame = encode(EXAMPLES[topic.message], Wire.JSON)
    schema = payload_schema(topic.message)
    refused = 0
    for body in spoiled(json.loads(frame.payload)):
        if any(body.get(field, value) != value for field, value in _carried(topic, frame.topic).items()):
            continue  # a contradiction to the topic; no schema of a payload can tell
        if not schema.is_valid(body):
            refused += 1
            continue
        read = decode(frame.topic, json.dumps(body).encode())
        assert isinstance(read, topic.message), (body, read)
    assert refused > 10, "and it does not allow everything"


def _carried(topic: Topic, address: str) -> dict[str, str]:
    levels = zip(topic.template.split("/"), address.split("/"), strict=True)
    values = [value for placeholder, value in levels if placeholder.startswith("{")]
    return dict(zip(topic.fields, values, strict=True))


def test_an_unknown_limit_is_refused_by_the_schema_as_by_the_codec() -> None:
    action = json.loads(encode(EXAMPLES[ScalingAction], Wire.JSON).payload)
    action["target"]["huge_pages"] = 4
    read = decode("scaling/action", json.dumps(action).encode())
    assert isinstance(read, BadRequest)
    assert read.reason is Reason.UNSUPPORTED
    assert not payload_schema(ScalingAction).is_valid(action)


def test_every_message_has_its_example() -> None:
    assert set(EXAMPLES) == {topic.message for topic in TOPICS}


def test_the_committed_file_is_current() -> None:
    committed = yaml.safe_load(COMMITTED.read_text(encoding="utf-8"))
    assert committed == DOCUMENT, "run: piriscale schema > schemas/asyncapi.yaml"


def test_yaml_and_json_say_the_same() -> None:
    assert (
        yaml.safe_load(as_text(DOCUMENT, as_json=False)) == json.loads(as_text(DOCUMENT, as_json=True)) == DOCUMENT
    )


def test_the_version_of_the_contract_begins_with_that_of_its_messages() -> None:
    versions = {str(topic.message.model_fields["v"].default) for topic in TOPICS}
    assert versions == {CONTRACT_VERSION.partition(".")[0]}
