"""Dead letters: messages nobody could use, told to people, but never so many that they become the trouble."""

from typing import Final

from schemas.codec import Malformed
from schemas.message import NAME_LENGTH_MAX
from schemas.operations import DeadLetter
from schemas.topics import Role, topic_of

LETTERS_PER_S: Final = 10.0
BURST: Final = 20.0
_TOPIC_LENGTH_MAX: Final = 8 * NAME_LENGTH_MAX


class DeadLetters:
    """Writes dead letters while the rate allows."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._tokens = BURST
        self._then = 0.0
        self.topic = topic_of(DeadLetter).address({"component": role})

    def of(self, malformed: Malformed, monotonic: float) -> DeadLetter | None:
        """The letter, or None when there were too many of late."""
        self._tokens = min(BURST, self._tokens + max(0.0, monotonic - self._then) * LETTERS_PER_S)
        self._then = monotonic
        if self._tokens < 1:
            return None
        self._tokens -= 1
        return DeadLetter(
            component=self._role,
            topic=malformed.topic[:_TOPIC_LENGTH_MAX],
            reason=malformed.reason,
            message=malformed.text[:1024],
            head=malformed.head,
        )
