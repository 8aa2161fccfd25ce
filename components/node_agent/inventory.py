"""Which names and ids belong together, as last observed."""

from collections.abc import Iterable

from components.node_agent.runtime import Container


class Inventory:
    """Names and ids of containers. A name keeps its last id until another is observed."""

    def __init__(self) -> None:
        self.complete = False
        """Whether all containers were observed at least once in this boot."""
        self._id_of: dict[str, str] = {}
        self._name_of: dict[str, str] = {}

    def name_of(self, workload: str) -> str:
        """The name of a container given by name or full id; what was given, if that is not known."""
        return self._name_of.get(workload, workload)

    def id_of(self, name: str) -> str | None:
        """The full id of a container by name, if known."""
        return self._id_of.get(name)

    def replace(self, containers: Iterable[Container]) -> None:
        """Take over a complete observation."""
        self._id_of, self._name_of = {}, {}
        for container in containers:
            self.note(container)
        self.complete = True

    def note(self, container: Container) -> None:
        """Take over an observation of one container."""
        old = self._id_of.get(container.name)
        if old is not None:
            self._name_of.pop(old, None)
        self._id_of[container.name] = container.id
        self._name_of[container.id] = container.name
