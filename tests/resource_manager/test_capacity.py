"""Whether a request is granted follows from what the node has, what is kept, and what containers may become."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.resource_manager.capacity import Share, Shares, allocated, capacity, judge, share
from components.resource_manager.records import ActionRow, Key, NodeRecord, Stage, WorkloadRecord
from schemas.enums import Reason
from schemas.limits import Amount, Limits
from schemas.resources import NodeCapacity

NONE = Amount()
NO_LIMITS = Limits()
Change = tuple[int | None, int | None, bool] | None
"""A workload's CPU limit, what an action reserves for it, and whether it runs; None: it is gone."""
QUOTA = st.none() | st.integers(1, 9)
CHANGES: st.SearchStrategy[Change] = st.none() | st.tuples(QUOTA, QUOTA, st.booleans())


def amount(cpu: int = 0, memory: int = 0) -> Amount:
    return Amount(cpu=cpu, memory=memory)


def limits(cpu: int | None = None, memory: int | None = None) -> Limits:
    return Limits(cpu_limit=cpu, memory_limit=memory)


def room(total: Amount, taken: Amount, reserved: Amount) -> NodeCapacity:
    free = total.less(taken).less(reserved)
    return NodeCapacity(node="hpc-1", total=total, allocated=taken, reserved=reserved, available=free)


EIGHT = room(amount(8000, 16_384), amount(5000, 8192), amount(1000, 1024))
"""R5's example: total 8, allocated 5, reserved 1 leaves 2."""


def record(**fields: object) -> WorkloadRecord:
    return WorkloadRecord.model_validate(
        {"node": "hpc-1", "name": "cam", "running": True, "actual_known": True, **fields}
    )


def row(stage: Stage, target: Limits, rollback: Limits, unlimited: frozenset[str] = frozenset()) -> ActionRow:
    return ActionRow(
        action_id=f"{stage}",
        node="hpc-1",
        workload="cam",
        stage=stage,
        target=target,
        rollback=rollback,
        rollback_unlimited=unlimited,
    )


@pytest.mark.parametrize(
    ("case", "before", "after", "asked", "reason"),
    [
        ("exactly what is available is granted", (2000, 1024), (4000, 1024), limits(4000), None),
        ("a millicore more is refused", (2000, 1024), (4001, 1024), limits(4001), Reason.INSUFFICIENT_CPU),
        ("exactly the memory available is granted", (0, 1024), (0, 8192), limits(None, 8192), None),
        ("a MiB more is refused", (0, 1024), (0, 8193), limits(None, 8193), Reason.INSUFFICIENT_MEMORY),
        ("CPU short refuses memory that would fit", (0, 0), (3000, 10), limits(3000, 10), Reason.INSUFFICIENT_CPU),
        (
            "memory short refuses CPU that would fit",
            (0, 0),
            (10, 9000),
            limits(10, 9000),
            Reason.INSUFFICIENT_MEMORY,
        ),
        ("both short names CPU first", (0, 0), (3000, 9000), limits(3000, 9000), Reason.INSUFFICIENT_CPU),
        ("lowering is granted", (4000, 4096), (3000, 2048), limits(3000, 2048), None),
        (
            "what the whole node may give is not infeasible",
            (0, 0),
            (7000, 0),
            limits(7000),
            Reason.INSUFFICIENT_CPU,
        ),
        ("more than total - reserved never fits", (0, 0), (7001, 0), limits(7001), Reason.INFEASIBLE),
        ("nor does more memory", (0, 0), (0, 15_361), limits(None, 15_361), Reason.INFEASIBLE),
        ("infeasible is told before short", (0, 0), (3000, 15_361), limits(3000, 15_361), Reason.INFEASIBLE),
    ],
)
def test_a_request_is_judged_by_the_room_of_its_node(
    case: str, before: tuple[int, int], after: tuple[int, int], asked: Limits, reason: Reason | None
) -> None:
    refusal = judge(EIGHT, amount(*before), amount(*after), Limits(), asked)

    assert (refusal.reason if refusal else None) is reason, case


def test_a_refusal_says_what_is_needed_and_where_the_room_went() -> None:
    refusal = judge(EIGHT, amount(2000), amount(5000), Limits(), limits(5000))

    assert refusal is not None
    assert refusal.reason is Reason.INSUFFICIENT_CPU
    assert refusal.message == (
        "needs 3000m more CPU, node hpc-1 has 2000m available: total 8000m − allocated 5000m − reserved 1000m"
    )


