"""One system to be tried: nodes with containers, the real components on a simulated bus, and what looks on."""

import shutil
from pathlib import Path
from typing import Any

from components.action_controller.controller import ActionController
from components.action_controller.journal import Journal
from components.component import Component
from components.node_agent.agent import NodeAgent
from components.node_agent.events import ContainersChanged
from components.node_agent.node_metrics import SimulatedSampler
from components.node_agent.store import MemoryStore
from components.policy_manager.journal import Journal as PolicyJournal
from components.policy_manager.manager import PolicyManager
from components.resource_manager.ledger import Ledger
from components.resource_manager.manager import ResourceManager
from components.settings import ActionControllerSettings, NodeAgentSettings, ResourceManagerSettings, Settings
from components.storage import Database, StorageError
from schemas.limits import Amount, Limits
from schemas.resources import ResourceState
from tests.simulation.bus import Broker, once
from tests.simulation.invariants import Monitor
from tests.simulation.kernel import Kernel
from tests.simulation.processes import Process
from tests.simulation.requester import Requester
from tests.simulation.world import Machine, World

SETTINGS = Settings(
    node_agent=NodeAgentSettings(settle_s=8, call_timeout_s=3, sync_interval_s=10, metrics_interval_s=86_400),
    resource_manager=ResourceManagerSettings(lease_s=20, absent_hold_s=40),
    action_controller=ActionControllerSettings(retries=2, retry_interval_s=1, deadline_ms=5000),
)


