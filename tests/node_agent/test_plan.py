"""What is said to Podman is complete and safe, with every version."""

from hypothesis import given
from hypothesis import strategies as st

from components.node_agent.podman.kernel import OwnValues
from components.node_agent.podman.plan import before, full_set, resources_for
from components.node_agent.podman.weights import Weights, linear_weight, logarithmic_weight
from components.node_agent.runtime import Host
from schemas.limits import CPU_SHARES_MAX, CPU_SHARES_MIN, Amount, Limits, mismatches

MIB = 1024 * 1024
OWN = OwnValues(quota_us=50_000, period_us=100_000, memory=64 * MIB, swap=96 * MIB, swap_known=True)
UNLIMITED = OwnValues(quota_us=None, period_us=100_000, memory=None, swap=None, swap_known=True)
HOST = Host(Amount(cpu=8000, memory=16_384), frozenset(range(8)))


def test_quota_and_period_always_come_together() -> None:
    own = OwnValues(quota_us=25_000, period_us=50_000, memory=None, swap=None, swap_known=True)
    assert resources_for(Limits(cpu_limit=1500), own) == {"cpu": {"quota": 75_000, "period": 50_000}}


def test_limit_and_swap_come_together_and_the_allowance_stays() -> None:
    assert resources_for(Limits(memory_limit=256), OWN) == {"memory": {"limit": 256 * MIB, "swap": 288 * MIB}}


def test_swap_is_left_out_where_the_kernel_does_not_account_for_it() -> None:
    own = OwnValues(quota_us=None, period_us=100_000, memory=64 * MIB, swap=None, swap_known=False)
    assert resources_for(Limits(memory_limit=256), own) == {"memory": {"limit": 256 * MIB}}


def test_unlimited_swap_stays_unlimited() -> None:
    assert resources_for(Limits(memory_limit=256), UNLIMITED) == {"memory": {"limit": 256 * MIB, "swap": -1}}


def test_what_is_not_asked_for_is_not_said() -> None:
    assert resources_for(Limits(cpu_shares=512, cpuset_cpus="0-1"), OWN) == {"cpu": {"shares": 512, "cpus": "0-1"}}


@given(
    st.integers(1, 2**20),
    st.integers(0, 2**20).flatmap(lambda memory: st.tuples(st.just(memory), st.integers(memory, 2**21))),
)
def test_swap_is_never_below_the_limit(wanted: int, present: tuple[int, int]) -> None:
    """Podman refuses that, but applies the limit all the same."""
    memory, swap = present
    own = OwnValues(None, 100_000, memory * MIB, swap * MIB, swap_known=True)
    body = resources_for(Limits(memory_limit=wanted), own)["memory"]
    assert body["swap"] >= body["limit"]


class TestTakingBack:
    """Podman 5.1 and later stores what it then fails to apply."""

    def test_the_old_values_are_posted_exactly(self) -> None:
        body = before(Limits(cpu_limit=2000, memory_limit=512), OWN, Limits(cpu_limit=500, memory_limit=64), HOST)
        assert body == {
            "cpu": {"quota": 50_000, "period": 100_000},
            "memory": {"limit": 64 * MIB, "swap": 96 * MIB},
        }

    def test_only_those_that_were_asked_for(self) -> None:
        assert set(before(Limits(cpu_limit=2000), OWN, Limits(), HOST)) == {"cpu"}

    def test_unlimited_is_written_as_all_the_machine_has(self) -> None:
        """A quota of -1 becomes 1 % of a CPU with some versions."""
        body = before(Limits(cpu_limit=2000, memory_limit=512), UNLIMITED, Limits(), HOST)
        assert body["cpu"] == {"quota": 800_000, "period": 100_000}
        assert body["memory"] == {"limit": 16_384 * MIB, "swap": -1}

    def test_shares_and_cpu_list_as_they_were_shown(self) -> None:
        shown = Limits(cpu_shares=512, cpuset_cpus="0-3")
        body = before(Limits(cpu_shares=1024, cpuset_cpus="0"), OWN, shown, HOST)
        assert body == {"cpu": {"shares": 512, "cpus": "0-3"}}


class TestFullSet:
    """Podman 5.1 to 5.3 replaces what it stored: what is not said is lost at the next start."""

    STORED = {  # noqa: RUF012 - read only
        "CpuShares": 512,
        "CpusetCpus": "0-1",
        "CpuQuota": 1,
        "Memory": 1,
        "MemoryReservation": 32 * MIB,
        "PidsLimit": 2048,
        "BlkioWeight": 0,
    }

    def test_everything_in_force_or_stored_is_said_again(self) -> None:
        body = resources_for(Limits(cpu_limit=2000), OWN)
        assert full_set(body, OWN, self.STORED) == {
            "cpu": {"quota": 200_000, "period": 100_000, "shares": 512, "cpus": "0-1"},
            "memory": {"limit": 64 * MIB, "swap": 96 * MIB, "reservation": 32 * MIB},
            "pids": {"limit": 2048},
        }

    def test_what_is_asked_for_wins(self) -> None:
        body = resources_for(Limits(cpu_shares=100, memory_limit=128), OWN)
        whole = full_set(body, OWN, self.STORED)
        assert (whole["cpu"]["shares"], whole["memory"]["limit"]) == (100, 128 * MIB)

    def test_unlimited_stays_unsaid(self) -> None:
        assert full_set({"cpu": {"shares": 100}}, UNLIMITED, {}) == {"cpu": {"shares": 100}}


class TestWeights:
    """CPU shares on cgroup v2."""

    def test_known_points_of_both_formulas(self) -> None:
        assert [linear_weight(shares) for shares in (2, 1024, 262_144)] == [1, 39, 10_000]
        assert [logarithmic_weight(shares) for shares in (2, 1024, 262_144)] == [1, 100, 10_000]

    @given(st.integers(CPU_SHARES_MIN, CPU_SHARES_MAX), st.sampled_from([linear_weight, logarithmic_weight]))
    def test_shares_that_were_asked_for_are_recognized(self, shares: int, formula: object) -> None:
        assert callable(formula)
        weights = Weights()
        weights.asked("id", shares)
        assert weights.shares("id", formula(shares)) == shares

    @given(st.integers(64, CPU_SHARES_MAX), st.sampled_from(["crun", "runc"]), st.booleans())
    def test_after_a_restart_of_the_agent_the_runtime_tells_the_formula(
        self, shares: int, runtime: str, newer: bool
    ) -> None:
        """Else every restart would see drift where there is none."""
        weights = Weights()
        weights.runtime_is(runtime, (2, 0) if newer else (1, 1, 5))
        formula = logarithmic_weight if newer else linear_weight
        read = weights.shares("id", formula(shares))
        assert not mismatches(Limits(cpu_shares=shares), Limits(cpu_shares=read))
