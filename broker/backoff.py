"""When to try again."""

import random
from typing import Final

FIRST_S: Final = 0.1
SLOWEST_S: Final = 10.0
STEADY_S: Final = 1.0
"""What held this long did not fail of connecting, as it would if the broker threw out all that we send first."""


class Backoff:
    """Growing pauses with full jitter, so that a fleet does not return to its broker at the same moment."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, keeps no secret
        self._ceiling_s = FIRST_S

    def pause(self, stood_s: float) -> float:
        """Seconds to wait, given for how long the last try held. A steady one makes the next pause short again."""
        if stood_s >= STEADY_S:
            self._ceiling_s = FIRST_S
        self._ceiling_s = min(self._ceiling_s * 2, SLOWEST_S)
        return self._chance.uniform(FIRST_S, self._ceiling_s)
