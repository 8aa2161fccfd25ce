"""NodeAgent: owner of the actual state. Writes limits through the runtime, reads the truth from the kernel."""

import time
from collections.abc import Callable

from components.component import Component
from components.node_agent.agent import NodeAgent
from components.node_agent.events import EventWatcher
from components.node_agent.node_metrics import HostSampler, NodeSampler, SimulatedSampler
from components.node_agent.podman.adapter import PodmanRuntime, default_url
from components.node_agent.runtime import ContainerRuntime
from components.node_agent.simulated import populated
from components.node_agent.store import FileStore
from components.settings import NodeAgentSettings, Settings, state_directory


def build(settings: Settings, post: Callable[[object], None]) -> Component:
    """Wire the agent of this node to its runtime and its files; `post` takes news from the runtime's events.

    Raises StoreError when the state directory cannot be used, QueryFailedError where no cgroups are mounted, and
    ValueError for an unusable Podman URL. Podman itself need not be there yet.
    """
    mine = settings.node_agent
    store = FileStore(mine.state_dir or state_directory() / f"agent-{mine.node}")
    runtime, sampler = _runtime(mine)

    def release() -> None:
        runtime.close()
        store.close()

    return NodeAgent(
        settings,
        runtime,
        store,
        store.next_boot(int(time.time())),
        sampler=sampler,
        watcher=EventWatcher(runtime, post),
        clock=time.monotonic,
        release=release,
        outlive=store.outlive,
    )


def _runtime(mine: NodeAgentSettings) -> tuple[ContainerRuntime, NodeSampler]:
    if mine.runtime == "simulated":
        simulated = populated(mine.simulated_containers, timeout_s=mine.call_timeout_s)
        return simulated, SimulatedSampler(simulated.world.total, simulated.world.usage)
    return PodmanRuntime(mine.podman_url or default_url(), mine.call_timeout_s), HostSampler()
