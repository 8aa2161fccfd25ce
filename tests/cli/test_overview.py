"""What `status` calls to attention."""

import pytest

from components.cli.overview import Overview, attention
from schemas.codec import Cleared
from schemas.enums import ConnectionState, Reason, SyncState
from schemas.limits import Amount
from schemas.message import Message
from schemas.operations import ComponentStatus
from schemas.resources import NodeCapacity, ResourceState
from schemas.scaling import ScalingControl
from schemas.topics import Role

MAIN = (Role.MONITORING_SERVER, Role.POLICY_MANAGER, Role.ACTION_CONTROLLER, Role.RESOURCE_MANAGER)


def component(role: Role, instance: str = "main", state: str = "ready", boot_id: int = 1) -> ComponentStatus:
    return ComponentStatus(component=role, instance=instance, state=ConnectionState(state), boot_id=boot_id)


def capacity(allocated: int = 1000) -> NodeCapacity:
    return NodeCapacity(
        node="hpc-1",
        total=Amount(cpu=8000, memory=8192),
        allocated=Amount(cpu=allocated, memory=1024),
        reserved=Amount(cpu=800, memory=819),
        available=Amount(cpu=8000, memory=8192).less(Amount(cpu=allocated + 800, memory=1843)),
    )


def state(sync_state: SyncState, reason: Reason | None = None, message: str | None = None) -> ResourceState:
    return ResourceState(
        node="hpc-1", workload_id="cam", sync_state=sync_state, generation=1, reason=reason, message=message
    )


def seen(*more: Message | Cleared) -> Overview:
    """A system in which all is well, and then what was said more."""
    overview = Overview()
    well = [*(component(role) for role in MAIN), component(Role.NODE_AGENT, "hpc-1"), capacity()]
    for message in (*well, state(SyncState.SYNCHRONIZED), *more):
        overview.hear(message)
    return overview


def test_nothing_is_called_to_attention_when_all_is_well() -> None:
    assert attention(seen()) == []


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (component(Role.POLICY_MANAGER, state="lost"), "policy_manager is lost"),
        (component(Role.NODE_AGENT, "hpc-1", "disconnected"), "agent of hpc-1 is disconnected"),
        (component(Role.NODE_AGENT, "hpc-2", "lost"), "piriscale forget-node hpc-2"),
        (state(SyncState.FAILED, Reason.RUNTIME_ERROR, "runc: exit 1"), "FAILED: RUNTIME_ERROR runc: exit 1"),
        (state(SyncState.DRIFT_DETECTED), "cam on hpc-1 drifted"),
        (capacity(allocated=7900), "hpc-1 is overcommitted: 7900m cpu allocated and 800m reserved of 8000m"),
        (ScalingControl(paused=True, node="hpc-1"), "paused for hpc-1"),
        (ScalingControl(paused=True), "paused: `piriscale resume`"),
    ],
)
def test_what_is_wrong_is_called_to_attention(said: Message, says: str) -> None:
    (text,) = attention(seen(said))

    assert says in text


@pytest.mark.parametrize(
    "said",
    [
        ScalingControl(paused=False),
        component(Role.DEBUG_TAP, state="lost"),
        component(Role.POLICY_MANAGER, state="lost", boot_id=77),
        state(SyncState.APPLYING),
        state(SyncState.UNKNOWN),
        capacity(allocated=7200),
    ],
    ids=["resumed", "debug_tap", "will-of-an-earlier-life", "applying", "unknown", "exactly-full"],
)
def test_what_is_not_wrong_is_not(said: Message) -> None:
    assert attention(seen(said)) == []


def test_what_was_never_seen_is_called_to_attention_with_what_to_do() -> None:
    texts = attention(Overview())

    assert len(texts) == len(MAIN) + 1
    assert all("piriscale run" in text for text in texts)


def test_what_is_cleared_is_gone() -> None:
    gone = (
        Cleared(ResourceState, {"node": "hpc-1", "workload_id": "cam"}),
        Cleared(NodeCapacity, {"node": "hpc-1"}),
        Cleared(ComponentStatus, {"component": "node_agent", "instance": "hpc-1"}),
    )

    document = seen(*gone).document()

    assert document["workloads"] == document["nodes"] == []
    assert len(document["components"]) == len(MAIN)
