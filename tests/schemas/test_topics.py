"""The registry says what the design says: every topic with its message, QoS, retain flag, writers and readers."""

from pathlib import Path

import pytest

import schemas
from schemas.codec import encode
from schemas.enums import ConnectionState
from schemas.message import Message
from schemas.metrics import AppMetrics, ContainerMetrics, NodeMetrics
from schemas.node import NodeInfo, NodeSnapshot, StatusReply, StatusRequest, UpdateReply, UpdateRequest
from schemas.operations import ComponentStatus, DeadLetter
from schemas.performance import PerfDegraded, PerfOutcome, PerfRecovered
from schemas.resources import (
    ActualReply,
    ActualReport,
    DesiredReply,
    DesiredRequest,
    NodeCapacity,
    Reconcile,
    ResourceState,
    ValidateReply,
    ValidateRequest,
)
from schemas.scaling import ScalingAction, ScalingControl, ScalingStatus
from schemas.topics import DEBUG_PREFIX, TOPICS, Role, Topic, lookup, topic_of

CONTRACT: list[tuple[str, type[Message], int, bool, str, str]] = [
    # template, message, QoS, retained, writers, readers
    ("metrics/{node}/node", NodeMetrics, 0, False, "node_agent", "monitoring_server"),
    ("metrics/{node}/containers", ContainerMetrics, 0, False, "node_agent", "monitoring_server"),
    ("metrics/{node}/app/{workload}", AppMetrics, 0, False, "application", "monitoring_server"),
    ("perf/degraded", PerfDegraded, 1, False, "monitoring_server", "policy_manager"),
    ("perf/recovered", PerfRecovered, 1, False, "monitoring_server", "policy_manager"),
    ("perf/outcome", PerfOutcome, 1, False, "policy_manager", "monitoring_server"),
    ("scaling/action", ScalingAction, 1, False, "anyone cli dashboard policy_manager", "action_controller"),
    ("scaling/status", ScalingStatus, 1, False, "action_controller", "anyone cli policy_manager"),
    ("resources/validate", ValidateRequest, 1, False, "action_controller cli", "resource_manager"),
    ("resources/validate/reply", ValidateReply, 1, False, "resource_manager", "action_controller cli"),
    ("resources/desired", DesiredRequest, 1, False, "action_controller", "resource_manager"),
    ("resources/desired/reply", DesiredReply, 1, False, "resource_manager", "action_controller"),
    ("resources/actual", ActualReport, 1, False, "action_controller", "resource_manager"),
    ("resources/actual/reply", ActualReply, 1, False, "resource_manager", "action_controller"),
    ("resources/reconcile", Reconcile, 1, False, "resource_manager", "action_controller"),
    (
        "resources/state/{node}/{workload}",
        ResourceState,
        1,
        True,
        "resource_manager",
        "anyone cli policy_manager resource_manager",
    ),
    ("resources/capacity/{node}", NodeCapacity, 1, True, "resource_manager", "action_controller anyone cli"),
    ("node/{node}/update", UpdateRequest, 1, False, "action_controller anyone", "node_agent"),
    ("node/{node}/update/reply", UpdateReply, 1, False, "node_agent", "action_controller anyone"),
    ("node/{node}/status/get", StatusRequest, 1, False, "anyone cli resource_manager", "node_agent"),
    ("node/{node}/status/reply", StatusReply, 1, False, "node_agent", "anyone cli resource_manager"),
    ("node/{node}/actual", NodeSnapshot, 1, True, "node_agent", "monitoring_server resource_manager"),
    (
        *("node/{node}/info", NodeInfo, 1, True, "node_agent"),
        "action_controller anyone cli monitoring_server resource_manager",
    ),
    ("component/{component}/{instance}", ComponentStatus, 1, True, "each", "anyone cli each"),
    ("control/scaling", ScalingControl, 1, True, "cli", "policy_manager"),
    ("deadletter/{component}", DeadLetter, 0, False, "each", "anyone cli"),
]

EACH = frozenset(
    {
        Role.MONITORING_SERVER,
        Role.POLICY_MANAGER,
        Role.ACTION_CONTROLLER,
        Role.RESOURCE_MANAGER,
        Role.NODE_AGENT,
        Role.DEBUG_TAP,
        Role.DASHBOARD,
    }
)