def test_when_both_are_short_the_message_names_both_cpu_first() -> None:
    refusal = judge(EIGHT, NONE, amount(3000, 9000), Limits(), limits(3000, 9000))

    assert refusal is not None
    assert refusal.message == (
        "needs 3000m more CPU, node hpc-1 has 2000m available: "
        "total 8000m − allocated 5000m − reserved 1000m; "
        "needs 9000Mi more memory, node hpc-1 has 7168Mi available: "
        "total 16384Mi − allocated 8192Mi − reserved 1024Mi"
    )


@pytest.mark.parametrize(
    ("case", "asked", "text"),
    [
        ("CPU above the maximum", limits(3001, 100), "3001m CPU is above this workload's maximum, 3000m"),
        ("memory above the maximum", limits(100, 513), "513Mi memory is above this workload's maximum, 512Mi"),
    ],
)
def test_more_than_the_policy_allows_is_infeasible(case: str, asked: Limits, text: str) -> None:
    wide = room(amount(8000, 8192), NONE, NONE)

    refusal = judge(wide, NONE, amount(asked.cpu_limit or 0, asked.memory_limit or 0), limits(3000, 512), asked)

    assert refusal is not None, case
    assert refusal.reason is Reason.INFEASIBLE
    assert text in refusal.message


def test_the_maximum_itself_is_granted() -> None:
    wide = room(amount(8000, 8192), NONE, NONE)

    assert judge(wide, NONE, amount(3000, 512), limits(3000, 512), limits(3000, 512)) is None


def test_a_node_already_over_grants_no_more_but_lets_everyone_lower() -> None:
    over = room(amount(8000, 8192), amount(9000, 9000), amount(1000, 1024))

    assert over.available == NONE
    raised = judge(over, amount(2000), amount(2001), Limits(), limits(2001))
    assert raised is not None
    assert "has 0m available: total 8000m − allocated 9000m − reserved 1000m" in raised.message
    assert judge(over, amount(2000), amount(1000), Limits(), limits(1000)) is None
    assert judge(over, amount(2000), amount(2000), Limits(), limits(2000)) is None


def test_lowering_needs_no_room_even_from_more_than_the_node_may_give() -> None:
    full = room(amount(8000, 8192), amount(8000, 1000), amount(1000, 1024))

    assert judge(full, amount(8000, 1000), amount(7500, 1000), Limits(), limits(7500)) is None


@pytest.mark.parametrize(
    ("case", "workload", "rows", "expected"),
    [
        ("what is in force", record(actual=limits(2000, 1024)), [], amount(2000, 1024)),
        (
            "desired, while it is more than what is in force",
            record(actual=limits(2000, 1024), desired=limits(3000)),
            [],
            amount(3000, 1024),
        ),
        (
            "what is in force, while it is more than desired",
            record(actual=limits(2000, 1024), desired=limits(1000, 512)),
            [],
            amount(2000, 1024),
        ),
        (
            "the target of a reservation, beside what is in force",
            record(actual=limits(2000, 1024)),
            [row(Stage.RESERVED, limits(4000), Limits())],
            amount(4000, 1024),
        ),
        (
            "the rollback of a recorded target that lowers",
            record(actual=limits(1000, 1024), desired=limits(1000)),
            [row(Stage.RECORDED, limits(1000), limits(5000))],
            amount(5000, 1024),
        ),
        (
            "target and rollback of a failed action that is held",
            record(actual=limits(1000, 100), desired=limits(1000, 100)),
            [row(Stage.HELD, limits(6000, 50), limits(500, 900))],
            amount(6000, 900),
        ),
        (
            "nothing of a closed action",
            record(actual=limits(1000, 100)),
            [row(Stage.CLOSED, limits(6000), limits(6000))],
            amount(1000, 100),
        ),
        (
            "the last known limits while they are not known",
            record(actual=limits(2000, 1024), actual_known=False),
            [],
            amount(2000, 1024),
        ),
        (
            "measured use where nothing limits",
            record(actual=limits(None, 512), usage=amount(700, 300)),
            [],
            amount(700, 512),
        ),
        (
            "measured use where nothing was ever read",
            record(actual=None, usage=amount(700, 300)),
            [],
            amount(700, 300),
        ),
        (
            "the node's total that stands for unlimited, by measured use",
            record(
                actual=limits(8000, 512),
                desired=limits(8000),
                unlimited=frozenset({"cpu_limit"}),
                usage=amount(700, 300),
            ),
            [],
            amount(700, 512),
        ),
        (
            "a rollback to unlimited, by measured use",
            record(actual=limits(3000, 512), desired=limits(3000), usage=amount(700, 300)),
            [row(Stage.RECORDED, limits(3000), limits(8000), frozenset({"cpu_limit"}))],
            amount(3000, 512),
        ),
        (
            "what is in force alone, of desired limits that did not fit any more",
            record(actual=limits(500, 100), desired=limits(4000, 900), withheld=True),
            [],
            amount(500, 100),
        ),
        ("nothing, after the hold", record(actual=limits(500, 100), desired=limits(4000), dormant=True), [], NONE),
    ],
)
def test_a_container_takes_the_most_it_is_or_may_become(
    case: str, workload: WorkloadRecord, rows: list[ActionRow], expected: Amount
) -> None:
    assert allocated(workload, rows) == expected, case


