"""`doctor` on who is there: agents that share a name, clocks that differ, silence. The agents run for real."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from broker.access import Principal, acl_text
from broker.configuration import MosquittoConfiguration
from components.cli.connection import Heard
from components.cli.doctor.finding import Finding, Level
from components.cli.doctor.fleet import Fleet, check_fleet, judge_agents, judge_clocks
from components.cli.doctor.rights import Need
from components.settings import BrokerSettings
from schemas.codec import encode
from schemas.enums import ConnectionState, SnapshotTrigger
from schemas.limits import Amount
from schemas.message import Message
from schemas.metrics import NodeMetrics
from schemas.node import ContainerReport, NodeInfo, NodeSnapshot
from schemas.operations import ComponentStatus
from schemas.topics import Role
from tests.cli.findings import all_ok, only_wrong
from tests.fixtures.broker import RunningBroker, running_broker
from tests.fixtures.watch import watching

NODE = "hpc-1"
ALL = Need((Role.CLI,), NODE)
LISTEN_S = 2.5
HOUR_S = 3600
PROGRAM = """
import sys, time
ahead_ns = int(sys.argv.pop()) * 10**9
real = time.time_ns
time.time_ns = lambda: real() + ahead_ns
from components.cli.main import main
main()
"""
"""An agent on a machine whose clock is ahead."""


class Machine:
    """A machine with an agent of a service manager: started again whenever it ends."""

    def __init__(self, folder: Path, broker: RunningBroker, *, node: str = NODE, ahead_s: int = 0) -> None:
        folder.mkdir()
        (folder / "piriscale.toml").write_text(
            f"[broker]\nurl = 'mqtt://{broker.host}:{broker.port}'\n[node_agent]\nnode = '{node}'\n"
            f"runtime = 'simulated'\nsimulated_containers = 2\nstate_dir = '{folder}'\n"
        )
        self._command = [sys.executable, "-c", PROGRAM, "run", "node_agent", "-c", str(folder / "piriscale.toml")]
        self._command += ["--log-level", "error", str(ahead_s)]
        self._off = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise)
        self._thread.start()

    def _supervise(self) -> None:
        while not self._off.is_set():
            self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self._process.wait()

    def switch_off(self) -> None:
        self._off.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join()


@contextmanager
def machines(folder: Path, broker: RunningBroker, *nodes: str, ahead_s: int = 0) -> Iterator[None]:
    """Machines whose agents are on the bus."""
    with ExitStack() as off, watching(broker) as watch:
        for number, node in enumerate(nodes):
            machine = Machine(folder / str(number), broker, node=node, ahead_s=ahead_s)
            off.callback(machine.switch_off)
        watch.until_heard(*(f"metrics/{node}/node" for node in nodes))
        yield


def check(
    broker: RunningBroker, need: Need = ALL, username: str | None = None, longer_s: float = 0.0
) -> list[Finding]:
    url = f"mqtt://{broker.host}:{broker.port}"
    return check_fleet(BrokerSettings(url=url, username=username), need, LISTEN_S, longer_s)


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    """One of its own: agents leave retained topics."""
    with running_broker() as running:
        yield running


@pytest.mark.slow
def test_two_machines_with_the_same_node_name(tmp_path: Path, broker: RunningBroker) -> None:
    """Their agents take over from each other for ever, and nothing on the node can be relied on."""
    with machines(tmp_path, broker, NODE, NODE):
        found = only_wrong(check(broker, longer_s=20.0))

    assert NODE in found.text
    assert "node_agent.node" in found.remedy


@pytest.mark.slow
def test_agents_of_different_names_on_one_clock_are_fine(tmp_path: Path, broker: RunningBroker) -> None:
    with machines(tmp_path, broker, "hpc-1", "hpc-2"):
        findings = check(broker)

    assert all_ok(findings), findings
    assert "hpc-1, hpc-2" in findings[0].text


def test_a_clock_that_is_far_off(tmp_path: Path, broker: RunningBroker) -> None:
    with machines(tmp_path, broker, NODE, ahead_s=-HOUR_S):
        found = only_wrong(check(broker))

    assert found.text.startswith(f"the clock of node {NODE} is 3600 s behind") or "3599 s" in found.text
    assert "set-ntp" in found.remedy


@pytest.mark.slow
def test_what_an_acl_withholds_is_silence_that_is_told(tmp_path: Path) -> None:
    """Mosquitto grants the subscription and delivers nothing, so that nobody else would tell."""
    with running_broker() as place:
        rights = place.directory / "rights"
        agent = acl_text([Principal.parse(f"node_agent/{NODE}")]).replace(f"user node_agent/{NODE}\n", "")
        monitoring = "user monitoring_server\ntopic readwrite component/#\ntopic read node/+/info\n"
        rights.write_text(f"{agent}\ntopic readwrite #\n{monitoring}")
        rights.chmod(0o644)
        with running_broker(MosquittoConfiguration(acl_file=rights)) as broker, machines(tmp_path, broker, NODE):
            need = Need((Role.MONITORING_SERVER,), NODE)
            findings = check(broker, need, "monitoring_server")

    told = next(finding for finding in findings if finding.level is Level.NOTE)
    assert f"metrics/{NODE}/node" in told.text
    assert f"node/{NODE}/info" not in told.text
    assert "may not read" in told.remedy


def test_a_broker_on_which_no_agent_is_known(broker: RunningBroker) -> None:
    (found,) = check(broker)

    assert found.level is Level.NOTE
    assert "piriscale run node_agent" in found.remedy


@pytest.mark.slow
def test_looking_at_the_fleet_changes_nothing(tmp_path: Path, broker: RunningBroker) -> None:
    with machines(tmp_path, broker, NODE), watching(broker, "another") as watch:
        check(broker)
        watch.settle()

    said = {topic for topic in watch.topics if not topic.startswith(("metrics/", "component/"))}
    assert said <= {
        f"node/{NODE}/status/get",
        f"node/{NODE}/status/reply",
        f"node/{NODE}/actual",
        f"node/{NODE}/info",
        "resources/validate",
    }


# What real agents cannot be made to do in the moment of a test


def hear(*messages: Message, retained: bool = False, now_ms: int = 0) -> Fleet:
    fleet = Fleet()
    for message in messages:
        frame = encode(message)
        fleet.hear(Heard(frame.topic, frame.payload, retained), now_ms)
    return fleet


def life(boot_id: int, state: ConnectionState = ConnectionState.READY) -> ComponentStatus:
    return ComponentStatus(component=Role.NODE_AGENT, instance=NODE, state=state, boot_id=boot_id)


def snapshot(boot_id: int, *ids: str) -> NodeSnapshot:
    containers = tuple(ContainerReport(workload_id=one, runtime_id=one) for one in ids)
    return NodeSnapshot(node=NODE, boot_id=boot_id, seq=1, trigger=SnapshotTrigger.START, containers=containers)


NOBODY = Need((), NODE)


def judged(fleet: Fleet) -> list[Finding]:
    return list(judge_agents(fleet, NOBODY))


def test_two_agents_over_a_bridge_contradict_each_other_without_an_end() -> None:
    assert "two agents" in only_wrong(judged(hear(life(7), life(9), life(7)))).text


def test_one_that_ends_in_the_moment_in_which_another_begins_was_taken_over() -> None:
    crashed, taken_over = Fleet(), Fleet()
    for fleet, after_ms in ((crashed, 900), (taken_over, 3)):
        for message, at_ms in ((life(7), 0), (life(7, ConnectionState.LOST), 1000), (life(9), 1000 + after_ms)):
            frame = encode(message)
            fleet.hear(Heard(frame.topic, frame.payload, retained=False), at_ms)

    assert all_ok(judged(crashed))
    assert "take over from each other" in only_wrong(judged(taken_over)).text


def test_an_agent_that_began_lately_is_looked_at_for_longer() -> None:
    """Another of its name may just be starting again."""
    lately = life(7).model_copy(update={"ts": 1_000_000})
    fleet = hear(lately, retained=True)

    assert fleet.restless(1_005_000)
    assert not fleet.restless(1_060_000)


def test_two_lives_with_other_containers_are_two_machines() -> None:
    assert "two agents" in only_wrong(judged(hear(snapshot(7, "a", "b"), snapshot(9, "c")))).text


def test_one_restart_while_we_look_is_none_of_our_business() -> None:
    lost = life(7, ConnectionState.LOST)
    again = hear(life(7), snapshot(7, "a"), life(9), lost, snapshot(9, "a", "b"))

    assert all_ok(judged(again)), "nor is a will that comes late"


def test_an_agent_that_starts_again_and_again() -> None:
    found = only_wrong(judged(hear(life(7), life(8), life(9))))

    assert "started 2 times" in found.text
    assert "log" in found.remedy


def test_a_ready_agent_that_does_not_answer_is_told() -> None:
    """Its worker hangs, while its connection is kept alive: nobody else would notice."""
    info = NodeInfo(node=NODE, boot_id=7, total=Amount(cpu=1000, memory=1024))
    (found,) = judge_agents(hear(life(7), snapshot(7, "a"), metrics(0), info), ALL)

    assert found.level is Level.NOTE
    assert f"nothing comes of node/{NODE}/status/reply" in found.text


def test_old_retained_words_say_nothing_of_now() -> None:
    fleet = hear(snapshot(3, "a"), retained=True)

    assert fleet.offsets_ms == {}
    assert fleet.agents[NODE].boots == []


def metrics(ts: int) -> NodeMetrics:
    return NodeMetrics(node=NODE, ts=ts, cpu_usage=1.0, cpu_count=1, used_memory=1, total_memory=1)


def test_one_message_that_was_late_is_no_wrong_clock() -> None:
    fleet = hear(metrics(1), metrics(100_000), metrics(100_001), now_ms=100_000)

    assert all_ok(list(judge_clocks(fleet)))