class System:
    """All processes and nodes of one simulation."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.directory = directory
        self.settings = SETTINGS
        self.broker = Broker(world)
        self.monitor = Monitor(self)
        self.central = Machine("central")
        self.kernels: dict[str, Kernel] = {}
        self.agents: dict[str, Process] = {}
        self.requester = Requester()
        self.storage_broken = False
        self._ids = 0
        rng = world.rng
        for number in range(1, rng.randint(1, 2) + 1):
            self._add_node(f"n{number}")
        self.resource_managers = [self._process("resource_manager", self.central, self._build_resource_manager)]
        self.action_controllers = [self._process("action_controller", self.central, self._build_action_controller)]
        self.policy_managers = [self._process("policy_manager", self.central, self._build_policy_manager)]
        self.client = self._process("client", Machine("client"), lambda _process: self.requester)

    @property
    def processes(self) -> list[Process]:
        """All that belong to the system, but not who asks."""
        return [*self.resource_managers, *self.action_controllers, *self.policy_managers, *self.agents.values()]

    def start(self) -> None:
        """Start everything, in any order."""
        starting = [self.client, *self.processes]
        for process in starting:
            self.world.after(self.world.rng.random() * 2, process.start)

    def close(self) -> None:
        """Let go of files."""
        for process in [*self.processes, self.client]:
            process.on_death = lambda: None
            process.starts_again = False
            process.kill()
            process.release()

    def path(self, name: str) -> Path:
        """Of a database."""
        return self.directory / f"{name}.sqlite3"

    @property
    def resource_manager(self) -> Process:
        """The one that lives, or the last that did."""
        return _present(self.resource_managers)

    @property
    def action_controller(self) -> Process:
        """The one that lives, or the last that did."""
        return _present(self.action_controllers)

    @property
    def policy_manager(self) -> Process:
        """The one that lives, or the last that did."""
        return _present(self.policy_managers)

    def start_second(self, kind: str) -> None:
        """Start another process of one kind, by mistake, on the same database."""
        same, build = {
            "resource_manager": (self.resource_managers, self._build_resource_manager),
            "action_controller": (self.action_controllers, self._build_action_controller),
            "policy_manager": (self.policy_managers, self._build_policy_manager),
        }[kind]
        second = self._process(kind, self.central, build)
        second.starts_again = False
        same.append(second)
        for process in same:
            process.on_death = lambda: self._one_remains(same)
        self.world.note("FAULT a second {} is started", kind)
        second.start()

    def copy_database(self, name: str) -> None:
        """Make a copy, as a backup does."""
        for suffix in ("", "-wal"):
            source = self.path(name).with_name(self.path(name).name + suffix)
            copy = source.with_name(source.name + ".old")
            copy.unlink(missing_ok=True)
            if source.exists():
                shutil.copy(source, copy)

    def replace_database(self, name: str, *, old_copy: bool) -> None:
        """Lose a database, or put the old copy in its place. Its process must be dead."""
        for suffix in ("", "-wal", "-shm"):
            path = self.path(name).with_name(self.path(name).name + suffix)
            path.unlink(missing_ok=True)
            copy = path.with_name(path.name + ".old")
            if old_copy and copy.exists():
                shutil.copy(copy, path)

    def lose_database(self, name: str, *, old_copy: bool, away_s: float) -> None:
        """End a process, take its database away, and start it again."""
        process: Process = getattr(self, name)
        what = "restored from an old copy" if old_copy else "lost"
        self.world.note("FAULT the database of {} is {}", name, what)
        process.restart_after = away_s
        process.kill()
        self.replace_database(name, old_copy=old_copy)
        spoken = self.monitor.spoken
        spoken.excused.update(self.requester.asked, self.requester.events, spoken.heard_of)
        if name == "resource_manager":
            self.monitor.memory_is_lost(ledger=True)

    def retained_state(self, node: str, name: str) -> ResourceState | None:
        """What the broker would tell whoever subscribes now."""
        kept = self.broker.retained.get(f"resources/state/{node}/{name}")
        state = once(kept[1].topic, kept[1].payload) if kept else None
        return state if isinstance(state, ResourceState) else None

    def break_storage(self) -> None:
        """No database can be written any more."""
        self.world.note("FAULT the disk is full")
        self.storage_broken = True

    def mend_storage(self) -> None:
        """They can."""
        self.storage_broken = False

    def _guard(self, database: Database) -> None:
        """Have a database fail while the disk is full."""
        transaction = database.transaction

        def guarded() -> Any:
            if self.storage_broken:
                raise StorageError("no space left on device")
            return transaction()

        vars(database)["transaction"] = guarded

    def _add_node(self, node: str) -> None:
        rng = self.world.rng
        total = Amount(cpu=rng.choice((4000, 6000, 8000)), memory=rng.choice((4096, 8192)))
        agent = self.settings.node_agent
        kernel = Kernel(self.world, node, total, agent.settle_s, agent.call_timeout_s, self.monitor)
        self.kernels[node] = kernel
        for number in range(1, rng.randint(1, 3) + 1):
            born_with = Limits(cpu_limit=rng.choice((500, 1000)), memory_limit=rng.choice((256, 512)))
            if rng.random() < 0.15:
                born_with = born_with.only({rng.choice(("cpu_limit", "memory_limit", ""))})
            kernel.create(f"w{number}", "image-a", born_with, Amount(cpu=rng.choice((100, 300)), memory=100))
        store = MemoryStore()
        machine = Machine(node)

        def died() -> None:
            kernel.connection_breaks()
            self.monitor.memory_is_lost()

        def build(process: Process) -> Component:
            kernel.process = process
            kernel.events = lambda: self._event(process)
            process.on_death = died
            kernel.listed = None
            settings = self.settings.model_copy(update={"node_agent": agent.model_copy(update={"node": node})})
            boot_id = store.next_boot(process.now().epoch_ms // 1000)
            return NodeAgent(
                settings,
                kernel,
                store,
                boot_id,
                sampler=SimulatedSampler(total, Amount),
                watcher=None,
                clock=lambda: process.now().monotonic,
            )

        self.agents[node] = self._process(f"agent {node}", machine, build)

    def _event(self, process: Process) -> None:
        self.world.after(
            self.world.rng.random(),
            lambda: process.perform(lambda: process.dispatcher.returned(ContainersChanged())),
        )

    def _one_remains(self, same: list[Process]) -> None:
        """Whoever watches over the system sees to it that one process of a kind starts again."""
        if not any(process.starts_again for process in same):
            ([process for process in same if process.alive] or same)[-1].starts_again = True

    def _process(self, name: str, machine: Machine, build: Any) -> Process:
        return Process(self.world, self.broker, machine, name, build, self.monitor)

    def _build_resource_manager(self, process: Process) -> Component:
        now = process.now()
        ledger = Ledger(self.path("resource_manager"), now.epoch_ms // 1000, durable=False)
        self._guard(ledger._database)
        return ResourceManager(ledger, self.settings, now)

    def _build_action_controller(self, process: Process) -> Component:
        journal = Journal(self.path("action_controller"), durable=False)
        self._guard(journal._database)
        return ActionController(journal, self.settings.action_controller, process.now())

    def _build_policy_manager(self, process: Process) -> Component:
        journal = PolicyJournal(self.path("policy_manager"), durable=False)
        self._guard(journal._database)
        return PolicyManager(self.settings, journal, new_id=lambda: f"restore{process.life}-{self._new_id()}")

    def _new_id(self) -> int:
        self._ids += 1
        return self._ids


def _present(processes: list[Process]) -> Process:
    living = [process for process in processes if process.alive]
    return (living or [process for process in processes if process.starts_again] or processes)[-1]
