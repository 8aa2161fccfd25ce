"""One update of one container, from the checks to the comparison with the kernel.

Blocking; run outside the component. Touches nothing but the runtime, the intent store, the stamps and the clock it
is given, so that a simulation can run it in lockstep.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from components.node_agent.checks import refuse_container, refuse_target
from components.node_agent.runtime import (
    Container,
    ContainerRuntime,
    ContainerRuntimeError,
    NotRunningError,
    RuntimeTimeoutError,
)
from components.node_agent.stamps import Stamps
from components.node_agent.store import IntentStore, StoreError
from components.node_agent.verdict import UpdateOrder, UpdateResult, describe, judge
from schemas.enums import Reason
from schemas.limits import Limits, mismatches

_MEMORY_KEYS: Final = frozenset({"memory_limit"})


class UpdateProcedure:
    """Updates containers of one runtime. Thread-safe, for different containers at once."""

    def __init__(
        self,
        runtime: ContainerRuntime,
        intents: IntentStore,
        stamps: Stamps,
        *,
        margin_mib: int,
        clock: Callable[[], float],
    ) -> None:
        self._runtime = runtime
        self._intents = intents
        self._stamps = stamps
        self._margin_mib = margin_mib
        self._clock = clock
        self._writing: set[str] = set()
        self._lock = threading.Lock()

    def run(self, order: UpdateOrder) -> UpdateResult:
        """Check, write, read back, compare. Never raises for what a runtime can do."""
        if self._clock() > order.deadline:
            return _too_late(order, UpdateResult())
        try:
            container = self._runtime.resolve(order.workload)
        except ContainerRuntimeError as error:
            return UpdateResult(reason=error.reason, message=str(error))
        seen = UpdateResult(container=container)
        refusal = refuse_container(container, order.runtime_id)
        if refusal is not None:
            return replace(seen, reason=refusal.reason, message=refusal.text)
        with self._only_writer(container.id) as alone:
            if not alone:
                text = f"{container.name} is being written to under another name; try again"
                return replace(seen, reason=Reason.OVERLOADED, message=text)
            return self._update(order, container, seen)

    @contextmanager
    def _only_writer(self, container_id: str) -> Iterator[bool]:
        """A last net: the agent already keeps writers of one name apart."""
        with self._lock:
            alone = container_id not in self._writing
            self._writing.add(container_id)
        try:
            yield alone
        finally:
            if alone:
                with self._lock:
                    self._writing.discard(container_id)

    def _update(self, order: UpdateOrder, container: Container, seen: UpdateResult) -> UpdateResult:
        seq = self._stamps.next()
        try:
            present = self._runtime.read(container)
            host = self._runtime.host()
        except ContainerRuntimeError as error:
            return replace(seen, reason=error.reason, message=str(error))
        seen = replace(seen, actual=present.limits, seq=seq)
        changes = order.target.only(set(mismatches(order.target, present.limits)))
        if changes.empty:
            message = f"{container.name} already has {_in_force(order.target, present.limits)}; nothing to do"
            return replace(seen, success=True, message=message)
        refusal = refuse_target(changes, present, host, self._margin_mib)
        if refusal is not None:
            return replace(seen, reason=refusal.reason, message=refusal.text)
        try:
            self._intents.begin(container.id)
        except StoreError as error:
            return replace(seen, reason=Reason.STORAGE_ERROR, message=f"nothing was written: {error}")
        if self._clock() > order.deadline:
            self._intents.end(container.id)
            return _too_late(order, seen)
        failure = self._write(container, steps(changes, present.limits))
        broken = isinstance(failure, RuntimeTimeoutError)
        if not broken:
            self._intents.end(container.id)
        done = UpdateResult(container=container, wrote=True, broken=broken)
        try:
            return self._verify(container, changes, order, failure, done)
        except ContainerRuntimeError as unread:
            return replace(done, reason=unread.reason, message=_unknown(str(unread), failure))

    def _write(self, container: Container, calls: list[Limits]) -> ContainerRuntimeError | None:
        """Call the runtime; the error that ended it. After a failed fall nothing is raised.

        The intent stays when something else than the runtime fails: then nobody knows how far it came.
        """
        for limits in calls:
            try:
                self._runtime.update(container, limits)
            except ContainerRuntimeError as error:
                return error
        return None

    def _verify(
        self,
        container: Container,
        changes: Limits,
        order: UpdateOrder,
        failure: ContainerRuntimeError | None,
        done: UpdateResult,
    ) -> UpdateResult:
        """Read back, and let the kernel decide. Raises ContainerRuntimeError when it cannot be read."""
        seq = self._stamps.next()
        try:
            actual = self._runtime.read(container).limits
        except NotRunningError:
            # Gone, stopped, or started again meanwhile.
            now = self._runtime.resolve(container.name)
            refusal = refuse_container(now, container.id)
            if refusal is not None:
                return replace(done, reason=refusal.reason, message=_unknown(refusal.text, failure))
            seq = self._stamps.next()
            actual = self._runtime.read(now).limits
            done = replace(done, container=now)
        return judge(order.target, changes, failure, replace(done, seq=seq), actual)


def steps(changes: Limits, present: Limits) -> list[Limits]:
    """The calls to make: one, or two when one resource falls and another rises; the fall first."""
    cpu_rises = _rises(changes.cpu_limit, present.cpu_limit)
    memory_rises = _rises(changes.memory_limit, present.memory_limit)
    if cpu_rises is None or memory_rises is None or cpu_rises == memory_rises:
        return [changes]
    memory = changes.only(set(_MEMORY_KEYS))
    cpu = changes.only(set(changes.asked) - _MEMORY_KEYS)
    return [memory, cpu] if cpu_rises else [cpu, memory]


def _in_force(target: Limits, present: Limits) -> str:
    """What a container holds of a target that needs no change, and for what other numbers it counts."""
    held = present.only(set(target.asked))
    near = target.only({name for name, wanted in target.asked.items() if getattr(held, name) != wanted})
    return describe(held) if near.empty else f"{describe(held)}, which counts as the {describe(near)} asked for"


def _rises(wanted: int | None, present: int | None) -> bool | None:
    """Whether a limit goes up; None: it is not to change."""
    if wanted is None:
        return None
    return present is not None and wanted > present


def _unknown(text: str, error: ContainerRuntimeError | None) -> str:
    return f"{text}; what is in force is not known" + ("" if error is None else f". {error}")


def _too_late(order: UpdateOrder, seen: UpdateResult) -> UpdateResult:
    text = f"the deadline passed before {order.workload} could be written to; nothing was begun"
    return replace(seen, reason=Reason.RUNTIME_TIMEOUT, message=text)
