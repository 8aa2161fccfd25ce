"""What goes wrong, and what people do: each seed draws its own mixture, rates and moments."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from schemas.enums import OnShortage
from schemas.limits import Amount, Limits
from schemas.message import Wire
from schemas.node import UpdateRequest
from schemas.performance import PerfDegraded
from schemas.scaling import ScalingAction
from tests.simulation.kernel import Kernel, Mood
from tests.simulation.processes import some

if TYPE_CHECKING:
    from tests.simulation.system import System

ACTIVE_S: Final = 150.0
"""How long actions and faults go on."""


_MOODS: Final = (
    *(Mood.HANGING, Mood.HANGING, Mood.FAILING, Mood.PARTIAL, Mood.LYING, Mood.LYING),
    *(Mood.SLOW, Mood.AWAY, Mood.UNREADABLE),
)


@dataclass(frozen=True)
class Kind:
    """A kind of fault, and how often it is drawn against others."""

    name: str
    weight: float
    strike: Callable[["Faults"], None]


class Faults:
    """Plans and commits the faults of one simulation."""

    def __init__(self, system: "System") -> None:
        self.system = system
        self.world = system.world
        self.rng = system.world.rng
        self.until = ACTIVE_S * (0.5 + self.rng.random())
        self.database_lost = False
        self._number = 0

    def plan(self) -> None:
        """Draw what will happen and when."""
        rng = self.rng
        weather = self.system.broker.weather
        weather.slow = rng.choice((0.0, 0.02, 0.1, 0.3))
        weather.slow_s = rng.choice((0.5, 2.0, 6.0))
        weather.doubled = rng.choice((0.0, 0.02, 0.1))
        for _ in range(rng.randint(3, 15)):
            asks = self.ask if rng.random() < 0.7 else self.degrade
            self.world.at(3.0 + rng.random() * (self.until - 3.0), asks)
        kinds = [kind for kind in KINDS if rng.random() < 0.5] or list(KINDS)
        for _ in range(rng.choice((0, 4, 8, 15, 25, 35))):
            kind = rng.choices(kinds, [k.weight for k in kinds])[0]
            self.world.at(3.0 + rng.random() * (self.until - 3.0), self._strike, kind)
        for when in range(10, int(self.until), 10):
            self.world.at(when, self.system.broker.save)
        self.world.at(10 + rng.random() * self.until / 2, self._back_up)

    def _strike(self, kind: Kind) -> None:
        """Let a fault happen; mostly just when something is to be done."""
        before = self.rng.random() < 0.3
        if before:
            self.ask()
        kind.strike(self)
        if not before and self.rng.random() < 0.5:
            self.world.after(some(self.rng, 0.0, 4.0), self.ask)

    def _back_up(self) -> None:
        for name in ("resource_manager", "action_controller", "policy_manager"):
            self.system.copy_database(name)

    def heal(self) -> None:
        """End every fault; what people did to containers stays."""
        system = self.system
        system.world.note("all faults end")
        system.storage_broken = False
        system.broker.come_up()
        weather = system.broker.weather
        weather.slow, weather.doubled = 0.0, 0.0
        for kernel in system.kernels.values():
            kernel.mood = Mood.WELL
        for process in system.processes:
            process.kill_in = None
            process.resume()
            if process.alive:
                process.link.partitioned = False

    # People.

    def ask(self) -> None:
        """Ask for a scaling, sometimes for several at once."""
        for _ in range(self.rng.choice((1, 1, 1, 1, 2, 3))):
            self.system.requester.ask(self._action())

    def _action(self) -> ScalingAction:
        rng = self.rng
        self._number += 1
        node, kernel = rng.choice(sorted(self.system.kernels.items()))
        names = sorted(kernel.containers_by_name) or ["w1"]
        name = rng.choice(names) if rng.random() < 0.97 else "nobody"
        target = Limits(
            cpu_limit=rng.choice((500, 1000, 2000, 3000, 5000)), memory_limit=rng.choice((256, 512, 1024, 3072))
        )
        part = rng.random()
        if part < 0.6:
            target = target.only({"cpu_limit" if part < 0.4 else "memory_limit"})
        truth = kernel.containers_by_name.get(name)
        known = self.system.retained_state(node, name)
        return ScalingAction(
            action_id=f"a{self._number}",
            node=node,
            workload_id=truth.id if truth and rng.random() < 0.1 else name,
            target=target,
            base_generation=known.generation if known and rng.random() < 0.2 else None,
            dry_run=rng.random() < 0.05,
            on_shortage=rng.choice((OnShortage.REJECT, OnShortage.WAIT)),
            wait_s=rng.choice((5.0, 20.0, 60.0)),
            wire=Wire.JSON if rng.random() < 0.1 else None,
        )

    def degrade(self) -> None:
        """A workload performs badly; mostly because one of its limits is nearly reached."""
        kernel, name = self._container()
        truth = kernel.containers_by_name.get(name)
        limits = truth.limits if truth is not None else Limits()
        share = self.rng.choice((0.3, 0.95))
        usage = Amount(cpu=int((limits.cpu_limit or 0) * share), memory=int((limits.memory_limit or 0) * 0.3))
        self._number += 1
        names = {"event_id": f"e{self._number}", "episode_id": f"p{self._number}", "workload_id": name}
        self.system.requester.notice(PerfDegraded(**names, node=kernel.node, usage=usage, limits=limits))

    def by_hand(self) -> None:
        """Somebody changes a container's limits without us."""
        kernel, name = self._container()
        self.world.note("FAULT {} is changed by hand", name)
        kernel.change_by_hand(name, Limits(cpu_limit=self.rng.choice((700, 1500))))

    def tool(self) -> None:
        """Somebody sends an agent an update without generation."""
        kernel, name = self._container()
        self._number += 1
        self.world.note("FAULT a tool updates {}", name)
        update = UpdateRequest(id=f"tool{self._number}", node=kernel.node, workload_id=name, cpu_limit=900)
        self.system.client.perform(lambda: self.system.client.dispatcher.publish([update]))

    # Containers.

    def _container(self) -> tuple[Kernel, str]:
        kernel = self.rng.choice([k for _, k in sorted(self.system.kernels.items())])
        names = sorted(kernel.containers_by_name)
        return kernel, self.rng.choice(names) if names else "w1"

    def restart_container(self) -> None:
        """Stop it and start it, which loses its limits."""
        kernel, name = self._container()
        self.world.note("FAULT {}/{} restarts", kernel.node, name)
        kernel.stop(name)
        self.world.after(some(self.rng, 0.1, 5), kernel.begin, name)

    def stop_container(self) -> None:
        """Stop it for long, or for good."""
        kernel, name = self._container()
        self.world.note("FAULT {}/{} stops", kernel.node, name)
        kernel.stop(name)
        if self.rng.random() < 0.8:
            self.world.after(some(self.rng, 1, 80), kernel.begin, name)

    def recreate_container(self) -> None:
        """Remove it, and make one of the same name, mostly from the same image."""
        kernel, name = self._container()
        gone = kernel.remove(name)
        if gone is None:
            return
        image = gone.image if self.rng.random() < 0.6 else self.rng.choice(("image-b", "image-c"))
        back = some(self.rng, 0.1, 80)
        self.world.note("FAULT {}/{} is removed; {} follows in {} s", kernel.node, name, image, round(back, 1))
        if self.rng.random() < 0.9:
            self.world.after(back, self._create, kernel, name, image, gone.born_with)

    def _create(self, kernel: Kernel, name: str, image: str, limits: Limits) -> None:
        if name not in kernel.containers_by_name:
            self.world.note("{}/{} is created from {}", kernel.node, name, image)
            kernel.create(name, image, limits, Amount(cpu=100, memory=100))

    def use_more(self) -> None:
        """A container needs more memory, so that lowering its limit is refused."""
        kernel, name = self._container()
        truth = kernel.containers_by_name.get(name)
        if truth is not None and truth.running:
            most = truth.limits.memory_limit or 2000
            truth.usage = Amount(cpu=self.rng.choice((50, 400, 900)), memory=int(most * self.rng.random() * 0.95))

    # The runtime.

    def runtime(self) -> None:
        """A runtime that is slow, hangs, fails, does half, lies or is away, for a while."""
        kernel = self.rng.choice([k for _, k in sorted(self.system.kernels.items())])
        kernel.mood = self.rng.choice(_MOODS)
        self.world.note("FAULT runtime of {} is {}", kernel.node, kernel.mood)
        self.world.after(some(self.rng, 2, 40), self._well, kernel)

    def _well(self, kernel: Kernel) -> None:
        self.world.note("runtime of {} is well", kernel.node)
        kernel.mood = Mood.WELL

    # Processes, machines and the bus.

    def kill(self) -> None:
        """Kill a process at one of its next steps."""
        process = self.rng.choice([p for p in self.system.processes if p.starts_again])
        steps = self.rng.randint(1, 40)
        self.world.note("FAULT {} will be killed {} steps from now", process.name, steps)
        process.kill_after(steps, some(self.rng, 0.1, 20))

    def pause(self) -> None:
        """Stop a process for a while."""
        process = self.rng.choice(self.system.processes)
        seconds = some(self.rng, 0.5, 30)
        self.world.note("FAULT {} is paused for {} s", process.name, round(seconds, 1))
        process.pause()
        self.world.after(seconds, process.resume)

    def cut(self) -> None:
        """Break a process's connection, sometimes for longer."""
        process = self.rng.choice(self.system.processes)
        if not process.alive:
            return
        link = process.link
        self.world.note("FAULT {} loses its connection", process.name)
        link.partitioned = True
        link.lost("the network broke")
        self.world.after(some(self.rng, 0.1, 20), setattr, link, "partitioned", False)

    def broker(self) -> None:
        """The broker goes and comes back, with or without its memory."""
        keeps = self.rng.choice(("all", "all", "saved", "nothing"))
        self.system.broker.go_down(keeps)
        self.system.monitor.memory_is_lost()
        self.world.after(some(self.rng, 0.2, 20), self.system.broker.come_up)

    def clock(self) -> None:
        """The wall clock of a machine jumps."""
        machine = self.rng.choice([self.system.central, *(p.machine for p in self.system.agents.values())])
        jump = self.rng.choice((-3600.0, -30.0, 30.0, 3600.0))
        self.world.note("FAULT the clock of {} jumps by {} s", machine.name, jump)
        machine.jump(jump)

    def second(self) -> None:
        """Somebody starts another ResourceManager or ActionController."""
        self.system.start_second(self.rng.choice(("resource_manager", "action_controller", "policy_manager")))

    def storage(self) -> None:
        """The disk is full for a while."""
        self.system.break_storage()
        self.world.after(some(self.rng, 0.5, 15), self.system.mend_storage)

    def database(self) -> None:
        """Lose one database, or restore it from an old copy."""
        if self.database_lost:
            return  # nothing is promised when two are lost
        self.database_lost = True
        name = self.rng.choice(("resource_manager", "action_controller", "policy_manager"))
        old_copy = self.rng.random() < 0.5
        self.system.lose_database(name, old_copy=old_copy, away_s=some(self.rng, 0.1, 10))


KINDS: Final = (
    Kind("kill", 4, Faults.kill),
    Kind("pause", 1, Faults.pause),
    Kind("cut", 2, Faults.cut),
    Kind("broker", 2, Faults.broker),
    Kind("runtime", 4, Faults.runtime),
    Kind("restart_container", 2, Faults.restart_container),
    Kind("stop_container", 1, Faults.stop_container),
    Kind("recreate_container", 2, Faults.recreate_container),
    Kind("by_hand", 1, Faults.by_hand),
    Kind("tool", 0.5, Faults.tool),
    Kind("use_more", 1, Faults.use_more),
    Kind("clock", 0.5, Faults.clock),
    Kind("second", 0.5, Faults.second),
    Kind("storage", 0.5, Faults.storage),
    Kind("database", 0.5, Faults.database),
)
