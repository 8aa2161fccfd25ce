"""What containers used when ResourceManager last heard of it, as it should know: learnt from what it hears."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from components.resource_manager.records import Key
from schemas.limits import Amount
from schemas.node import NodeSnapshot, StatusReply

if TYPE_CHECKING:
    from tests.simulation.processes import Process

Life = tuple[int, int]


class Uses:
    """By life of a process: use is not written down, so a new one knows what it hears, and no more."""

    def __init__(self) -> None:
        self._measured: defaultdict[Life, dict[Key, Amount]] = defaultdict(dict)
        self._spoken: defaultdict[Life, set[str]] = defaultdict(set)

    def take(self, process: "Process", item: object, ledger: Any) -> None:
        """Take in what an agent says, as far as the ledger found it news; it did so before."""
        life = _life(process)
        told = item if isinstance(item, NodeSnapshot | StatusReply) else None
        node = ledger.nodes.get(told.node) if told is not None else None
        if told is not None and node is not None and told.boot_id >= node.boot_id:
            if isinstance(told, NodeSnapshot) or told.success:
                self._spoken[life].add(told.node)
            for container in told.containers:
                key = (told.node, container.workload_id)
                record = ledger.workloads.get(key)
                news = record is not None and record.stamp == (told.boot_id, told.seq)
                if news and container.actual is not None:
                    self._measured[life][key] = container.usage
        for key in self._measured[life].keys() - ledger.workloads.keys():
            del self._measured[life][key]  # let go; one that comes back under its name is another

    def of(self, process: "Process", key: Key) -> Amount | None:
        """What a container used at its last measurement; None: it was not measured in this life."""
        return self._measured[_life(process)].get(key)

    def untold(self, process: "Process", node: str, ledger: Any) -> str:
        """A running container without a limit, on a node that has not spoken in this life; "": there is none."""
        if node in self._spoken[_life(process)]:
            return ""
        for record in ledger.workloads.values():
            limits = record.actual
            open_ended = limits is not None and (limits.cpu_limit is None or limits.memory_limit is None)
            if record.node == node and record.running and not record.dormant and open_ended:
                return str(record.name)
        return ""


def _life(process: "Process") -> Life:
    return id(process), process.life
