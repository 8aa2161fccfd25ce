"""What Prometheus sees of the ledger: nothing of what is gone, and which nodes can be reached."""

from schemas.codec import Cleared
from schemas.enums import ConnectionState, SyncState
from schemas.node import NodeInfo
from tests.resource_manager.bench import NODE, Bench, container, settings


def shown(bench: Bench) -> dict[tuple[str, ...], float]:
    """Values by name and labels."""
    families = bench.manager.samples()
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def nodes_and_workloads(bench: Bench) -> set[str]:
    """Every name that appears in any label."""
    families = bench.manager.samples()
    labels = [s.labels for family in families for s in family.samples]
    return {label[key] for label in labels for key in ("node", "workload") if key in label}


def drifting(bench: Bench) -> None:
    """One managed workload, and a change by hand."""
    bench.info()
    bench.agent_is(ConnectionState.READY)
    bench.snapshot(container("cam", 2000))
    bench.scaled("a-1", "cam", cpu_limit=3000)
    bench.snapshot(container("cam", 1000))


def test_an_agent_that_went_away_is_told_from_one_that_is_there() -> None:
    bench = Bench()
    bench.info()
    assert shown(bench)["piriscale_node_up", NODE] == 1, "known, and nothing bad was heard of it"
    bench.agent_is(ConnectionState.READY)
    assert shown(bench)["piriscale_node_up", NODE] == 1
    bench.agent_is(ConnectionState.LOST)
    assert shown(bench)["piriscale_node_up", NODE] == 0
    bench.agent_is(ConnectionState.READY, boot_id=101)
    assert shown(bench)["piriscale_node_up", NODE] == 1


def test_a_removed_workload_leaves_no_series() -> None:
    bench = Bench(rules=settings(absent_hold_s=1))
    bench.info()
    bench.snapshot(container("cam"), container("nav"))
    assert nodes_and_workloads(bench) == {NODE, "cam", "nav"}
    bench.snapshot(container("nav"))
    bench.snapshot(container("nav"))
    bench.after(3)
    assert nodes_and_workloads(bench) == {NODE, "nav"}
    assert [name for name in shown(bench) if "cam" in name] == []


def test_a_forgotten_node_leaves_no_series_not_even_of_its_drifts() -> None:
    bench = Bench(rules=settings(drift="report"))
    drifting(bench)
    assert shown(bench)["piriscale_sync_state", NODE, "cam", SyncState.DRIFT_DETECTED] == 1
    assert shown(bench)["piriscale_drift_total", NODE, "PERIODIC"] == 1
    bench.agent_is(ConnectionState.DISCONNECTED)
    bench.hear(Cleared(NodeInfo, {"node": NODE}))
    assert nodes_and_workloads(bench) == set()


def test_labels_beside_names_are_words_of_enums() -> None:
    bench = Bench(rules=settings(drift="report"))
    drifting(bench)
    states = {name[3] for name in shown(bench) if name[0] == "piriscale_sync_state"}
    assert states == set(SyncState)
