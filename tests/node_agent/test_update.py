"""The update procedure on a simulated runtime: order, deadlines, intents, and what is said of the outcome."""

import pytest

from components.node_agent.runtime import Container, RuntimeRefusedError, RuntimeTimeoutError
from components.node_agent.simulated import Fault, SimulatedRuntime
from components.node_agent.stamps import Stamps
from components.node_agent.store import MemoryStore, StoreError
from components.node_agent.update import UpdateProcedure, steps
from components.node_agent.verdict import UpdateOrder, UpdateResult, judge
from schemas.enums import Reason
from schemas.limits import Amount, Limits
from tests.node_agent.driver import Clock

FIRST = Limits(cpu_limit=500, memory_limit=256)


class Bench:
    """One container, and everything that the procedure touches."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.runtime = SimulatedRuntime(sleep=self.clock.sleep, clock=self.clock, epoch_ms=self.clock.epoch_ms)
        self.runtime.world.add("app", FIRST, usage=Amount(cpu=100, memory=100))
        self.store = MemoryStore()
        self.procedure = self.with_store(self.store)

    def with_store(self, store: MemoryStore) -> UpdateProcedure:
        return UpdateProcedure(self.runtime, store, Stamps(), margin_mib=32, clock=self.clock)

    def update(self, *, deadline_s: float = 10.0, **limits: int | str) -> UpdateResult:
        target = Limits.model_validate(limits)
        return self.procedure.run(UpdateOrder("app", target, self.clock.seconds + deadline_s))

    @property
    def limits(self) -> Limits:
        return self.runtime.world.limits_of("app")


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("fault", "reason", "partial", "left"),
    [
        (Fault.FAIL, Reason.RUNTIME_ERROR, False, FIRST),
        (Fault.LIE, Reason.VERIFY_FAILED, False, FIRST),
        (Fault.PARTIAL, Reason.PARTIAL, True, Limits(cpu_limit=500, memory_limit=512)),
        (Fault.HANG, Reason.RUNTIME_TIMEOUT, False, FIRST),
        (Fault.UNAVAILABLE, Reason.RUNTIME_ERROR, False, FIRST),
    ],
)
def test_the_kernel_decides_and_the_numbers_are_told(
    bench: Bench, fault: Fault, reason: Reason, partial: bool, left: Limits
) -> None:
    bench.runtime.fault("app", fault)
    result = bench.update(cpu_limit=2000, memory_limit=512)
    assert (result.success, result.reason, result.partial) == (False, reason, partial)
    assert "cpu_limit 2000m was asked, 500m is in force" in result.message
    assert result.actual is not None
    assert result.actual.only({"cpu_limit", "memory_limit"}) == left == bench.limits


def test_only_a_broken_connection_leaves_the_intent(bench: Bench) -> None:
    for fault in (Fault.FAIL, Fault.LIE, Fault.PARTIAL, Fault.UNAVAILABLE):
        bench.runtime.fault("app", fault)
        assert not bench.update(cpu_limit=2000, memory_limit=512).broken
        assert bench.store.pending() == []
    bench.runtime.fault("app", Fault.HANG)
    assert bench.update(cpu_limit=2000, memory_limit=600).broken
    assert len(bench.store.pending()) == 1


def test_the_intent_is_there_while_the_runtime_is_called(bench: Bench) -> None:
    seen: list[int] = []

    class Watching(MemoryStore):
        def begin(self, container_id: str) -> None:
            super().begin(container_id)
            seen.append(bench.runtime.updates)

    bench.procedure = bench.with_store(Watching())
    bench.update(cpu_limit=2000)
    assert seen == [0]


def test_no_intent_no_write(bench: Bench) -> None:
    class Full(MemoryStore):
        def begin(self, container_id: str) -> None:
            raise StoreError("disk full")

    bench.procedure = bench.with_store(Full())
    result = bench.update(cpu_limit=2000)
    assert (result.reason, bench.limits, bench.runtime.updates) == (Reason.STORAGE_ERROR, FIRST, 0)
    assert "disk full" in result.message


def test_a_slow_disk_does_not_make_a_late_write(bench: Bench) -> None:
    class Slow(MemoryStore):
        def begin(self, container_id: str) -> None:
            super().begin(container_id)
            bench.clock.sleep(20)

    store = Slow()
    bench.procedure = bench.with_store(store)
    result = bench.update(cpu_limit=2000)
    assert (result.reason, bench.limits) == (Reason.RUNTIME_TIMEOUT, FIRST)
    assert store.pending() == []


def test_a_refusal_tells_what_is_in_force(bench: Bench) -> None:
    result = bench.update(memory_limit=110)
    assert result.reason is Reason.BELOW_USAGE
    assert result.actual is not None
    assert (result.actual.memory_limit, result.wrote) == (256, False)
    assert result.seq == 1


def test_memory_is_not_lowered_below_use_and_margin_but_to_it(bench: Bench) -> None:
    assert bench.update(memory_limit=131).reason is Reason.BELOW_USAGE
    assert bench.update(memory_limit=132).success


def test_memory_may_be_raised_however_much_is_in_use(bench: Bench) -> None:
    """A container at its limit is just the one that needs more."""
    bench.runtime.world.set_usage("app", Amount(cpu=100, memory=256))
    assert bench.update(memory_limit=270).success


@pytest.mark.parametrize("more", [Limits(cpu_limit=450), Limits(memory_limit=250), Limits(cpuset_cpus="0-1")])
def test_more_than_pod_or_slice_allow_is_refused(bench: Bench, more: Limits) -> None:
    bench.runtime.world.set_parents("app", Limits(cpu_limit=400, memory_limit=200, cpuset_cpus="0"))
    assert bench.limits == Limits(cpu_limit=400, memory_limit=200), "what binds is in force"
    result = bench.update(**more.asked)
    assert (result.reason, bench.runtime.updates) == (Reason.PARENT_LIMIT, 0)


def test_the_last_stamp_is_newer_than_the_write(bench: Bench) -> None:
    assert bench.update(cpu_limit=2000).seq == 2


def test_same_values_do_not_call_even_when_in_use_above_them(bench: Bench) -> None:
    bench.runtime.world.set_usage("app", Amount(cpu=100, memory=250))
    result = bench.update(memory_limit=256)
    assert (result.success, result.message) == (True, "app already has memory_limit 256Mi; nothing to do")
    assert bench.runtime.updates == 0


def test_what_is_near_enough_is_told_as_it_is_in_force(bench: Bench) -> None:
    """Told "already has 510m", a person would look for 510m in the container, and find 500m."""
    result = bench.update(cpu_limit=510, memory_limit=256)
    assert result.success
    assert result.message == (
        "app already has cpu_limit 500m, memory_limit 256Mi, which counts as the cpu_limit 510m asked for; "
        "nothing to do"
    )
    assert bench.runtime.updates == 0


def test_a_second_writer_of_the_same_container_is_turned_away(bench: Bench) -> None:
    """A last net below the agent's own turns: by id, whatever name it was asked for under."""
    inner: list[UpdateResult] = []

    class Again(MemoryStore):
        def begin(self, container_id: str) -> None:
            inner.append(bench.procedure.run(UpdateOrder(container_id, Limits(cpu_limit=900), 1e9)))

    bench.procedure = bench.with_store(Again())
    assert bench.update(cpu_limit=2000).success
    assert inner[0].reason is Reason.OVERLOADED
    assert bench.limits.cpu_limit == 2000


