"""What is called to attention, in words, with what to do."""

import pytest

from components.monitoring_server.share import Share
from components.overview.attention import attention
from components.overview.overview import Overview
from schemas.codec import Cleared
from schemas.enums import ActionOutcome, ConnectionState, Phase, Reason, SyncState, TaskState
from schemas.limits import Amount
from schemas.message import Message
from schemas.operations import ComponentStatus, DeadLetter, RejectReason
from schemas.performance import Indicator, PerfDegraded, PerfRecovered
from schemas.resources import NodeCapacity, ResourceState
from schemas.scaling import ScalingControl, ScalingStatus
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
        (ScalingControl(paused=True), "paused everywhere: `piriscale resume` ends that"),
    ],
)
def test_what_is_wrong_is_called_to_attention(said: Message, says: str) -> None:
    (text,) = attention(seen(said))

    assert says in str(text)


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


def watchers(**by_name: str) -> list[str]:
    """What is called to attention with these MonitoringServers: "a" to "c" are parts of three, "main" is all."""
    names = {"a": Share(1, 3).name, "b": Share(2, 3).name, "c": Share(3, 3).name, "main": Share(1, 1).name}
    overview = seen(Cleared(ComponentStatus, {"component": Role.MONITORING_SERVER, "instance": "main"}))
    for name, now in by_name.items():
        for one in ("ready", now):
            overview.hear(component(Role.MONITORING_SERVER, names[name], one))
    return [str(need) for need in attention(overview)]


@pytest.mark.parametrize("now", ["lost", "disconnected", "init"])
def test_a_part_of_the_nodes_that_nobody_watches_is_called_to_attention(now: str) -> None:
    """Another part that is watched does not make all well."""
    assert watchers(a="ready", b=now, c="ready") == [
        f"monitoring_server 2-of-3 is {now}: nobody watches its part of the nodes"
    ]


def test_parts_that_were_never_seen_are_called_to_attention() -> None:
    second, third = watchers(a="ready")

    assert second == "monitoring_server 2-of-3 was never seen: nobody watches its part of the nodes"
    assert "3-of-3" in third


def test_when_every_part_is_watched_nothing_is_asked_of_instances_of_an_earlier_partition() -> None:
    assert watchers(a="ready", b="ready", c="ready", main="lost") == []
    assert watchers(a="lost", b="disconnected", main="ready") == []
    assert watchers(a="ready", main="ready") == []


def test_when_no_part_is_watched_it_is_said_once() -> None:
    assert watchers(a="lost", b="lost", c="lost") == ["monitoring_server is lost"]


def test_what_was_never_seen_is_called_to_attention_with_what_to_do() -> None:
    texts = attention(Overview())

    assert len(texts) == len(MAIN) + 1
    assert all("piriscale run" in str(text) for text in texts)


def test_what_is_cleared_is_gone() -> None:
    gone = (
        Cleared(ResourceState, {"node": "hpc-1", "workload_id": "cam"}),
        Cleared(NodeCapacity, {"node": "hpc-1"}),
        Cleared(ComponentStatus, {"component": "node_agent", "instance": "hpc-1"}),
    )

    document = seen(*gone).document()

    assert document["workloads"] == document["nodes"] == []
    assert len(document["components"]) == len(MAIN)


def words(*said: Message | Cleared) -> list[str]:
    return [str(need) for need in attention(seen(*said))]


def test_a_part_that_goes_on_after_a_general_pause_is_not_all_is_well() -> None:
    """The broker keeps only the last word, "resumed on hpc-1", from which everything looks well."""
    (text,) = words(ScalingControl(paused=True), ScalingControl(paused=False, node="hpc-1"))

    assert "paused everywhere, except on hpc-1: `piriscale resume` ends that" in text


def test_a_last_word_about_a_part_says_that_earlier_words_are_not_known() -> None:
    (text,) = words(ScalingControl(paused=False, node="hpc-1"))

    assert "an earlier pause" in text
    assert "`piriscale resume` ends all" in text


def test_a_pause_of_a_part_says_how_to_end_it_and_what_is_not_known() -> None:
    paused, unknown = words(ScalingControl(paused=True, node="hpc-1", workload="cam"))

    assert "paused for cam on hpc-1: `piriscale resume --node hpc-1 --workload cam` ends that" in paused
    assert "an earlier pause" in unknown


