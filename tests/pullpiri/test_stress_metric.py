"""Pullpiri's stress metric is taken as it is, on the topic of the workload's own metrics."""

import json
from typing import Any

import msgpack
import pytest

from components.settings import ThresholdSettings
from schemas.codec import Malformed, decode
from schemas.metrics import VALUES_MAX, AppMetrics
from schemas.operations import RejectReason
from schemas.performance import PerfDegraded
from tests.monitoring_server.car import Car

TOPIC = "metrics/hpc-1/app/navigation_router"
STRESS = {
    "process_name": "router",
    "pid": 4711,
    "core_masking": "0x0000C",
    "core_count": 4,
    "fps": 23.5,
    "latency": 450,
    "cpu_loads": [{"core_id": 2, "load": 97.5}, {"core_id": 3, "load": 12}],
}


def read(body: dict[str, Any]) -> AppMetrics:
    found = decode(TOPIC, json.dumps(body).encode())
    assert isinstance(found, AppMetrics), found
    return found


def test_latency_frames_and_loads_are_read_with_their_units() -> None:
    found = read(STRESS)
    assert (found.node, found.workload_id) == ("hpc-1", "navigation_router")
    assert (found.latency_ms, found.fps, found.throughput) == (450, 23.5, None)
    assert found.values == {"cpu_load_2": 97.5, "cpu_load_3": 12}


def test_messagepack_does_as_well() -> None:
    assert decode(TOPIC, msgpack.packb(STRESS)) == read(STRESS).model_copy(update={"wire": "msgpack"})


def test_a_slow_one_raises_an_event() -> None:
    car = Car(ThresholdSettings(workload="navigation_router", latency_ms=300))
    events = []
    for _ in range(3):
        car.now += 1
        events += car.hear(read(STRESS))
    assert [type(event) for event in events] == [PerfDegraded]


def test_what_it_may_leave_out_may_be_missing() -> None:
    found = read({"process_name": "router", "pid": 1, "fps": 30, "latency": 12, "cpu_loads": []})
    assert (found.latency_ms, found.values) == (12, {})


def test_our_own_words_stand_beside_it() -> None:
    found = read({**STRESS, "latency_ms": 20, "values": {"queue": 3}})
    assert (found.latency_ms, found.values) == (20, {"queue": 3})


@pytest.mark.parametrize(
    "loads", [None, 5, "high", {"0": 1}, [1, "x"], [{"core_id": "0", "load": 1}], [{"load": 1}]]
)
def test_loads_of_another_shape_are_an_unknown_field(loads: Any) -> None:
    assert read({**STRESS, "cpu_loads": loads}).values == {}


def test_of_very_many_cores_the_first_are_kept() -> None:
    loads = [{"core_id": core, "load": 1.0} for core in range(200)]
    assert len(read({**STRESS, "cpu_loads": loads}).values) == VALUES_MAX


@pytest.mark.parametrize(
    ("field", "value"),
    [("latency", "slow"), ("latency", -1), ("fps", "many"), ("cpu_loads", [{"core_id": 0, "load": "?"}])],
)
def test_a_number_that_is_none_is_no_metric(field: str, value: Any) -> None:
    found = decode(TOPIC, json.dumps({**STRESS, field: value}).encode())
    assert isinstance(found, Malformed)
    assert found.reason is RejectReason.INVALID


def test_somebody_elses_latency_is_not_guessed_at() -> None:
    assert read({"latency": 450}).latency_ms is None


@pytest.mark.parametrize("values", [5, "x", [1], [["a", 1]]])
def test_values_of_another_shape_are_refused_and_stop_nobody(values: Any) -> None:
    found = decode(TOPIC, json.dumps({**STRESS, "values": values}).encode())
    assert isinstance(found, Malformed)
