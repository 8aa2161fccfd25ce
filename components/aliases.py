"""By which other names a node's containers are known: full id, or Pullpiri's model where it has just one there."""

from collections import defaultdict

from schemas.node import NodeSnapshot


class Aliases:
    """Names of the containers of one node by their aliases, as its snapshots tell them."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        """Names by full container id as the newest snapshot has it, and by model."""
        self._models: dict[str, str] = {}

    def learn(self, told: NodeSnapshot) -> None:
        """Take ids, and models of running containers from their labels. A container's own name stays that."""
        names = {container.workload_id for container in told.containers}
        members: defaultdict[str, list[str]] = defaultdict(list)
        for container in told.containers:
            if container.running and container.model not in ("", *names):
                members[container.model].append(container.workload_id)
        found = {model: of_model[0] for model, of_model in members.items() if len(of_model) == 1}
        self._models = {**self._models, **found} if told.truncated else found
        ids = {container.runtime_id: container.workload_id for container in told.containers}
        self.known = {**ids, **self._models}
        self.known.pop("", None)

    def name_of(self, given: str) -> str:
        """The container's name, where `given` is an alias; else as it is."""
        return self.known.get(given, given)
