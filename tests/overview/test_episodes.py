"""Workloads that perform badly: shown as long as that lasts, and no longer, also when nobody says its end."""

from collections.abc import Callable

import pytest

from components.overview import episodes
from components.overview.actions import DOUBT_MS
from components.overview.names import WORKLOADS_MAX
from components.overview.newest import SILENT_MS
from components.overview.overview import SWEEP_MS, Overview
from schemas.codec import Cleared
from schemas.enums import ConnectionState
from schemas.limits import Amount
from schemas.message import Message
from schemas.metrics import AppMetrics, ContainerMetrics, ContainerUse
from schemas.node import NodeInfo
from schemas.operations import ComponentStatus
from schemas.performance import PerfDegraded, PerfRecovered
from schemas.resources import ResourceState
from schemas.topics import Role

CAM, NAV = ("hpc-1", "cam"), ("hpc-2", "nav")
LATER_MS = DOUBT_MS + SWEEP_MS


def degraded(event: str = "e-1", episode: str = "p-1", key: tuple[str, str] = CAM) -> PerfDegraded:
    return PerfDegraded(event_id=event, episode_id=episode, node=key[0], workload_id=key[1])


def recovered(event: str = "e-2", episode: str = "p-1", key: tuple[str, str] = CAM) -> PerfRecovered:
    return PerfRecovered(event_id=event, episode_id=episode, node=key[0], workload_id=key[1])


def status(role: Role, instance: str, state: ConnectionState, boot_id: int = 1) -> ComponentStatus:
    return ComponentStatus(component=role, instance=instance, state=state, boot_id=boot_id)


def agent(state: ConnectionState, node: str = "hpc-1") -> ComponentStatus:
    return status(Role.NODE_AGENT, node, state)


def watcher(boot_id: int, instance: str = "main") -> ComponentStatus:
    return status(Role.MONITORING_SERVER, instance, ConnectionState.READY, boot_id)


def measured(key: tuple[str, str] = CAM) -> ContainerMetrics:
    use = ContainerUse(workload_id=key[1], usage=Amount(cpu=1, memory=1))
    return ContainerMetrics(node=key[0], containers=(use,))


def after(*said: Message | Cleared) -> set[tuple[str, str]]:
    """Who performs badly when this was said."""
    seen = Overview()
    for message in said:
        seen.hear(message)
    return set(seen.degraded)


READY = (agent(ConnectionState.READY), agent(ConnectionState.READY, "hpc-2"), watcher(1))


@pytest.mark.parametrize("state", [ConnectionState.LOST, ConnectionState.DISCONNECTED])
def test_with_the_agent_of_a_node_the_degradations_on_it_go_and_nobody_elses(state: ConnectionState) -> None:
    """MonitoringServer forgets them then, and never says that they ended."""
    said = (*READY, degraded(), degraded("e-9", "p-9", NAV), agent(state))

    assert after(*said) == {NAV}
    assert after(*said, agent(ConnectionState.READY), measured()) == {NAV}
    assert after(*said, degraded()) == {NAV}, "a repeat of what was said before is no news"
    assert after(*said, degraded("e-3", "p-3")) == {CAM, NAV}


@pytest.mark.parametrize(
    "gone",
    [
        Cleared(ComponentStatus, {"component": Role.NODE_AGENT, "instance": "hpc-1"}),
        Cleared(NodeInfo, {"node": "hpc-1"}),
        Cleared(ResourceState, {"node": "hpc-1", "workload_id": "cam"}),
    ],
    ids=["agent", "node", "workload"],
)
def test_what_is_forgotten_is_not_degraded(gone: Cleared) -> None:
    assert after(*READY, degraded(), degraded("e-9", "p-9", NAV), gone) == {NAV}


def test_a_late_will_of_an_agent_ends_nothing() -> None:
    late = status(Role.NODE_AGENT, "hpc-1", ConnectionState.LOST, boot_id=0)

    assert after(*READY, degraded(), late) == {CAM}


def restarted(seen: Overview) -> None:
    seen.hear(watcher(2), 1_000)


def divided_anew(seen: Overview) -> None:
    seen.hear(watcher(2, "1-of-2"), 1_000)


