"""Processes: a component in its shell, with clocks of its own, that can be killed between any two steps."""

import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]  # has no stubs

from broker.bus import BusCounts, BusEvent, Connected, Delivery, Disconnected, Identity, Subscription
from broker.frames import matches
from components.component import Booted, Call, CallFailed, Component, Instant, Output, Tethered
from components.node_agent.work import UpdateWork
from components.shell.dispatch import Dispatcher
from components.shell.shell import client_id_of
from components.shell.status import OwnStatus
from components.storage import StorageError
from schemas.codec import Frame, encode
from schemas.enums import ConnectionState
from schemas.message import Wire
from schemas.node import UpdateRequest
from tests.simulation.bus import Broker, Link
from tests.simulation.world import Machine, Violation, World

TICK_S: Final = 0.2
"""Between two ticks while something happens."""
IDLE_TICK_S: Final = 3.0
"""And at most, while nothing does: the ticks of a real process would take most of the time of a simulation."""


class Killed(BaseException):
    """The process is killed at this step."""


class Watcher:
    """What looks on while a process works; the invariants derive from it."""

    def before(self, process: "Process", item: object) -> None:
        """A component is about to handle an item, or the word "tick", "connected" or "start"."""

    def after(self, process: "Process", item: object, outputs: list[Output]) -> None:
        """It has, and its effects are committed; nothing is said yet."""

    def said(self, process: "Process", frame: Frame) -> None:
        """A process publishes."""


class _Watched:
    """A component that is looked at around every step. Everything else is the component's."""

    def __init__(self, inner: Component, process: "Process") -> None:
        self._inner = inner
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def handle(self, item: Any, now: Instant) -> list[Output]:
        return self._watch(item, lambda: self._inner.handle(item, now))

    def tick(self, now: Instant) -> list[Output]:
        return self._watch("tick", lambda: self._inner.tick(now))

    def connected(self, now: Instant) -> list[Output]:
        return self._watch("connected", lambda: self._inner.connected(now))

    def disconnected(self, now: Instant) -> None:
        if isinstance(self._inner, Tethered):
            self._inner.disconnected(now)

    def start(self, now: Instant) -> list[Output]:
        return self._watch("start", lambda: self._inner.start(now))

    def _watch(self, item: Any, work: Callable[[], list[Output]]) -> list[Output]:
        process = self._process
        process.step()
        process.watcher.before(process, item)
        try:
            outputs = work()
        except StorageError:
            raise
        except Exception as error:
            raise Bug(process, item, error) from error
        process.watcher.after(process, item, outputs)
        process.step()
        return outputs


class Bug(BaseException):
    """A component raised what it should not."""

    def __init__(self, process: "Process", item: object, error: Exception) -> None:
        super().__init__(f"{process.name} raised {type(error).__name__}: {error} on {item!r}")


