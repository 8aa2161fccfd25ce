"""What nodes, containers and applications were measured at last; forgotten when it does not come anew."""

from dataclasses import dataclass

from components.overview.names import NODES_MAX, WORKLOADS_MAX, Key, Names
from components.overview.newest import SILENT_MS, Newest
from schemas.limits import Amount
from schemas.metrics import AppMetrics, ContainerMetrics, NodeMetrics
from schemas.node import NodeSnapshot


@dataclass(frozen=True)
class Use:
    """What a container used when it was last measured, and when that came (UTC epoch ms, own clock)."""

    amount: Amount
    at_ms: int


class Measures:
    """The newest measures by node, and by node and workload."""

    def __init__(self) -> None:
        self.loads: Newest[str, NodeMetrics] = Newest(NODES_MAX)
        self.uses: Newest[Key, Use] = Newest(WORKLOADS_MAX)
        self.apps: Newest[Key, AppMetrics] = Newest(WORKLOADS_MAX)
        """What applications measure of themselves."""
        self.names = Names()
        """Which container each application means, as snapshots tell."""

    def hear(self, message: NodeMetrics | NodeSnapshot | ContainerMetrics | AppMetrics, now_ms: int) -> bool:
        """Take one message in. Whether there was room for all of it."""
        match message:
            case NodeMetrics():
                return self.loads.put(message.node, message, now_ms)
            case AppMetrics():
                return self.apps.put(self.names.key_of(message.node, message.workload_id), message, now_ms)
            case NodeSnapshot():
                self.names.learn(message)
                used = {(message.node, one.workload_id): one.usage for one in message.containers}
                return self._use({key: usage for key, usage in used.items() if key not in self.uses}, now_ms)
            case ContainerMetrics():
                return self._use(
                    {(message.node, one.workload_id): one.usage for one in message.containers}, now_ms
                )

    def forget(self, key: Key) -> None:
        """The workload is gone."""
        self.uses.pop(key)
        self.apps.pop(key)

    def forget_node(self, node: str) -> None:
        """The node is gone."""
        self.loads.pop(node)
        self.names.forget(node)

    def forget_silent(self, now_ms: int) -> None:
        """Forget what did not come anew for long."""
        for kept in (self.loads, self.uses, self.apps):
            kept.forget_silent(now_ms - SILENT_MS)

    def _use(self, used: dict[Key, Amount], now_ms: int) -> bool:
        kept = [self.uses.put(key, Use(amount, now_ms), now_ms) for key, amount in used.items()]
        return all(kept)