def test_the_published_view_sums_up_and_names_who_has_no_limit() -> None:
    node = NodeRecord(node="hpc-1", total=amount(8000, 8192))
    containers = [
        record(name="limited", actual=limits(2000, 1024)),
        record(name="no-cpu-limit", actual=limits(None, 100), usage=amount(300, 50)),
        record(name="no-memory-limit", actual=limits(100, None), usage=amount(300, 50)),
        record(name="rolled-back", actual=limits(8000, 10), desired=limits(8000), unlimited={"cpu_limit"}),
        record(name="stopped", actual=None, running=False),
    ]

    shares = Shares()
    for one in containers:
        shares.put(one.key, share(one, []))

    view = capacity(node, amount(1000, 1024), *shares.of_node("hpc-1", {}))

    assert view.total == amount(8000, 8192)
    assert view.allocated == amount(2000 + 300 + 100, 1024 + 100 + 50 + 10)
    assert view.available == amount(8000 - 1000 - 2400, 8192 - 1024 - 1184)
    assert view.unlimited == ("no-cpu-limit", "no-memory-limit", "rolled-back")


def test_a_node_of_unknown_size_has_no_room() -> None:
    view = capacity(NodeRecord(node="hpc-1"), NONE, amount(100, 100), ())

    assert view.total == view.available == NONE


@given(st.lists(st.tuples(st.integers(0, 4), CHANGES), max_size=30), st.integers(0, 30))
def test_the_kept_sums_are_those_of_all_workloads(steps: list[tuple[int, Change]], kept: int) -> None:
    """The first changes are committed; those after them belong to a turn that is not."""
    shares = Shares()
    present: dict[Key, Share] = {}
    for number, change in steps[:kept]:
        present["hpc-1", f"w{number}"] = made(change)
        shares.put(("hpc-1", f"w{number}"), made(change))
    turn = {("hpc-1", f"w{number}"): made(change) for number, change in steps[kept:]}
    committed = total(present)

    assert shares.of_node("hpc-1", turn) == total(present | turn)
    assert shares.of_node("hpc-1", {}) == committed, "a turn that was not kept left a trace"
    assert shares.of_node("hpc-2", {}) == (NONE, ())


def test_nothing_is_kept_of_a_node_whose_workloads_are_gone() -> None:
    shares = Shares()
    shares.put(("hpc-1", "cam"), share(record(actual=limits(None, 100)), []))
    shares.put(("hpc-1", "cam"), share(None, []))

    assert shares.of_node("hpc-1", {}) == (NONE, ())
    assert not shares._taken
    assert not shares._unlimited


def made(change: Change) -> Share:
    if change is None:
        return share(None, [])
    cpu, target, running = change
    rows = [] if target is None else [row(Stage.RESERVED, limits(target, 100), NO_LIMITS)]
    return share(record(actual=limits(cpu, 100), usage=amount(7, 7), running=running), rows)


def total(shares: Mapping[Key, Share]) -> tuple[Amount, tuple[str, ...]]:
    taken = amount(sum(each.cpu for each in shares.values()), sum(each.memory for each in shares.values()))
    return taken, tuple(sorted(name for (_, name), each in shares.items() if each.unlimited))


def test_what_a_workload_takes_follows_its_record_and_its_rows() -> None:
    rising = row(Stage.RESERVED, limits(300, 100), limits(100, 100))

    assert share(None, [rising]) == (0, 0, False)
    assert share(record(actual=limits(100, 100)), []) == (100, 100, False)
    assert share(record(actual=limits(100, 100)), [rising]) == (300, 100, False)
    assert share(record(actual=limits(None, 100), usage=amount(30, 10)), []) == (30, 100, True)
