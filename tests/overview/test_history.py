"""Points for charts: of those workloads that somebody cares for, and no more than fit."""

from components.overview.history import POINTS_MAX, History, Series
from components.overview.names import NODES_MAX, Names
from components.overview.overview import SETTLE_MS, Overview
from schemas.codec import Cleared
from schemas.enums import SnapshotTrigger
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse
from schemas.node import ContainerReport, NodeInfo, NodeSnapshot
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


def snapshot(node: str, runtime_id: str) -> NodeSnapshot:
    report = ContainerReport(workload_id="cam", runtime_id=runtime_id)
    return NodeSnapshot(node=node, boot_id=1, seq=1, trigger=SnapshotTrigger.START, containers=(report,))


def kept(history: History, workload: str) -> Series | None:
    """The points of a workload, without following it."""
    return history._series.get(("n", workload))


def test_latency_and_limits_of_a_workload_that_measures_itself_are_kept() -> None:
    history = History(Names())
    history.hear(app(), 1_000)
    history.hear(used("cam", "other"), 1_001)

    series = kept(history, "cam")
    assert series is not None
    assert [(point.at_ms, point.latency_ms) for point in series.measured] == [(1_000, 10.0)]
    assert [(point.at_ms, point.limits.cpu_limit) for point in series.used] == [(1_001, 500)]
    assert kept(history, "other") is None, "nobody cares for it"


def test_an_application_that_measures_itself_under_its_container_id_has_its_points_with_the_container() -> None:
    seen = Overview()
    history = History(seen.measures.names)
    for message in (snapshot("n", "f" * 64), app("f" * 64), used("cam")):
        seen.hear(message, 1)
        history.hear(message, 1)

    series = kept(history, "cam")
    assert series is not None
    assert (len(series.measured), len(series.used), len(history)) == (1, 1, 1)


def test_nodes_that_went_away_during_an_outage_give_room_for_the_names_on_others() -> None:
    seen = Overview()
    history = History(seen.measures.names)

    def hear(message: Message, now_ms: int, *, retained: bool = False) -> None:
        seen.hear(message, now_ms, retained=retained)
        history.hear(message, now_ms)

    for number in range(NODES_MAX):
        hear(NodeInfo(node=f"old-{number}", boot_id=1, total=Amount()), 1, retained=True)
        hear(snapshot(f"old-{number}", "e" * 64), 1, retained=True)
    seen.reconnected(1_000)
    hear(used("cam"), 1_000 + SETTLE_MS)

    hear(snapshot("n", "f" * 64), 10_000)
    hear(app("f" * 64), 10_001)

    assert kept(history, "cam") is not None


def test_what_degrades_is_followed_with_its_threshold() -> None:
    history = History(Names())
    over = Indicator(metric="latency_ms", value=450, threshold=300)
    history.hear(PerfDegraded(event_id="e", episode_id="p", node="n", workload_id="cam", indicators=(over,)), 1)
    history.hear(used("cam"), 2)

    series = kept(history, "cam")
    assert series is not None
    assert series.thresholds == {"latency_ms": 300}
    assert len(series.used) == 1


def test_what_is_scaled_or_followed_takes_the_place_of_what_nobody_cared_for_longest() -> None:
    history = History(Names(), workloads=2)
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
    history = History(Names())
    for number in range(POINTS_MAX + 5):
        history.hear(app(), number)
    series = kept(history, "cam")
    assert series is not None
    assert (len(series.measured), series.measured[0].at_ms) == (POINTS_MAX, 5)

    history.hear(Cleared(ResourceState, {"node": "n", "workload_id": "cam"}), 1)
    assert kept(history, "cam") is None
