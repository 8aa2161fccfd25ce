"""One counter per boot: the order of kernel reads."""

import itertools
import threading


class Stamps:
    """Numbers every observation of limits. Taken immediately before the kernel is read, from any thread."""

    def __init__(self) -> None:
        self._count = itertools.count(1)
        self._lock = threading.Lock()

    def next(self) -> int:
        """A number larger than every earlier one of this boot."""
        with self._lock:
            return next(self._count)
