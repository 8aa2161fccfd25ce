"""Calls run in a few threads, and none is lost."""

import queue
import threading

from components.component import Call, CallFailed
from components.shell import calls
from components.shell.calls import CallPool

PATIENCE_S = 5.0


def test_no_more_calls_run_at_once_than_asked_for_and_all_come_back() -> None:
    results: queue.SimpleQueue[object] = queue.SimpleQueue()
    running, most = [0], [0]
    lock = threading.Lock()
    full = threading.Barrier(3)

    def work() -> str:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        full.wait(PATIENCE_S)
        with lock:
            running[0] -= 1
        return "done"

    pool = CallPool("test", results.put, size=3)
    for number in range(9):
        pool.submit(Call(str(number), work))

    assert [results.get(timeout=PATIENCE_S) for _ in range(9)] == ["done"] * 9
    assert most[0] == 3
    pool.stop()


def test_a_component_that_never_stops_calling_is_told_so() -> None:
    results: queue.SimpleQueue[object] = queue.SimpleQueue()
    release = threading.Event()
    pool = CallPool("test", results.put, size=1)
    for _ in range(calls.CALLS_OPEN_MAX):
        pool.submit(Call("hung", lambda: release.wait(PATIENCE_S)))

    pool.submit(Call("one too many", lambda: None))

    refused = results.get(timeout=PATIENCE_S)
    assert isinstance(refused, CallFailed)
    assert refused.call.name == "one too many"
    release.set()
    pool.stop()