UNLIMITED = Limits()
RISE, FALL = Limits(cpu_limit=900, memory_limit=512), Limits(cpu_limit=100, memory_limit=128)


@pytest.mark.parametrize(
    ("changes", "present", "calls"),
    [
        (RISE, FIRST, [RISE]),
        (FALL, FIRST, [FALL]),
        (RISE, UNLIMITED, [RISE]),
        (
            Limits(cpu_limit=900, memory_limit=128),
            FIRST,
            [Limits(memory_limit=128), Limits(cpu_limit=900)],
        ),
        (
            Limits(cpu_limit=100, memory_limit=512, cpuset_cpus="0", cpu_shares=9),
            FIRST,
            [Limits(cpu_limit=100, cpuset_cpus="0", cpu_shares=9), Limits(memory_limit=512)],
        ),
        (
            Limits(cpu_limit=900, memory_limit=128),
            Limits(cpu_limit=500),
            [Limits(memory_limit=128), Limits(cpu_limit=900)],
        ),
        (Limits(cpu_shares=9, memory_limit=512), FIRST, [Limits(cpu_shares=9, memory_limit=512)]),
    ],
)
def test_one_call_or_two_with_the_fall_first(changes: Limits, present: Limits, calls: list[Limits]) -> None:
    assert steps(changes, present) == calls


DONE = UpdateResult(container=Container("app", "id", state="running"), wrote=True)  # type: ignore[arg-type]  # unused


def test_a_key_that_was_in_force_before_makes_no_partial_success() -> None:
    """Memory was right all along; of what was to change, nothing did."""
    target = Limits(cpu_limit=900, memory_limit=256)
    result = judge(target, Limits(cpu_limit=900), RuntimeRefusedError("no"), DONE, FIRST)
    assert (result.partial, result.reason) == (False, Reason.RUNTIME_ERROR)


def test_a_partial_success_after_a_broken_connection_is_partial() -> None:
    target = Limits(cpu_limit=900, memory_limit=512)
    result = judge(target, target, RuntimeTimeoutError("?"), DONE, Limits(cpu_limit=500, memory_limit=512))
    assert (result.partial, result.reason) == (True, Reason.PARTIAL)


def test_rounding_of_the_kernel_is_no_failure() -> None:
    target = Limits(cpu_limit=903, memory_limit=513)
    result = judge(target, target, None, DONE, Limits(cpu_limit=910, memory_limit=512))
    assert result.success
