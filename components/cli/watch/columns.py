"""How wide each column is on a screen of this width: the same for all parts, so that they align."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

WIDE: Final = 120
"""Columns from which on there is room for full words and bars of use."""

NARROWEST: Final = 60
_NAME_MIN: Final = 8
_NODE_MAX_NARROW, _NODE_MAX_WIDE = 12, 24
_NAME_MAX: Final = 32


@dataclass(frozen=True)
class Columns:
    """Widths, in terminal columns."""

    width: int
    name: int
    node: int
    note: int
    """What is left at the end of a row of a workload; 0: nothing."""

    @property
    def wide(self) -> bool:
        """Whether there is room for full words and bars of use."""
        return self.width >= WIDE

    @property
    def state(self) -> int:
        """Of a sync state: "synced", or "SYNCHRONIZED"."""
        return 14 if self.wide else 8

    @property
    def number(self) -> int:
        """Of one quantity."""
        return 7 if self.wide else 5

    @property
    def bar(self) -> int:
        """Of a bar of use; 0: none."""
        return 10 if self.wide else 0

    @property
    def group(self) -> int:
        """Of all that is said of one resource: desired, actual, use."""
        return 3 * self.number + 2 + (self.bar + 1 if self.bar else 0)

    @property
    def lead(self) -> int:
        """Of sign, name and node, which begin every row; with the space after them."""
        return 2 + self.name + 1 + self.node + 1


def columns(width: int, names: Iterable[str], nodes: Iterable[str]) -> Columns:
    """The widths for these names of workloads and nodes."""
    width = max(NARROWEST, width)
    bare = Columns(width, 0, 0, 0)
    rest = width - (bare.lead + bare.state + 1 + 4 + 2 + bare.group + 2 + bare.group)
    longest_node = max((len(node) for node in nodes), default=0)
    node = min(max(4, longest_node), _NODE_MAX_WIDE if bare.wide else _NODE_MAX_NARROW, max(4, rest - _NAME_MIN))
    longest_name = max((len(name) for name in names), default=0)
    name = max(_NAME_MIN, min(rest - node, max(longest_name, 17), _NAME_MAX))
    return Columns(width, name, node, max(0, rest - node - name - 2))
