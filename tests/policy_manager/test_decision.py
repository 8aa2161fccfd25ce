"""The decision as a table: what stands first wins."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.policy_manager.decision import Facts, NotRequired, Scale, decide, limits_in_force, restored
from components.quantities import LimitSettings
from components.settings import PolicySettings
from schemas.enums import Reason, SyncState
from schemas.limits import LARGEST_QUANTITY, Amount, Limits
from schemas.resources import ResourceState
from tests.policy_manager.desk import IDLE, degraded, recovered, state

MAXIMUM = LimitSettings(cpu=4000, memory=4096)
POLICY = PolicySettings(max=MAXIMUM)
DEGRADED = Facts(event=degraded("e-1"), policy=POLICY, state=state())


def used(cpu: int, memory: int) -> dict[str, Any]:
    return {"event": degraded("e-1", usage=Amount(cpu=cpu, memory=memory))}


def limited(**limits: int) -> dict[str, Any]:
    return {"state": state(actual=Limits.model_validate(limits))}


SCALED: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("CPU near its limit: CPU doubled", {}, {"cpu_limit": 2000}),
    ("memory near its limit: memory doubled", used(100, 500), {"memory_limit": 1024}),
    ("both near their limits: both doubled", used(900, 450), {"cpu_limit": 2000, "memory_limit": 1024}),
    ("exactly the percentage: counts as near", used(800, 0), {"cpu_limit": 2000}),
    (
        "another percentage",
        {**used(500, 0), "policy": PolicySettings(cpu_percent=50)},
        {"cpu_limit": 2000},
    ),
    ("another factor", {"policy": PolicySettings(factor=1.5)}, {"cpu_limit": 1500}),
    ("a factor that floating point gets wrong", {"policy": PolicySettings(factor=1.1)}, {"cpu_limit": 1100}),
    ("a tiny factor: at least one more", {"policy": PolicySettings(factor=1.00001)}, {"cpu_limit": 1001}),
    (
        "beyond the maximum: clipped to it",
        {"policy": PolicySettings(max=LimitSettings(cpu=1500))},
        {"cpu_limit": 1500},
    ),
    (
        "below the minimum: raised to it",
        {"policy": PolicySettings(min=LimitSettings(cpu=3000))},
        {"cpu_limit": 3000},
    ),
    (
        "CPU at its maximum, memory not: memory only",
        {**used(4000, 500), **limited(cpu_limit=4000, memory_limit=512)},
        {"memory_limit": 1024},
    ),
    ("memory unlimited, CPU near", limited(cpu_limit=1000), {"cpu_limit": 2000}),
    ("no maximum configured: the wire's is one", {"policy": PolicySettings()}, {"cpu_limit": 2000}),
    ("a pause and a cooldown that are over", {"paused": None, "cooldown_left_s": 0.0}, {"cpu_limit": 2000}),
]

REFUSED: list[tuple[str, dict[str, Any], Reason | None, str]] = [
    ("recovered", {"event": recovered("e-1")}, None, "recovered"),
    ("recovered while paused", {"event": recovered("e-1"), "paused": "everywhere"}, None, "recovered"),
    ("paused", {"paused": "on hpc-1"}, Reason.PAUSED, "paused on hpc-1"),
    ("paused comes before all else", {"paused": "everywhere", "state": None}, Reason.PAUSED, "everywhere"),
    ("no state", {"state": None}, Reason.NO_DATA, "nothing is known of nav on hpc-1"),
    ("no use", {"event": degraded("e-1", usage=None)}, Reason.NO_DATA, "the use of nav on hpc-1 is not known"),
    (
        "no limits, neither from state nor sample",
        {"event": degraded("e-1", limits=None), "state": state(actual=None, sync_state=SyncState.UNKNOWN)},
        Reason.NO_DATA,
        "the limits of nav on hpc-1 are not known",
    ),
    ("unlimited", limited(), Reason.UNLIMITED, "cpu 950m, unlimited, memory 100Mi, unlimited"),
    (
        "neither near",
        used(799, 100),
        Reason.NO_BOTTLENECK,
        "cpu 799m of 1000m (80 %), memory 100Mi of 512Mi (20 %)",
    ),
    ("idle", {"event": degraded("e-1", usage=IDLE)}, Reason.NO_BOTTLENECK, "neither is near its limit"),
    ("one unlimited, the other idle", limited(memory_limit=512), Reason.NO_BOTTLENECK, "cpu 950m, unlimited"),
    ("idle in cooldown", {**used(1, 1), "cooldown_left_s": 5.0}, Reason.NO_BOTTLENECK, "neither"),
    ("an action has not ended", {"open_action": "act-1"}, Reason.COOLDOWN, "action act-1 has not ended yet"),
    ("in cooldown", {"cooldown_left_s": 4.25}, Reason.COOLDOWN, "4.2 s of 10 s are left"),
    (
        "in cooldown at the maximum",
        {**used(4000, 0), **limited(cpu_limit=4000), "cooldown_left_s": 1.0},
        Reason.COOLDOWN,
        "1.0 s",
    ),
    (
        "at the maximum",
        {**used(3900, 0), **limited(cpu_limit=4000)},
        Reason.AT_MAXIMUM,
        "cpu 3900m of 4000m (98 %); the maximum is cpu 4000m, memory 4096Mi",
    ),
    ("above the maximum", {**used(7000, 0), **limited(cpu_limit=8000)}, Reason.AT_MAXIMUM, "maximum is cpu 4000m"),
    (
        "both at their maximum",
        {**used(4000, 4000), **limited(cpu_limit=4000, memory_limit=4096)},
        Reason.AT_MAXIMUM,
        "memory 4000Mi of 4096Mi",
    ),
]


@pytest.mark.parametrize(("expectation", "changed", "target"), SCALED, ids=[row[0] for row in SCALED])
def test_scaled(expectation: str, changed: dict[str, Any], target: dict[str, int]) -> None:
    decision = decide(replace(DEGRADED, **changed))
    assert isinstance(decision, Scale), expectation
    assert decision.target == Limits.model_validate(target)
    assert decision.base_generation == 7


@pytest.mark.parametrize(("expectation", "changed", "reason", "told"), REFUSED, ids=[row[0] for row in REFUSED])
def test_not_required(expectation: str, changed: dict[str, Any], reason: Reason | None, told: str) -> None:
    decision = decide(replace(DEGRADED, **changed))
    assert isinstance(decision, NotRequired), expectation
    assert decision.reason is reason
    assert told in decision.message


@pytest.mark.parametrize(
    ("expectation", "known", "sampled", "limits"),
    [
        (
            "desired once it is synchronized",
            {"desired": Limits(cpu_limit=2000), "actual": Limits(cpu_limit=1995, memory_limit=512)},
            None,
            Limits(cpu_limit=2000, memory_limit=512),
        ),
        (
            "actual while desired is under way",
            {
                "desired": Limits(cpu_limit=4000),
                "actual": Limits(cpu_limit=2000),
                "sync_state": SyncState.APPLYING,
            },
            Limits(cpu_limit=1),
            Limits(cpu_limit=2000),
        ),
        (
            "actual of an unmanaged container",
            {"desired": None, "actual": Limits(cpu_limit=2000), "sync_state": SyncState.UNKNOWN},
            Limits(cpu_limit=1),
            Limits(cpu_limit=2000),
        ),
        (
            "the sample when the actual is not known",
            {"desired": None, "actual": None, "sync_state": SyncState.UNKNOWN},
            Limits(cpu_limit=1500),
            Limits(cpu_limit=1500),
        ),
        ("nothing known", {"desired": None, "actual": None, "sync_state": SyncState.UNKNOWN}, None, None),
    ],
)
def test_limits_to_reckon_from(
    expectation: str, known: dict[str, Any], sampled: Limits | None, limits: Limits | None
) -> None:
    fields = {"sync_state": SyncState.SYNCHRONIZED, **known}
    told = ResourceState(node="hpc-1", workload_id="nav", generation=1, **fields)
    assert limits_in_force(told, sampled) == limits, expectation


@pytest.mark.parametrize(
    ("expectation", "current", "target"),
    [
        (
            "both raised: both back",
            {"cpu_limit": 4000, "memory_limit": 1024},
            {"cpu_limit": 1000, "memory_limit": 512},
        ),
        ("one raised: one back", {"cpu_limit": 4000, "memory_limit": 512}, {"cpu_limit": 1000}),
        ("none raised: nothing", {"cpu_limit": 1000, "memory_limit": 512}, {}),
        ("lowered since: stays low", {"cpu_limit": 500, "memory_limit": 512}, {}),
        ("unlimited since: not ours to limit", {"memory_limit": 1024}, {"memory_limit": 512}),
    ],
)
def test_back_to_the_baseline(expectation: str, current: dict[str, int], target: dict[str, int]) -> None:
    baseline = Limits(cpu_limit=1000, memory_limit=512)
    assert restored(baseline, Limits.model_validate(current)) == Limits.model_validate(target), expectation


@given(
    cpu=st.tuples(st.integers(0, 10_000), st.none() | st.integers(1, 10_000)),
    memory=st.tuples(st.integers(0, 10_000), st.none() | st.integers(1, 10_000)),
    factor=st.floats(1.001, 100),
    most=st.none() | st.integers(10, 20_000),
)
def test_a_target_only_ever_raises_what_is_near_its_limit_and_never_beyond_the_maximum(
    cpu: tuple[int, int | None], memory: tuple[int, int | None], factor: float, most: int | None
) -> None:
    policy = PolicySettings(factor=factor, max=LimitSettings(cpu=most, memory=most))
    event = degraded("e-1", usage=Amount(cpu=cpu[0], memory=memory[0]))
    limits = Limits(cpu_limit=cpu[1], memory_limit=memory[1])
    decision = decide(Facts(event=event, policy=policy, state=state(actual=limits)))
    if isinstance(decision, NotRequired):
        assert decision.reason in (Reason.UNLIMITED, Reason.NO_BOTTLENECK, Reason.AT_MAXIMUM)
        return
    assert not decision.target.empty
    for field, value in decision.target.asked.items():
        used, limit = cpu if field == "cpu_limit" else memory
        assert limit is not None
        assert 100 * used / limit >= 80
        assert limit < value <= min(most or LARGEST_QUANTITY, limit * factor + 1)