class Process:
    """One process of the system, in all its lives."""

    def __init__(
        self,
        world: World,
        broker: Broker,
        machine: Machine,
        name: str,
        build: Callable[["Process"], Component],
        watcher: Watcher,
    ) -> None:
        self.world = world
        self.broker = broker
        self.machine = machine
        self.name = name
        self.watcher = watcher
        self.life = 0
        self.alive = False
        self.component: Any = None
        self.kill_in: int | None = None
        self.restart_after = 1.0
        self.starts_again = True
        self.on_death: Callable[[], None] = lambda: None
        self.paused = False
        self._build = build
        self._monotonic_offset = 0.0
        self._inbox: deque[Callable[[], None]] = deque()
        self._sleepers: list[greenlet] = []
        self._interval = TICK_S
        self._work_done = self._work_seen = 0
        self.counts = BusCounts()

    # Life and death.

    def start(self) -> None:
        """Start, and connect."""
        if self.alive:
            return
        self.life += 1
        self.alive = True
        self.kill_in = None
        self._inbox.clear()
        self.world.note("{} starts (life {})", self.name, self.life)
        self._monotonic_offset = self.world.rng.random() * 100_000 - self.world.now
        try:
            self.component = self._build(self)
        except StorageError as error:
            self.world.note("{} cannot start: {}", self.name, error)
            self._end()
            return
        component = self.component
        boot_id = component.boot_id if isinstance(component, Booted) else self.now().epoch_ms
        status = OwnStatus(component.role, component.instance, boot_id)
        wanted = tuple(component.subscriptions())
        wants_status = any(matches(one.filter, status.topic) for one in wanted)
        own = () if wants_status else (Subscription(status.topic),)
        identity = Identity(
            client_id_of(component.role, component.instance),
            (*wanted, *own),
            component.persistent,
            will=_own_frame(status, ConnectionState.LOST),
            birth=_own_frame(status, ConnectionState.INIT),
        )
        watched: Any = _Watched(component, self)
        self.dispatcher = Dispatcher(
            watched, self, status, self._submit, wants_status=wants_status, now=self.now, retry_after_s=(0.0, 0.0)
        )
        self.link = Link(self.broker, identity, self._event)
        self.perform(self.dispatcher.start)
        if self.alive:
            self.world.after(self.world.rng.random() * 0.2, self.link.connect)
            self.world.after(self.world.rng.random() * TICK_S, self._tick, self.life)

    def kill(self) -> None:
        """End at once; nothing is flushed, nobody is told."""
        if self.alive:
            self.world.note("{} is killed", self.name)
            self._end()

    def _end(self) -> None:
        self.alive = False
        self.paused = False
        if hasattr(self, "link"):
            self.link.vanish()
        self.on_death()
        if self.component is not None:
            self.component.close()
        if self.starts_again:
            self.world.after(self.restart_after, self.start)

    def release(self) -> None:
        """End calls that never came back: a suspended greenlet is never collected, nor the world it knows."""
        for fiber in self._sleepers:
            fiber.throw()
        self._sleepers.clear()

    def kill_after(self, steps: int, restart_after: float) -> None:
        """Be killed in the middle of work, `steps` steps from now."""
        self.kill_in = steps
        self.restart_after = restart_after

    def step(self) -> None:
        """One indivisible step is over; raises Killed when it was the last."""
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in <= 0:
                raise Killed

    def perform(self, work: Callable[[], object]) -> None:
        """Do a piece of work, unless the process is dead; dies in it when its time has come."""
        if not self.alive:
            return
        if self.paused:
            self._inbox.append(lambda: self.perform(work))
            return
        try:
            work()
        except Killed:
            self.kill()
        except Bug as bug:
            raise Violation("0 (no handler fails)", str(bug)) from bug

    def pause(self) -> None:
        """Be stopped by the scheduler of the system, or by SIGSTOP."""
        self.paused = self.alive

    def resume(self) -> None:
        """Go on."""
        if self.paused:
            self.paused = False
            waiting, self._inbox = self._inbox, deque()
            for work in waiting:
                work()

    def now(self) -> Instant:
        """What the process's clocks show."""
        epoch_ms = int(self.world.epoch(self.machine) * 1000)
        return Instant(self.world.now + self._monotonic_offset, epoch_ms)

    def _tick(self, life: int) -> None:
        if not self.alive or life != self.life:
            return
        idle = self._work_done == self._work_seen
        self._interval = min(IDLE_TICK_S, self._interval * 1.5) if idle else TICK_S
        self._work_seen = self._work_done
        if not self.paused:
            self.perform(self.dispatcher.tick)
        self.world.after(self._interval * (0.5 + self.world.rng.random()), self._tick, life)

    # The bus, as the dispatcher sees it.

    def publish(self, frame: Frame) -> bool:
        """Send a frame."""
        self._work_done += 1
        self.step()
        self.world.note("{} says {}", self.name, frame)
        self.watcher.said(self, frame)
        self.link.publish(frame)
        return True

    def ack(self, delivery: Delivery) -> None:
        """Acknowledge a delivery."""
        self.step()
        self.link.ack(delivery)

    def stop(self, last: Frame | None = None, drain_s: float = 2.0) -> None:
        """Say goodbye."""

    def _event(self, event: BusEvent) -> None:
        life = self.life
        if self.paused:
            self._inbox.append(lambda: self._event(event) if life == self.life else None)
            return
        if isinstance(event, Delivery):
            self.perform(lambda: self._delivered(event))
        elif isinstance(event, Connected):
            self.world.note("{} is connected", self.name)
            self.perform(lambda: self.dispatcher.connected(event))
        elif isinstance(event, Disconnected):
            self.world.note("{} is disconnected: {}", self.name, event.reason)
            self.dispatcher.disconnected()
            if event.fatal and self.alive:
                self.starts_again = False
                self._end()

    def _delivered(self, delivery: Delivery) -> None:
        self._work_done += 1
        self.world.note("{} hears {}", self.name, delivery)
        self.dispatcher.delivered(delivery)

    # Calls: each runs in a greenlet, so that it can wait in simulated time.

    def _submit(self, call: Call) -> None:
        life = self.life

        def work() -> None:
            try:
                result: object = call.run()
            except Exception as error:  # noqa: BLE001 - as the shell's pool does
                result = CallFailed(call, error)
            if result is not None:
                self.world.after(0.0, self._returned, result, life)

        fiber = greenlet(work)
        fiber.order = _order_of(call)
        fiber.switch()

    def _returned(self, result: object, life: int) -> None:
        if life == self.life and self.alive:
            if isinstance(result, CallFailed):
                raise Violation("0 (no call fails)", f"{self.name}: {result.call.name}: {result.error!r}")
            self.perform(lambda: self.dispatcher.returned(result))

    def sleep(self, seconds: float) -> None:
        """Let simulated time pass, inside a call. A call of a dead process never comes back."""
        fiber = getcurrent()
        self._sleepers.append(fiber)
        life = self.life

        def wake() -> None:
            if life == self.life and self.alive:
                if self.paused:
                    self._inbox.append(wake)
                    return
                self._sleepers.remove(fiber)
                fiber.switch()

        self.world.after(seconds, wake)
        fiber.parent.switch()


def _order_of(call: Call) -> UpdateRequest | None:
    """The command that a call carries out, so that the kernel can tell which one wrote."""
    return call.run.write.request if isinstance(call.run, UpdateWork) else None


def _own_frame(status: OwnStatus, state: ConnectionState) -> Frame:
    said = status.now(state)
    return encode(said.model_copy(update={"id": f"{said.boot_id}-{state}"}), Wire.MSGPACK)


def some(rng: random.Random, low: float, high: float) -> float:
    """A random number of seconds, small ones more often."""
    return low + (high - low) * rng.random() ** 2
