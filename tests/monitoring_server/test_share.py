"""Several MonitoringServers: every node is watched by exactly one, and what is of no node is heard by all."""

import pytest

from components.monitoring_server.share import Share
from components.settings import Settings

PARTS = [Share(number, 3) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    "topic",
    [
        "metrics/{}/node",
        "metrics/{}/containers",
        "metrics/{}/app/camera",
        "node/{}/info",
        "node/{}/actual",
        "component/node_agent/{}",
    ],
)
def test_every_node_belongs_to_exactly_one_part_whatever_it_says(topic: str) -> None:
    for number in range(300):
        node = f"ecu-{number}"
        owners = [part.number for part in PARTS if part.has(topic.format(node))]
        expected = [part.number for part in PARTS if part.has(f"metrics/{node}/node")]
        assert owners == expected
        assert len(owners) == 1


def test_parts_are_about_equal() -> None:
    counts = [sum(part.has(f"metrics/ecu-{number}/node") for number in range(3000)) for part in PARTS]
    assert min(counts) > 800, counts


def test_outcomes_are_heard_by_all() -> None:
    assert all(part.has("perf/outcome") for part in PARTS)


def test_a_lone_server_is_main_and_others_say_which_they_are() -> None:
    assert Share(1, 1).name == "main"
    assert Share(2, 3).name == "2-of-3"


@pytest.mark.parametrize("partition", ["0/1", "3/2", "1", "1/0", "1/100", "a/b"])
def test_a_part_that_cannot_be_is_refused_at_start(partition: str) -> None:
    with pytest.raises(ValueError, match="partition"):
        Settings.model_validate({"monitoring": {"partition": partition}})
