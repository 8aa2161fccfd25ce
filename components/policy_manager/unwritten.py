"""What was said though the journal could not take it: written down when it can."""

from components.component import Instant
from components.pauses import Pause
from components.policy_manager.journal import Journal
from schemas.performance import PerfOutcome


class Unwritten:
    """Outcomes by event, and whether a pause or its end is missing in the journal."""

    def __init__(self) -> None:
        self.outcomes: dict[str, PerfOutcome] = {}
        self.pauses = False

    def write(self, journal: Journal, pauses: tuple[Pause, ...], now: Instant) -> None:
        """Put it into the journal. Raises StorageError; then it is kept."""
        if self.pauses:
            journal.pause(pauses)
            self.pauses = False
        journal.answer(self.outcomes.values(), now)
        self.outcomes.clear()
