"""A ledger that cannot be written grants nothing, and says so."""

import contextlib
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.resource_manager.ledger import Ledger
from components.resource_manager.manager import ResourceManager
from components.storage import StorageError
from schemas.codec import Cleared
from schemas.enums import ConnectionState, DesiredOperation, Reason, SyncState, UpdateResult
from schemas.limits import Limits
from schemas.operations import ComponentStatus
from schemas.resources import (
    ActualReport,
    DesiredReply,
    DesiredRequest,
    Reconcile,
    ResourceState,
    ValidateReply,
    ValidateRequest,
)
from tests.resource_manager.bench import EPOCH_S, NODE, Bench, container

CAM, NAV = container("cam"), container("nav", 3000, 2048)


@pytest.fixture
def bench(kept: Bench) -> Bench:
    """All of this is about what survives."""
    return kept


@contextlib.contextmanager
def full_disk(bench: Bench) -> Iterator[None]:
    """No file of this process may grow any more, as on a full disk."""
    assert bench.path is not None
    size = bench.path.with_name(bench.path.name + "-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


VALIDATE = ValidateRequest(
    id="q-1", node=NODE, workload_id="cam", action_id="a-1", requested_cpu=2500, reserve=True
)
RECORD = DesiredRequest(
    id="q-2",
    action_id="a-1",
    node=NODE,
    workload_id="cam",
    operation=DesiredOperation.RECORD,
    target=Limits(cpu_limit=2500),
)


def tried(bench: Bench, item: object) -> StorageError:
    with pytest.raises(StorageError) as caught:
        bench.manager.handle(item, bench.now)
    return caught.value


def test_a_disk_that_cannot_be_written_grants_nothing_and_says_so(bench: Bench) -> None:
    with full_disk(bench):
        error = tried(bench, VALIDATE)
        answered = bench.manager.failed(VALIDATE, error, bench.now)
        assert answered is not None
        (reply,) = answered
        assert isinstance(reply, ValidateReply)
        assert (reply.in_reply_to, reply.allowed, reply.reason) == ("q-1", False, Reason.STORAGE_ERROR)
        assert "free space" in reply.message
        assert bench.manager.problem == str(error)

    assert bench.capacity().allocated.cpu == 5000
    assert bench.manager.ledger.row("a-1") is None
    assert bench.validate("a-1", cpu=2500).allowed
    assert bench.manager.problem is None


def test_a_target_that_cannot_be_written_is_not_recorded_but_still_reserved(bench: Bench) -> None:
    bench.validate(cpu=2500)
    with full_disk(bench):
        answered = bench.manager.failed(RECORD, tried(bench, RECORD), bench.now)
    assert answered is not None
    (reply,) = answered
    assert isinstance(reply, DesiredReply)
    assert (reply.in_reply_to, reply.success, reply.reason) == ("q-2", False, Reason.STORAGE_ERROR)
    assert bench.state().desired is None

    assert bench.record(cpu_limit=2500, attempt=2).success


@pytest.mark.parametrize("request_kind", ["report", "abandon"])
def test_what_cannot_be_answered_truly_is_not_answered_since_it_is_repeated(
    bench: Bench, request_kind: str
) -> None:
    bench.recorded(cpu_limit=2500)
    report = ActualReport(
        id="q-3",
        action_id="a-1",
        node=NODE,
        workload_id="cam",
        generation=bench.state().generation,
        result=UpdateResult.SUCCESS,
        actual=Limits(cpu_limit=2500),
        boot_id=100,
        seq=9,
    )
    abandon = RECORD.model_copy(update={"operation": DesiredOperation.ABANDON})
    item = report if request_kind == "report" else abandon
    with full_disk(bench):
        assert bench.manager.failed(item, tried(bench, item), bench.now) == []
    assert bench.state().sync_state is SyncState.APPLYING
    bench.hear(item)
    assert bench.state().sync_state is not SyncState.APPLYING


def test_what_is_no_trouble_of_the_disk_is_nobodys_answer(bench: Bench) -> None:
    assert bench.manager.failed(VALIDATE, ZeroDivisionError(), bench.now) is None


def test_a_reconcile_that_could_not_be_written_down_is_not_sent(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    with full_disk(bench):
        with pytest.raises(StorageError):
            bench.snapshot(container("cam", 700, 1024), NAV)
        bench.after(5)
        assert bench.heard(Reconcile) == []

    bench.snapshot(container("cam", 700, 1024), NAV)
    assert bench.only(Reconcile).desired == Limits(cpu_limit=2500)


def test_a_snapshot_that_could_not_be_written_down_does_not_count(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    with full_disk(bench):
        for _ in range(4):  # as the shell tries again
            with pytest.raises(StorageError):
                bench.snapshot(container("nav", 2900, 2048), seq=70)
    bench.snapshot(container("nav", 2900, 2048), seq=70)

    assert bench.validate("a-2", cpu=2600).allowed, "one snapshot without it is not two"


def test_leases_that_end_while_nothing_can_be_written_end_afterwards(bench: Bench) -> None:
    bench.validate(cpu=4000)
    with full_disk(bench):
        bench.after(61)
        assert bench.manager.problem is not None
        assert bench.capacity().allocated.cpu == 7000
    bench.after()
    assert bench.capacity().allocated.cpu == 5000
    assert bench.manager.problem is None


def test_a_message_that_needs_no_write_does_not_make_a_full_disk_look_healthy(bench: Bench) -> None:
    with full_disk(bench):
        bench.manager.failed(VALIDATE, tried(bench, VALIDATE), bench.now)
        bench.snapshot(CAM, NAV)
        assert bench.manager.problem is not None


def test_a_disk_that_can_be_written_again_is_noticed_without_a_request(bench: Bench) -> None:
    with full_disk(bench):
        bench.manager.failed(VALIDATE, tried(bench, VALIDATE), bench.now)
        bench.after(30)
        assert bench.manager.problem is not None
    bench.after(10)
    assert bench.manager.problem is None


def test_a_file_that_became_read_only_grants_nothing(bench: Bench) -> None:
    bench.manager.close()
    assert bench.path is not None
    with contextlib.closing(sqlite3.connect(bench.path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    ledger = Ledger(bench.path, EPOCH_S)
    ledger._database._connection.execute("PRAGMA query_only = ON")
    manager = ResourceManager(ledger, bench.rules, bench.now)
    bench.manager = manager
    with pytest.raises(StorageError):
        bench.hear(VALIDATE)


def test_the_refusal_says_what_is_available(bench: Bench) -> None:
    with full_disk(bench):
        answered = bench.manager.failed(VALIDATE, tried(bench, VALIDATE), bench.now)
    assert answered is not None
    (reply,) = answered
    assert isinstance(reply, ValidateReply)
    assert reply.available == bench.capacity().available


def refused(bench: Bench, item: object) -> None:
    assert bench.manager.failed(item, tried(bench, item), bench.now) == []


def test_what_a_lost_ledger_had_said_is_taken_over_when_the_disk_has_room_again(
    bench: Bench, tmp_path: Path
) -> None:
    """Simulation, seed 304120: what is retained comes once, so it was forgotten, and its topic a ghost."""
    bench.scaled(cpu_limit=2500)
    remembered = bench.state()
    lost = Bench(tmp_path / "new.sqlite3")
    lost.info()
    with full_disk(lost):
        refused(lost, remembered)
        lost.after(1)

    lost.after(1)
    assert lost.state().desired == Limits(cpu_limit=2500)
    lost.manager.close()


def lost_agent(bench: Bench) -> ComponentStatus:
    return ComponentStatus(
        id="c", component="node_agent", instance=NODE, state=ConnectionState.LOST, boot_id=bench.boot_id
    )


def test_an_agent_that_went_away_while_the_disk_was_full_is_known_to_be_away_afterwards(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    bench.scaled(cpu_limit=2500)
    with full_disk(bench):
        refused(bench, lost_agent(bench))

    bench.after(1)
    assert bench.state().reason is Reason.NODE_UNAVAILABLE


def test_but_not_when_it_has_come_back_since(bench: Bench) -> None:
    bench.agent_is(ConnectionState.READY)
    bench.scaled(cpu_limit=2500)
    with full_disk(bench):
        refused(bench, lost_agent(bench))
        bench.agent_is(ConnectionState.READY)

    bench.after(1)
    assert bench.state().sync_state is SyncState.SYNCHRONIZED


def test_a_release_that_came_while_the_disk_was_full_is_done_afterwards(bench: Bench) -> None:
    bench.scaled(cpu_limit=2500)
    with full_disk(bench):
        refused(bench, Cleared(ResourceState, {"node": NODE, "workload_id": "cam"}))

    bench.after(1)
    assert bench.state().desired is None
