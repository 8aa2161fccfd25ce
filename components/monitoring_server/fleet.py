"""All nodes and workloads that were heard of lately: bounded, forgotten when they fall silent or go away."""

from collections.abc import Callable, Iterator
from typing import Final

from components.aliases import Aliases
from components.monitoring_server.workload import NEVER, Workload
from schemas.metrics import NodeMetrics
from schemas.node import NodeInfo

WORKLOADS_MAX: Final = 100_000
NODES_MAX: Final = 10_000
SILENT_S: Final = 300.0
"""What nobody measured for so long is forgotten."""


class Node:
    """One node and its workloads by name."""

    __slots__ = ("aliases", "info", "metrics", "metrics_at", "names", "workloads")

    def __init__(self) -> None:
        self.metrics: NodeMetrics | None = None
        self.metrics_at = NEVER
        self.info: NodeInfo | None = None
        self.workloads: dict[str, Workload] = {}
        self.names: dict[str, str] = {}
        """Names by full container id, as measured: an application may know itself by either."""
        self.aliases = Aliases()
        """What snapshots tell: known before any use is."""

    def unname(self, workload: Workload) -> None:
        """Forget its container's id, unless that is another workload's by now: containers can be renamed."""
        if self.names.get(workload.runtime_id) == workload.name:
            del self.names[workload.runtime_id]


class Fleet:
    """The nodes by name. What found no room is counted."""

    def __init__(self, watch: Callable[[str, str], Workload], silent_s: float = SILENT_S) -> None:
        """`watch` makes the record of a workload of a node; both by name."""
        self.nodes: dict[str, Node] = {}
        self.workloads = 0
        self.refused = 0
        """Samples of nodes and workloads for which there was no room."""
        self.forgotten = 0
        """Workloads that fell silent."""
        self._watch = watch
        self._silent_s = silent_s

    def __iter__(self) -> Iterator[Workload]:
        for node in self.nodes.values():
            yield from node.workloads.values()

    def node(self, name: str) -> Node | None:
        """The node, new if need be; None when there are too many."""
        found = self.nodes.get(name)
        if found is None:
            if len(self.nodes) >= NODES_MAX:
                self.refused += 1
                return None
            found = self.nodes[name] = Node()
        return found

    def admit(self, node: Node, of: str, name: str) -> Workload | None:
        """A new workload on a node called `of`; None when there are too many."""
        if self.workloads >= WORKLOADS_MAX:
            self.refused += 1
            return None
        self.workloads += 1
        found = node.workloads[name] = self._watch(of, name)
        return found

    def identify(self, node: Node, workload: Workload, runtime_id: str) -> Workload | None:
        """Note that a workload now is another container.

        Returns what was watched under that id, while its name was not known, and is not any more.
        """
        node.unname(workload)
        workload.runtime_id = runtime_id
        if not runtime_id or runtime_id == workload.name:
            return None
        node.names[runtime_id] = workload.name
        stray = node.workloads.pop(runtime_id, None)
        self.workloads -= stray is not None
        return stray

    def find(self, node: str, name: str) -> Workload | None:
        """The workload, if it is known."""
        found = self.nodes.get(node)
        return found.workloads.get(name) if found else None

    def drop(self, name: str) -> None:
        """Forget a node and all on it: it went away."""
        gone = self.nodes.pop(name, None)
        if gone is not None:
            self.workloads -= len(gone.workloads)

    def forget_silent(self, now: float) -> None:
        """Forget what nobody measured for long: whole workloads and nodes, and of the others what fell silent."""
        since = now - self._silent_s
        for name, node in list(self.nodes.items()):
            if node.metrics_at < since:
                node.metrics = None
            silent = [w for w in node.workloads.values() if w.seen_at < since]
            for workload in silent:
                del node.workloads[workload.name]
                node.unname(workload)
            self.workloads -= len(silent)
            self.forgotten += len(silent)
            for workload in node.workloads.values():
                workload.forget_before(since)
            if not node.workloads and node.info is None and node.metrics is None:
                del self.nodes[name]
