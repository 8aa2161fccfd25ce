"""Which limits a node cannot change, as its agent tells: asking for one is refused before anything is begun."""

from schemas.node import NodeInfo
from schemas.scaling import ScalingAction


class Capabilities:
    """What each node lacks. Of a node that was not heard yet ResourceManager judges, when it records."""

    def __init__(self) -> None:
        self._lacking: dict[str, tuple[int, dict[str, str]]] = {}

    def heard(self, told: NodeInfo) -> None:
        """Take in what an agent tells, unless a later life of it was heard already."""
        boot_id, _ = self._lacking.get(told.node, (0, {}))
        if told.boot_id >= boot_id:
            lacking = {
                name: capability.reason or "not supported there"
                for name, capability in told.capabilities.items()
                if not capability.supported
            }
            self._lacking[told.node] = (told.boot_id, lacking)

    def forget(self, node: str) -> None:
        """Forget a node that is no more."""
        self._lacking.pop(node, None)

    def refusal(self, action: ScalingAction) -> str | None:
        """Why an action cannot be carried out on its node; None: nothing speaks against it."""
        _, lacking = self._lacking.get(action.node, (0, {}))
        refused = [f"{name} on {action.node}: {lacking[name]}" for name in action.target.asked if name in lacking]
        return "; ".join(refused) or None
