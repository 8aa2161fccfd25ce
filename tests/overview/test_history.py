"""Points for charts: of those workloads that somebody cares for, and no more than fit."""

from components.overview.history import POINTS_MAX, History, Series
from schemas.codec import Cleared
from schemas.enums import SnapshotTrigger
from schemas.limits import Amount, Limits
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse
from schemas.node import ContainerReport, NodeSnapshot
from schemas.performance import Indicator, PerfDegraded
from schemas.resources import ResourceState
from schemas.scaling import ScalingAction


def app(name: str = "cam", latency_ms: float = 10.0) -> AppMetrics:
    return AppMetrics(node="n", workload_id=name, latency_ms=latency_ms)


def used(*names: str) -> ContainerMetrics:
    one = Amount(cpu=100, memory=64)
    limits = Limits(cpu_limit=500)
    return ContainerMetrics(
        node="n", containers=tuple(ContainerUse(workload_id=name, usage=one, limits=limits) for name in names)
    )


def kept(history: History, workload: str) -> Series | None:
    """The points of a workload, without following it."""
    return history._series.get(("n", workload))


def test_latency_and_limits_of_a_workload_that_measures_itself_are_kept() -> None:
    history = History()
    history.hear(app(), 1_000)
    history.hear(used("cam", "other"), 1_001)

    series = kept(history, "cam")
    assert series is not None
    assert [(point.at_ms, point.latency_ms) for point in series.measured] == [(1_000, 10.0)]
    assert [(point.at_ms, point.limits.cpu_limit) for point in series.used] == [(1_001, 500)]
    assert kept(history, "other") is None, "nobody cares for it"


def test_an_application_that_measures_itself_under_its_container_id_has_its_points_with_the_container() -> None:
    history = History()
    report = ContainerReport(workload_id="cam", runtime_id="f" * 64)
    history.hear(NodeSnapshot(node="n", boot_id=1, seq=1, trigger=SnapshotTrigger.START, containers=(report,)), 1)
    history.hear(app("f" * 64), 2)
    history.hear(used("cam"), 3)

    series = kept(history, "cam")
    assert series is not None
    assert (len(series.measured), len(series.used), len(history)) == (1, 1, 1)


def test_what_degrades_is_followed_with_its_threshold() -> None:
    history = History()
    over = Indicator(metric="latency_ms", value=450, threshold=300)
    history.hear(PerfDegraded(event_id="e", episode_id="p", node="n", workload_id="cam", indicators=(over,)), 1)
    history.hear(used("cam"), 2)

    series = kept(history, "cam")
    assert series is not None
    assert series.thresholds == {"latency_ms": 300}
    assert len(series.used) == 1


def test_what_is_scaled_or_followed_takes_the_place_of_what_nobody_cared_for_longest() -> None:
    history = History(workloads=2)
    for name in ("first", "second", "third"):
        history.hear(app(name), 1)
    assert kept(history, "third") is None, "measuring itself takes no other's place"

    history.follow("n", "first")
    history.hear(ScalingAction(action_id="a", node="n", workload_id="third", target=Limits(cpu_limit=1)), 2)

    assert kept(history, "second") is None
    assert kept(history, "first") is not None
    assert kept(history, "third") is not None
    assert len(history) == 2


def test_old_points_give_way_and_what_is_gone_is_forgotten() -> None:
    history = History()
    for number in range(POINTS_MAX + 5):
        history.hear(app(), number)
    series = kept(history, "cam")
    assert series is not None
    assert (len(series.measured), series.measured[0].at_ms) == (POINTS_MAX, 5)

    history.hear(Cleared(ResourceState, {"node": "n", "workload_id": "cam"}), 1)
    assert kept(history, "cam") is None
