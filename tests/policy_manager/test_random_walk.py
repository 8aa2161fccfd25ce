"""In any order, through crashes and a failing disk: one outcome an event, one open action a workload."""

import itertools
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from components.quantities import LimitSettings
from components.settings import PolicySettings
from components.storage import StorageError
from schemas.codec import Cleared
from schemas.enums import ActionOutcome
from schemas.limits import Amount, Limits
from schemas.message import Message
from schemas.performance import PerfEvent, PerfOutcome
from schemas.resources import ResourceState
from schemas.scaling import ScalingAction, ScalingControl
from tests.policy_manager.desk import Desk, degraded, final, recovered, state

WORKLOADS = st.sampled_from(["nav", "radio"])
POLICY = PolicySettings(max=LimitSettings(cpu=8000), cooldown_s=2, restore_after_s=5)


class Walk(RuleBasedStateMachine):
    """PolicyManager between a MonitoringServer that repeats itself and an ActionController that takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="piriscale-")
        self.desk = Desk(Path(self.folder.name), POLICY)
        self.names = (f"e-{number}" for number in itertools.count())
        self.events: dict[str, PerfEvent] = {}
        self.outcomes: dict[str, PerfOutcome] = {}
        self.actions: dict[str, ScalingAction] = {}
        self.finals: dict[str, ActionOutcome] = {}
        self.broken = False

    def teardown(self) -> None:
        """Let everything end: then each event has its outcome, and nothing is open."""
        try:
            self.heal()
            for _ in range(2):
                for action_id in list(self.actions):
                    self.end(action_id, ActionOutcome.COMPLETED)
                for event in self.events.values():
                    self.hear(event)
                self.watch(self.desk.wait(3))
            for action_id in list(self.actions):
                self.end(action_id, ActionOutcome.COMPLETED)
            assert set(self.outcomes) == set(self.events)
            assert self.desk.manager.open_actions == 0
            assert self.desk.manager.problem is None
        finally:
            self.desk.manager.close()
            Desk.in_use.remove(self.desk)
            self.folder.cleanup()

    def watch(self, said: list[Message]) -> None:
        """Judge all that is said."""
        for message in said:
            if isinstance(message, PerfOutcome):
                known = self.outcomes.setdefault(message.event_id, message)
                assert message == known, "two distinct outcomes"
                assert message.event_id in self.events
            else:
                assert isinstance(message, ScalingAction)
                known_action = self.actions.setdefault(message.action_id, message)
                assert message == known_action, "one id, two actions"

    def hear(self, message: Message) -> None:
        """As its shell would: tried, and in the end answered as failed."""
        item = self.desk.arrived(message)
        try:
            self.watch(self.desk.spoken(self.desk.manager.handle(item, self.desk.instant)))
        except StorageError as error:
            assert self.broken, "storage fails only when it is broken"
            answer = self.desk.manager.failed(item, error, self.desk.instant)
            self.watch(self.desk.spoken(answer or []))

    def end(self, action_id: str, outcome: ActionOutcome) -> None:
        outcome = self.finals.setdefault(action_id, outcome)
        self.hear(final(self.actions[action_id], outcome))

    @initialize(cpu=st.integers(100, 2000))
    def begin(self, cpu: int) -> None:
        self.hear(state(actual=Limits(cpu_limit=cpu, memory_limit=512)))

    @rule(workload=WORKLOADS, cpu=st.integers(0, 5000), good=st.booleans())
    def event(self, workload: str, cpu: int, good: bool) -> None:
        name = next(self.names)
        usage = Amount(cpu=cpu, memory=100)
        told = recovered(name, workload) if good else degraded(name, workload, usage=usage)
        self.events[name] = told
        self.hear(told)

    @precondition(lambda self: self.events)
    @rule(data=st.data())
    def event_again(self, data: st.DataObject) -> None:
        self.hear(self.events[data.draw(st.sampled_from(sorted(self.events)))])

    @precondition(lambda self: self.actions)
    @rule(data=st.data(), outcome=st.sampled_from(list(ActionOutcome)))
    def action_ends(self, data: st.DataObject, outcome: ActionOutcome) -> None:
        self.end(data.draw(st.sampled_from(sorted(self.actions))), outcome)

    @rule(workload=WORKLOADS, cpu=st.integers(100, 8000), generation=st.integers(0, 99))
    def state_changes(self, workload: str, cpu: int, generation: int) -> None:
        limits = Limits(cpu_limit=cpu, memory_limit=512)
        self.hear(state(generation, limits, workload))

    @rule(workload=WORKLOADS)
    def state_goes(self, workload: str) -> None:
        self.desk.hear(Cleared(ResourceState, {"node": "hpc-1", "workload_id": workload}))

    @rule(paused=st.booleans(), workload=st.none() | WORKLOADS)
    def people_say(self, paused: bool, workload: str | None) -> None:
        self.hear(ScalingControl(paused=paused, workload=workload))

    @rule(seconds=st.sampled_from([0.5, 1.5, 4.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.watch(self.desk.wait(seconds))

    @rule()
    def connection_is_lost(self) -> None:
        self.watch(self.desk.spoken(self.desk.manager.connected(self.desk.instant)))

    @precondition(lambda self: not self.broken)
    @rule(away_s=st.sampled_from([0.0, 3.0, -100.0]))
    def crash(self, away_s: float) -> None:
        self.watch(self.desk.restart(away_s))

    @rule()
    def disk_fails(self) -> None:
        self.broken = True
        self.desk.break_journal()

    @rule()
    def heal(self) -> None:
        self.desk.break_journal(broken=False)
        self.watch(self.desk.wait(1.5))
        self.broken = False

    @invariant()
    def one_open_action_per_workload(self) -> None:
        open_ones = [action for action_id, action in self.actions.items() if action_id not in self.finals]
        workloads = [action.workload_id for action in open_ones]
        assert len(workloads) == len(set(workloads))


TestWalk = Walk.TestCase
TestWalk.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
