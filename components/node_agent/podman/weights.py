"""CPU shares and cgroup v2's CPU weight: two formulas are in use, and neither can be inverted exactly.

Linear up to crun 1.22 and runc 1.3.1, logarithmic since. A weight is read as the shares that were asked for, where
either formula leads from these to it.
"""

import math
import threading
from typing import Final

from schemas.limits import CPU_SHARES_MAX, CPU_SHARES_MIN

WEIGHT_MIN: Final = 1
WEIGHT_MAX: Final = 10_000
REMEMBERED_MAX: Final = 10_000

_FIRST_LOGARITHMIC: Final = {"crun": (1, 23), "runc": (1, 3, 2)}


def linear_weight(shares: int) -> int:
    """The weight older runtimes make of shares."""
    return 1 + ((shares - CPU_SHARES_MIN) * (WEIGHT_MAX - 1)) // (CPU_SHARES_MAX - CPU_SHARES_MIN)


def logarithmic_weight(shares: int) -> int:
    """The weight newer runtimes make of shares; 1024 becomes the kernel's default, 100."""
    if shares <= CPU_SHARES_MIN:
        return WEIGHT_MIN
    if shares >= CPU_SHARES_MAX:
        return WEIGHT_MAX
    magnitude = math.log2(shares)
    return math.ceil(10 ** ((magnitude * magnitude + 125 * magnitude) / 612 - 7 / 34))


def _linear_shares(weight: int) -> int:
    scaled = (weight - 1) * (CPU_SHARES_MAX - CPU_SHARES_MIN)
    return CPU_SHARES_MIN + -(-scaled // (WEIGHT_MAX - 1))


def _logarithmic_shares(weight: int) -> int:
    if weight <= WEIGHT_MIN:
        return CPU_SHARES_MIN
    if weight >= WEIGHT_MAX:
        return CPU_SHARES_MAX
    exponent = 612 * (math.log10(weight) + 7 / 34)
    return round(2 ** ((math.sqrt(125 * 125 + 4 * exponent) - 125) / 2))


class Weights:
    """Reads weights as shares. Thread-safe; remembers the shares last asked for, per container id."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        self._logarithmic = False
        self._lock = threading.Lock()

    def runtime_is(self, name: str, version: tuple[int, ...]) -> None:
        """Learn which formula the OCI runtime uses."""
        first = _FIRST_LOGARITHMIC.get(name)
        with self._lock:
            self._logarithmic = first is not None and version >= first

    def asked(self, container_id: str, shares: int) -> None:
        """Remember what was asked for."""
        with self._lock:
            self._asked.pop(container_id, None)
            self._asked[container_id] = shares
            if len(self._asked) > REMEMBERED_MAX:
                del self._asked[next(iter(self._asked))]

    def shares(self, container_id: str, weight: int) -> int:
        """The shares that a weight stands for."""
        with self._lock:
            asked, logarithmic = self._asked.get(container_id), self._logarithmic
        # Implementations round differently, by one.
        if asked is not None and any(
            abs(weight - made) <= 1 for made in (linear_weight(asked), logarithmic_weight(asked))
        ):
            return asked
        found = _logarithmic_shares(weight) if logarithmic else _linear_shares(weight)
        return min(CPU_SHARES_MAX, max(CPU_SHARES_MIN, found))
