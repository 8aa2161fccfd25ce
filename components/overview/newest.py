"""The newest of each thing that is said again and again, with when it was heard; ids that were heard lately."""

from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping
from typing import Final, TypeVar

SILENT_MS: Final = 300_000
"""What did not come anew for so long is of the past; MonitoringServer holds it so, too (`fleet.SILENT_S`)."""

K = TypeVar("K")
V = TypeVar("V")


class Newest(Mapping[K, V]):
    """Values by key, at most so many; what nothing is heard of for long can be forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}
        self._heard_ms: dict[K, int] = {}

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: K, value: V, now_ms: int) -> bool:
        """Keep a value, heard at `now_ms`. Whether there was room."""
        if key not in self._values and len(self._values) >= self._most:
            return False
        self._values[key] = value
        self._heard_ms[key] = now_ms
        return True

    def pop(self, key: K) -> V | None:
        """Forget a value; None: there was none."""
        self._heard_ms.pop(key, None)
        return self._values.pop(key, None)

    def silent(self, since_ms: int) -> list[K]:
        """Of what nothing was heard since then."""
        return [key for key, heard_ms in self._heard_ms.items() if heard_ms < since_ms]

    def forget_silent(self, since_ms: int) -> None:
        """Forget of what nothing was heard since then."""
        for key in self.silent(since_ms):
            self.pop(key)


class Recent(Container[K]):
    """The last so many ids: what is repeated is known by them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: OrderedDict[K, None] = OrderedDict()

    def __contains__(self, one: object) -> bool:
        return one in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, one: K) -> bool:
        """Note an id, in place of the one noted longest ago. Whether it was not known."""
        if one in self._ids:
            return False
        self._ids[one] = None
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)
        return True
