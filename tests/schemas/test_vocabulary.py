"""Words and field names that outside clients rely on, written out: renaming one breaks somebody's ECU."""

from enum import StrEnum

import pytest

from schemas import enums
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.operations import RejectReason
from schemas.topics import TOPICS

WORDS = {
    enums.Reason: "INSUFFICIENT_CPU INSUFFICIENT_MEMORY INFEASIBLE INVALID_TARGET UNSUPPORTED UNKNOWN_NODE "
    "UNKNOWN_WORKLOAD NOT_RUNNING BELOW_USAGE PARENT_LIMIT RUNTIME_ERROR RUNTIME_TIMEOUT VERIFY_FAILED PARTIAL "
    "NODE_UNAVAILABLE QUERY_FAILED STORAGE_ERROR SUPERSEDED EXPIRED OVERLOADED COOLDOWN AT_MAXIMUM NO_BOTTLENECK "
    "UNLIMITED NO_DATA PAUSED",
    enums.SyncState: "UNKNOWN PENDING APPLYING SYNCHRONIZED DRIFT_DETECTED FAILED",
    enums.UpdateState: "UNKNOWN PENDING RUNNING SUCCESS FAILED",
    enums.TaskState: "PENDING RUNNING SUCCEEDED FAILED",
    enums.Phase: "accepted waiting validating recording updating confirming done",
    enums.ActionOutcome: "COMPLETED REJECTED FAILED INCONSISTENT",
    enums.EventOutcome: "NOT_REQUIRED COMPLETED REJECTED FAILED INCONSISTENT",
    enums.PerfStatus: "DEGRADED RECOVERED",
    enums.CauseType: "PERF CLI EXTERNAL RECONCILE RESTORE",
    enums.ReconcileCause: "UPDATE PERIODIC AGENT_START CONTAINER_START ROLLBACK STARTUP",
    enums.SnapshotTrigger: "START PERIODIC UPDATE CONTAINER",
    enums.DesiredOperation: "RECORD ABANDON",
    enums.UpdateResult: "SUCCESS PARTIAL FAILED",
    enums.Verdict: "SYNCHRONIZED RETRY FAILED",
    enums.OnShortage: "reject wait",
    enums.ConnectionState: "init ready disconnected lost",
    RejectReason: "too_large undecodable invalid contradiction unknown_topic handler_failed",
}

LIMITS = "cpu_limit memory_limit cpu_shares cpuset_cpus"
FIELDS = {
    "NodeMetrics": "node cpu_usage cpu_count used_memory total_memory rx_bytes tx_bytes read_bytes write_bytes",
    "ContainerMetrics": "node containers",
    "AppMetrics": "node workload_id latency_ms throughput fps values",
    "PerfDegraded": "event_id episode_id node workload_id indicators usage limits status",
    "PerfRecovered": "event_id episode_id node workload_id indicators usage limits status",
    "PerfOutcome": "event_id node workload_id action_id outcome reason message",
    "ScalingAction": "action_id node workload_id current target base_generation dry_run on_shortage wait_s cause",
    "ScalingStatus": "action_id node workload_id state phase outcome reason message desired actual generation "
    "dry_run cause timings_ms",
    "ValidateRequest": "node workload_id action_id attempt requested_cpu requested_memory base_generation reserve",
    "ValidateReply": "in_reply_to allowed reason message node workload_id available generation verdict",
    "DesiredRequest": "action_id attempt node workload_id operation target",
    "DesiredReply": "in_reply_to success generation desired runtime_id boot_id reason message verdict",
    "ActualReport": "action_id attempt node workload_id generation result actual reason message boot_id seq fence",
    "ActualReply": "in_reply_to verdict sync_state generation desired reason message",
    "Reconcile": "action_id node workload_id desired generation attempt boot_id runtime_id cause",
    "ResourceState": "node workload_id desired actual sync_state generation reason message last_failure since "
    "revision",
    "NodeCapacity": "node total allocated reserved available unlimited",
    "UpdateRequest": "node workload_id action_id attempt runtime_id generation boot_id deadline_ms " + LIMITS,
    "UpdateReply": "in_reply_to node action_id attempt success partial reason message workload_id runtime_id "
    "generation actual boot_id seq fence status",
    "StatusRequest": "node workload_id boot_id",  # boot_id is ours: an agent that lost its own hears of it
    "StatusReply": "in_reply_to node success reason message boot_id seq containers status",
    "NodeSnapshot": "node boot_id seq trigger truncated containers",
    "NodeInfo": "node boot_id total podman_version cgroup_version rootless simulated capabilities",
    "ComponentStatus": "component instance state boot_id version",
    "ScalingControl": "paused node workload",
    "DeadLetter": "component topic reason message head",
}

COMMON = {"v", "id", "ts", "source", "wire"}


@pytest.mark.parametrize(("kind", "words"), WORDS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_the_words_of_an_enum_are_the_contract(kind: type[StrEnum], words: str) -> None:
    assert [member.value for member in kind] == words.split()


def test_every_enum_is_listed_here() -> None:
    defined = {kind for kind in vars(enums).values() if isinstance(kind, type) and issubclass(kind, StrEnum)}
    assert defined - {StrEnum} <= set(WORDS)


@pytest.mark.parametrize("model", [topic.message for topic in TOPICS], ids=lambda model: model.__name__)
def test_the_own_fields_of_a_message_are_the_contract(model: type[Message]) -> None:
    assert set(model.model_fields) - COMMON == set(FIELDS[model.__name__].split())
    assert set(model.model_fields) >= COMMON


def test_limits_and_amounts_have_the_fields_of_the_contract() -> None:
    assert list(Limits.model_fields) == LIMITS.split()
    assert list(Amount.model_fields) == ["cpu", "memory"]


def test_every_field_that_carries_a_quantity_names_its_unit() -> None:
    for model in (Limits, Amount):
        for name in ("cpu_limit", "memory_limit", "cpu", "memory"):
            if name in model.model_fields:
                schema = model.model_json_schema()["properties"][name]
                assert any(unit in str(schema) for unit in ("millicores", "MiB")), (model, name)