ANSWERABLE: dict[type[Message], tuple[str, ...]] = {
    ScalingAction: ("action_id",),
    ValidateRequest: ("id", "node", "workload_id"),
    DesiredRequest: ("id", "node", "workload_id"),
    ActualReport: ("id", "node", "workload_id"),
    UpdateRequest: ("id", "node", "workload_id"),
    StatusRequest: ("id", "node"),
    PerfDegraded: ("event_id", "node", "workload_id"),
    PerfRecovered: ("event_id", "node", "workload_id"),
}


def names(roles: frozenset[Role]) -> str:
    """The roles as the table above writes them."""
    rest = roles - EACH if roles >= EACH else roles
    return " ".join(sorted([*rest, *(["each"] if roles >= EACH else [])]))


def table_of(topics: tuple[Topic, ...]) -> str:
    """The registry as schemas/README.md shows it."""
    head = ["| topic | message | QoS | retained | writers | readers |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *map(_row, topics)])


def _row(topic: Topic) -> str:
    retained = "yes" if topic.retained else "no"
    writers, readers = (names(roles).replace(" ", ", ") for roles in (topic.writers, topic.readers))
    return f"| `{topic.template}` | {topic.message.__name__} | {topic.qos} | {retained} | {writers} | {readers} |"


def test_the_registry_is_the_contract_row_by_row() -> None:
    registry = [(t.template, t.message, t.qos, t.retained, names(t.writers), names(t.readers)) for t in TOPICS]
    assert registry == CONTRACT


def test_the_readme_shows_the_registry() -> None:
    readme = Path(str(schemas.__file__)).with_name("README.md").read_text(encoding="utf-8")
    assert table_of(TOPICS) in readme, f"put this table into schemas/README.md:\n{table_of(TOPICS)}"


def test_only_requests_with_an_answer_say_what_suffices_to_answer_them() -> None:
    assert {topic.message: topic.message.identity for topic in TOPICS if topic.message.identity} == ANSWERABLE


def test_nothing_of_the_registry_lies_where_people_watch_the_debug_copies() -> None:
    assert not [topic.template for topic in TOPICS if topic.template.startswith(DEBUG_PREFIX)]


def test_no_address_belongs_to_two_topics() -> None:
    for topic in TOPICS:
        address = topic.address(dict.fromkeys(topic.fields, "x"))
        found = lookup(address)
        assert found is not None
        assert found[0] is topic


def test_a_node_may_be_called_like_a_topic_level() -> None:
    found = lookup("node/update/update/reply")
    assert found is not None
    assert (found[0].message, dict(found[1])) == (UpdateReply, {"node": "update"})


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/",
        "perf",
        "perf/degraded/",
        "/perf/degraded",
        "PERF/degraded",
        "metrics/n/app",
        "metrics//node",
        "metrics/a b/node",
        "metrics/+/node",
        "metrics/#",
        f"metrics/{'n' * 129}/node",
        "debug/perf/degraded",
        "$SYS/broker/uptime",
    ],
)
def test_foreign_topics_are_not_taken_for_ours(address: str) -> None:
    assert lookup(address) is None


def test_a_filter_covers_all_nodes_or_one() -> None:
    topic = topic_of(AppMetrics)
    assert topic.filter() == "metrics/+/app/+"
    assert topic.filter(node="hpc-1") == "metrics/hpc-1/app/+"
    assert topic.filter(node="hpc-1", workload_id="nav") == "metrics/hpc-1/app/nav"


@pytest.mark.parametrize("node", ["", "a/b", "a b", "+", "#", "n" * 129, "ü", "a\n"])
def test_a_name_that_is_no_topic_level_cannot_be_published(node: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in the topic"):
        topic_of(NodeMetrics).address({"node": node})


def test_a_message_goes_to_the_address_that_its_fields_name() -> None:
    status = ComponentStatus(component="node_agent", instance="hpc-1", state=ConnectionState.READY, boot_id=7)
    frame = encode(status)
    assert (frame.topic, frame.qos, frame.retain) == ("component/node_agent/hpc-1", 1, True)
