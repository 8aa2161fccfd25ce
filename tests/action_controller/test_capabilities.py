"""A limit that a node cannot change is refused before anything is begun, and a dry run already says so."""

import pytest

from schemas.codec import Cleared
from schemas.enums import ActionOutcome, Reason
from schemas.limits import Limits
from schemas.node import Capability, NodeInfo
from schemas.resources import ValidateRequest
from tests.action_controller.bench import NODE, Bench, amount

CAN = Capability(supported=True)
CANNOT = Capability(supported=False, reason="cpuset is not delegated; add it to Delegate= of the user's slice")
PINNED = Limits(cpu_limit=4000, cpuset_cpus="0-1")


def tells(bench: Bench, cpuset: Capability, *, node: str = NODE, boot_id: int = 100) -> None:
    """An agent says what can be changed on its node."""
    capabilities = {"cpu_limit": CAN, "cpuset_cpus": cpuset}
    told = NodeInfo(id="i", node=node, boot_id=boot_id, total=amount(8000, 8192), capabilities=capabilities)
    bench.hear(told)


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_the_node_cannot_change_is_refused_with_the_remedy(bench: Bench, *, dry_run: bool) -> None:
    tells(bench, CANNOT)
    bench.act(target=PINNED, dry_run=dry_run)

    end = bench.finals["a-1"]
    assert (end.outcome, end.reason) == (ActionOutcome.REJECTED, Reason.UNSUPPORTED)
    assert end.message == f"cpuset_cpus on {NODE}: {CANNOT.reason}"
    assert bench.heard(ValidateRequest) == []


def test_what_is_not_asked_for_need_not_be_supported(bench: Bench) -> None:
    tells(bench, CANNOT)
    bench.act(target=Limits(cpu_limit=4000))
    assert bench.heard(ValidateRequest)


def test_each_node_can_do_what_it_says_itself(bench: Bench) -> None:
    tells(bench, CANNOT, node="hpc-2")
    bench.act(target=PINNED)
    assert bench.heard(ValidateRequest)


def test_a_node_that_learned_it_is_asked_again(bench: Bench) -> None:
    tells(bench, CANNOT)
    tells(bench, CAN, boot_id=101)
    tells(bench, CANNOT, boot_id=100)  # late

    bench.act(target=PINNED)
    assert bench.heard(ValidateRequest)


def test_of_a_node_that_was_forgotten_nothing_is_known(bench: Bench) -> None:
    tells(bench, CANNOT)
    bench.hear(Cleared(NodeInfo, {"node": NODE}))
    bench.act(target=PINNED)
    assert bench.heard(ValidateRequest)
