"""What PolicyManager knows of every workload: its state as ResourceManager tells it, and how it stands with us."""

from typing import Final

from components.component import Instant
from components.policy_manager.messages import Key, key_of
from components.policy_manager.standing import Standing
from schemas.resources import ResourceState

STATES_MAX: Final = 100_000


class Workloads:
    """States live in retained topics, standings in the journal; here are their copies for deciding."""

    def __init__(self) -> None:
        self.refused = 0
        """States for which there was no room."""
        self.capped: set[Key] = set()
        """Those whose latest event found them at the maximum of their policy."""
        self._states: dict[Key, ResourceState] = {}
        self._standings: dict[Key, Standing] = {}
        self._restoring: set[Key] = set()

    def state(self, key: Key) -> ResourceState | None:
        """What ResourceManager last said; None: nothing."""
        return self._states.get(key)

    def take(self, state: ResourceState) -> None:
        """Note what ResourceManager says."""
        key = key_of(state)
        if key not in self._states and len(self._states) >= STATES_MAX:
            self.refused += 1
        else:
            self._states[key] = state

    def gone(self, key: Key) -> None:
        """ResourceManager knows the workload no more."""
        self._states.pop(key, None)
        self.capped.discard(key)

    def decided(self, key: Key, *, capped: bool) -> None:
        """Note what the latest event of a workload that has a state led to."""
        if capped:
            self.capped.add(key)
        else:
            self.capped.discard(key)

    def standing(self, key: Key) -> Standing:
        """How the workload stands; one never met stands like any other."""
        return self._standings.get(key, Standing())

    def stand(self, key: Key, standing: Standing) -> None:
        """Note how the workload stands now."""
        self._standings[key] = standing
        if standing.recovered is None:
            self._restoring.discard(key)
        else:
            self._restoring.add(key)

    def restoring(self) -> list[Key]:
        """Workloads that wait for a return to their baseline."""
        return list(self._restoring)

    def forgettable(self, now: Instant, keep_s: float) -> list[Key]:
        """Workloads of which nothing need be remembered."""
        return [
            key
            for key, standing in self._standings.items()
            if standing.forgettable(now, keep_s, known=key in self._states)
        ]

    def forget(self, keys: list[Key]) -> None:
        """Remember nothing of these."""
        for key in keys:
            del self._standings[key]
            self._restoring.discard(key)
