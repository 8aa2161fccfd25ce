"""What Prometheus sees of decisions: which workloads stand at the maximum of their policy."""

from pathlib import Path

from components.quantities import LimitSettings
from components.settings import PolicySettings
from schemas.codec import Cleared
from schemas.resources import ResourceState
from tests.policy_manager.desk import IDLE, LIMITS, Desk, degraded, recovered, state

CAPPED = PolicySettings(workload="nav", max=LimitSettings(cpu=LIMITS.cpu_limit), cooldown_s=0)


def at_maximum(desk: Desk) -> set[tuple[str, ...]]:
    """Node and workload of each."""
    samples = [sample for family in desk.manager.samples() for sample in family.samples]
    found = [sample for sample in samples if sample.name == "piriscale_workload_at_maximum"]
    assert {sample.value for sample in found} <= {1}
    return {tuple(sample.labels.values()) for sample in found}


def held_at_maximum(folder: Path) -> Desk:
    """One workload is degraded, busy, and may have no more."""
    desk = Desk(folder, CAPPED)
    desk.hear(state())
    assert at_maximum(desk) == set()
    desk.hear(degraded("e-1"))
    assert at_maximum(desk) == {("hpc-1", "nav")}
    return desk


def test_a_workload_at_its_maximum_is_shown_until_it_recovers(tmp_path: Path) -> None:
    desk = held_at_maximum(tmp_path)
    desk.hear(degraded("e-2"))
    assert at_maximum(desk) == {("hpc-1", "nav")}
    desk.hear(recovered("e-3"))
    assert at_maximum(desk) == set()


def test_a_workload_that_is_degraded_for_another_reason_is_not_at_its_maximum(tmp_path: Path) -> None:
    desk = held_at_maximum(tmp_path)
    desk.hear(degraded("e-2", usage=IDLE))
    assert at_maximum(desk) == set()


def test_a_workload_that_may_grow_again_is_not_at_its_maximum(tmp_path: Path) -> None:
    desk = held_at_maximum(tmp_path)
    lowered = LIMITS.model_copy(update={"cpu_limit": 500})
    desk.hear(state(8, lowered))
    assert desk.action(degraded("e-2", limits=lowered)).target.cpu_limit == LIMITS.cpu_limit
    assert at_maximum(desk) == set()


def test_a_removed_workload_leaves_no_series(tmp_path: Path) -> None:
    desk = held_at_maximum(tmp_path)
    desk.hear(Cleared(ResourceState, {"node": "hpc-1", "workload_id": "nav"}))
    assert at_maximum(desk) == set()