def test_who_knows_all_pauses_is_believed() -> None:
    overview = seen(ScalingControl(paused=False, node="hpc-1"))

    overview.pauses_are(())

    assert attention(overview) == []


def test_a_word_about_everything_makes_the_pauses_known() -> None:
    part = ScalingControl(paused=False, node="hpc-1")

    assert words(part, ScalingControl(paused=False)) == []
    assert words(part, Cleared(ScalingControl, {})) == []


def test_after_a_lost_connection_words_may_have_been_missed() -> None:
    overview = seen(ScalingControl(paused=False))
    overview.reconnected(0)
    overview.hear(ScalingControl(paused=False, node="hpc-1"), retained=True)

    assert "an earlier pause" in str(attention(overview)[0])


def status(phase: Phase, outcome: ActionOutcome | None = None, action_id: str = "a-1") -> ScalingStatus:
    return ScalingStatus(
        action_id=action_id,
        node="hpc-1",
        workload_id="cam",
        state=TaskState.PENDING if outcome is None else TaskState.FAILED,
        phase=phase,
        outcome=outcome,
        reason=Reason.INSUFFICIENT_CPU,
        message="needs 3000m more",
    )


def test_an_action_that_waits_for_long_is_called_to_attention() -> None:
    overview = seen()
    overview.hear(status(Phase.WAITING), 10_000)

    assert attention(overview, 11_000) == []
    (need,) = attention(overview, 19_000)
    assert str(need) == "an action for cam on hpc-1 waits for 9 s: INSUFFICIENT_CPU needs 3000m more"
    assert (need.node, need.workload) == ("hpc-1", "cam")


def test_an_inconsistent_end_is_called_to_attention_until_the_workload_agrees_again() -> None:
    overview = seen(state(SyncState.APPLYING))
    overview.hear(status(Phase.DONE, ActionOutcome.INCONSISTENT))

    assert "cam on hpc-1 is INCONSISTENT after its last action" in str(attention(overview)[0])

    overview.hear(state(SyncState.SYNCHRONIZED))
    assert attention(overview) == []


def test_a_degraded_workload_is_called_to_attention_until_it_recovers() -> None:
    over = Indicator(metric="latency_ms", value=450, threshold=300)
    about = {"episode_id": "e", "node": "hpc-1", "workload_id": "cam"}
    degraded = PerfDegraded(event_id="1", indicators=(over,), **about)

    assert words(degraded) == ["cam on hpc-1 is degraded: latency_ms 450 (threshold 300)"]
    assert words(degraded, PerfRecovered(event_id="2", **about)) == []


def test_dead_letters_are_called_to_attention_while_they_are_fresh() -> None:
    overview = seen()
    letter = DeadLetter(component="policy_manager", topic="perf/degraded", reason=RejectReason.UNDECODABLE)
    overview.hear(letter, 1_000)
    overview.hear(letter, 2_000)

    (need,) = attention(overview, 3_000)
    assert str(need) == "policy_manager could not use 2 messages, the last on perf/degraded: undecodable"
    assert attention(overview, 3_600_000) == []


def test_the_gravest_comes_first() -> None:
    first, second = words(ScalingControl(paused=True), component(Role.NODE_AGENT, "hpc-1", "lost"))

    assert "agent of hpc-1 is lost" in first
    assert "paused everywhere" in second


def test_a_last_word_that_was_heard_already_means_that_none_was_missed() -> None:
    resumed = ScalingControl(paused=False, node="hpc-1", id="w-2")
    overview = seen(ScalingControl(paused=True, id="w-1"), ScalingControl(paused=False, id="w-1b"), resumed)
    overview.reconnected(0)
    overview.hear(resumed, retained=True)

    assert attention(overview) == []


def test_a_need_is_known_again_when_only_its_numbers_changed() -> None:
    overview = seen()
    overview.hear(status(Phase.WAITING), 10_000)

    before, after = attention(overview, 20_000)[0], attention(overview, 30_000)[0]

    assert before.text != after.text
    assert before.key == after.key == "waiting hpc-1/cam"


def test_a_picture_that_is_not_whole_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.overview.overview.WORKLOADS_MAX", 1)

    assert words(state(SyncState.UNKNOWN).model_copy(update={"workload_id": "nav"})) == [
        "there is more on the bus than this picture holds: what came last is left out of it"
    ]
