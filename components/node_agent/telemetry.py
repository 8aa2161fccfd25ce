"""What an agent says unasked of its node: metrics every period, and what the node is and can do."""

import logging
from typing import Final

from components.component import Call, Instant, Output
from components.node_agent.node_metrics import NodeSampler
from components.node_agent.observe import Observation, Observer
from components.node_agent.reporter import Reporter
from components.node_agent.runtime import ContainerRuntime, RuntimeInfo
from components.node_agent.work import InfoRead, InfoWork, MetricsRead, MetricsWork
from schemas.limits import Amount, Limits
from schemas.metrics import ContainerMetrics, NodeMetrics
from schemas.node import Capability, NodeInfo

_log = logging.getLogger(__name__)

INFO_RETRY_S: Final = 5.0
NEVER_CHANGEABLE: Final = {
    "huge_pages": "given to a container when it is created; re-create it",
    "numa": "memory nodes cannot be moved under a running container; re-create it",
    "kernel_parameters": "belong to the host, not to a container; set them there",
}


class Metrics:
    """Use of node and containers, every period. A period is left out while the one before is still being read."""

    def __init__(
        self, node: str, observer: Observer, reporter: Reporter, sampler: NodeSampler, interval_s: float
    ) -> None:
        self._node = node
        self._work = MetricsWork(sampler, observer)
        self._reporter = reporter
        self._interval_s = interval_s
        self._due_at = 0.0
        self._running = False

    def tick(self, now: Instant) -> list[Output]:
        """Begin when due."""
        if self._running or now.monotonic < self._due_at:
            return []
        self._due_at = max(self._due_at + self._interval_s, now.monotonic + self._interval_s / 2)
        self._running = True
        return [Call("metrics", self._work)]

    def read(self, read: MetricsRead, now: Instant) -> list[Output]:
        """The metrics; of the node alone, when the containers could not be seen."""
        self._running = False
        sample = read.node
        outputs: list[Output] = [
            NodeMetrics(
                node=self._node,
                cpu_usage=sample.cpu_percent,
                cpu_count=sample.cpu_count,
                used_memory=sample.used_memory,
                total_memory=sample.total_memory,
                rx_bytes=sample.rx_bytes,
                tx_bytes=sample.tx_bytes,
                read_bytes=sample.read_bytes,
                write_bytes=sample.write_bytes,
            )
        ]
        if isinstance(read.seen, Observation):
            batches = self._reporter.uses(read.seen, now.epoch_ms)
            outputs += [ContainerMetrics(node=self._node, containers=batch) for batch in batches]
        return outputs

    def crashed(self) -> None:
        """A look ended by a bug; the next period tries again."""
        self._running = False


class Info:
    """What the node is: said at first, when it changes, and now and then, since somebody may have deleted it."""

    def __init__(self, node: str, boot_id: int, runtime: ContainerRuntime, interval_s: float) -> None:
        self.last: NodeInfo | None = None
        self.problem: str | None = None
        self._node = node
        self._boot_id = boot_id
        self._work = InfoWork(runtime)
        self._wanted = True
        self._running = False
        self._due_at = 0.0
        self._interval_s = interval_s
        self._again_at = 0.0

    def want(self, now: Instant) -> list[Output]:
        """Ask the runtime again: it may be another version since."""
        self._wanted, self._due_at = True, now.monotonic
        return self.tick(now)

    def seen_total(self, total: Amount, now: Instant) -> list[Output]:
        """Ask again if the machine is not what it was: a CPU went away, or came."""
        return self.want(now) if self.last is not None and self.last.total != total else []

    def tick(self, now: Instant) -> list[Output]:
        """Begin when due."""
        if self.last is not None and now.monotonic >= self._again_at:
            return self._say(self.last, now)
        if self._running or not self._wanted or now.monotonic < self._due_at:
            return []
        self._running, self._wanted = True, False
        return [Call("info", self._work)]

    def _say(self, info: NodeInfo, now: Instant) -> list[Output]:
        self.last = info
        self._again_at = now.monotonic + self._interval_s
        return [info]

    def read(self, read: InfoRead, now: Instant) -> list[Output]:
        """The info, if it is news."""
        self._running = False
        if isinstance(read.info, str):
            self.problem = read.info
            self._wanted, self._due_at = True, now.monotonic + INFO_RETRY_S
            return []
        self.problem = None
        news = self._said(read.info)
        if news == self.last:
            return []
        return self._say(news, now)

    def crashed(self, error: Exception, now: Instant) -> None:
        """Asking ended by a bug; try again later."""
        self.read(InfoRead(f"the agent failed to ask the runtime what it is: {error}; see its log"), now)

    def _said(self, info: RuntimeInfo) -> NodeInfo:
        capabilities = {
            limit: Capability(supported=limit not in info.unsupported, reason=info.unsupported.get(limit))
            for limit in Limits.model_fields
        }
        never = {what: Capability(supported=False, reason=why) for what, why in NEVER_CHANGEABLE.items()}
        return NodeInfo(
            node=self._node,
            boot_id=self._boot_id,
            total=info.total,
            podman_version=info.version[:256],
            cgroup_version=info.cgroup_version,
            rootless=info.rootless,
            simulated=info.simulated,
            capabilities=capabilities | never,
        )