def connected_again(seen: Overview) -> None:
    seen.reconnected(1_000)
    for message in READY:
        seen.hear(message, 1_001, retained=True)


@pytest.mark.parametrize("happens", [restarted, divided_anew, connected_again])
def test_when_an_end_may_have_been_missed_only_what_is_said_again_stays(
    happens: Callable[[Overview], None],
) -> None:
    """A MonitoringServer that began anew knows of no episode; several say theirs again, each on its own."""
    seen = Overview()
    for message in (*READY, degraded(), degraded("e-9", "p-9", NAV)):
        seen.hear(message)
    happens(seen)
    seen.hear(degraded("e-10", "p-9", NAV), 31_000)
    assert set(seen.degraded) == {CAM, NAV}, "it may still be said again"

    for key in (CAM, NAV):
        seen.hear(measured(key), 1_000 + LATER_MS)

    assert set(seen.degraded) == {NAV}
    seen.hear(degraded("e-3", "p-1"), 2_000 + LATER_MS)
    assert set(seen.degraded) == {CAM, NAV}, "it lasts after all"


def test_on_a_flapping_line_what_lasts_has_its_minute_from_the_newest_connection_on() -> None:
    """Nobody could say it again before that."""
    seen = Overview()
    seen.hear(degraded())
    seen.reconnected(1_000)
    seen.reconnected(70_000)

    seen.hear(measured(), 70_001)
    assert set(seen.degraded) == {CAM}

    seen.hear(measured(), 70_000 + LATER_MS)
    assert set(seen.degraded) == set()


def test_where_it_is_said_again_less_often_than_once_a_minute_it_is_believed_for_longer() -> None:
    seen = Overview(repeat_s=600)
    seen.hear(degraded())
    seen.reconnected(1_000)

    for now_ms in range(1_000, 1_200_000, 100_000):
        seen.hear(measured(), now_ms)
    assert set(seen.degraded) == {CAM}, "one of its repeats may have been late"

    seen.hear(measured(), 1_201_000)
    assert set(seen.degraded) == set()


def test_a_monitoring_server_that_says_the_same_again_is_not_doubted() -> None:
    seen = Overview()
    for message in (*READY, degraded(), watcher(1)):
        seen.hear(message)
    seen.hear(measured(), LATER_MS)

    assert set(seen.degraded) == {CAM}


def test_events_that_are_repeated_until_they_have_an_outcome_do_not_begin_it_again() -> None:
    """PolicyManager is away: begin and end are both repeated."""
    assert after(degraded(), recovered(), degraded(), recovered(), degraded()) == set()
    assert after(recovered(), degraded()) == set(), "for who comes in the midst, too"
    assert after(degraded(), recovered(), degraded("e-3", "p-3"), degraded(), recovered()) == {CAM}


def test_the_newest_event_of_an_episode_is_the_one_that_is_shown() -> None:
    seen = Overview()
    for message in (degraded("e-1"), degraded("e-2"), degraded("e-1")):
        seen.hear(message)

    assert seen.degraded[CAM].event_id == "e-2"


def test_what_nobody_measures_any_more_is_not_degraded_for_ever() -> None:
    seen = Overview()
    for message in (degraded(), degraded("e-9", "p-9", NAV)):
        seen.hear(message, 1_000)
    seen.hear(AppMetrics(node="hpc-1", workload_id="cam", latency_ms=1), SILENT_MS)
    assert set(seen.degraded) == {CAM, NAV}

    seen.hear(measured(), SILENT_MS + 10_000)

    assert set(seen.degraded) == {CAM}


def test_it_is_bounded() -> None:
    kept = episodes.Episodes()
    for number in range(WORKLOADS_MAX + 3):
        assert kept.hear(degraded(f"e-{number}", f"p-{number}", ("n", f"w-{number}")), 0) == (
            number < WORKLOADS_MAX
        )
    for number in range(episodes.OVER_MAX + 3):
        kept.hear(recovered(f"r-{number}", f"q-{number}"), 0)

    assert len(kept.lasting) == WORKLOADS_MAX
    assert len(kept._over) == episodes.OVER_MAX
