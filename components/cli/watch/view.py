"""What a person chose to see: filter, order, part, how far scrolled. Keys in, a view out; no terminal here."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from components.overview.words import natural

FILTER_MAX: Final = 64


class Part(StrEnum):
    """The parts of the page that can be scrolled."""

    ATTENTION = "attention"
    NODES = "nodes"
    WORKLOADS = "workloads"
    ACTIONS = "actions"
    EVENTS = "events"


class Order(StrEnum):
    """By what workloads are sorted."""

    NAME = "name"
    NODE = "node"
    STATE = "state"
    AGE = "age"
    CPU = "cpu use"
    MEMORY = "memory use"


class Key(StrEnum):
    """Keys that are no letters."""

    UP = "up"
    DOWN = "down"
    PAGE_UP = "page up"
    PAGE_DOWN = "page down"
    HOME = "home"
    END = "end"
    TAB = "tab"
    BACK_TAB = "back tab"
    ENTER = "enter"
    ESCAPE = "escape"
    BACKSPACE = "backspace"


_PARTS: Final = tuple(Part)
_ORDERS: Final = tuple(Order)


@dataclass
class View:
    """The choices, changed by keys; the page tells how far it can be scrolled."""

    part: Part = Part.WORKLOADS
    order: Order = Order.NAME
    reverse: bool = False
    only_attention: bool = False
    node: str | None = None
    text: str = ""
    """Part of a name of a node or a workload."""
    typing: bool = False
    """Whether keys go into the filter."""
    help: bool = False
    offsets: dict[Part, int] = field(default_factory=dict)
    pages: dict[Part, int] = field(default_factory=dict)
    """Lines shown of each part, as the page says."""
    lasts: dict[Part, int] = field(default_factory=dict)
    """The largest offset of each part, as the page says."""
    nodes: tuple[str, ...] = ()
    """Nodes to choose from, as the page says."""

    @property
    def filtered(self) -> bool:
        """Whether something may be hidden."""
        return self.only_attention or self.node is not None or bool(self.text)

    def shows(self, node: str | None, workload: str | None = None) -> bool:
        """Whether a row about these passes the choice of node and name."""
        if self.node is not None and node != self.node:
            return False
        text = self.text.lower()
        return not text or any(text in name.lower() for name in (node, workload) if name)

    def window(self, part: Part, count: int, lines: int) -> int:
        """The first of `count` rows to show in so many lines; remembers what scrolling needs to know."""
        self.pages[part] = max(1, lines)
        self.lasts[part] = max(0, count - lines)
        self.offsets[part] = min(self.offsets.get(part, 0), self.lasts[part])
        return self.offsets[part]

    def press(self, key: str) -> bool:
        """Do what a key means. False: leave."""
        if self.typing:
            self._type(key)
        elif self.help:
            self.help = False
        elif key in ("q", "Q"):
            return False
        elif not self._scroll(key):
            self._choose(key)
        return True

    def _type(self, key: str) -> None:
        match key:
            case Key.ENTER:
                self.typing = False
            case Key.ESCAPE:
                self.typing, self.text = False, ""
            case Key.BACKSPACE:
                self.text = self.text[:-1]
            case _ if len(key) == 1 and key.isprintable() and len(self.text) < FILTER_MAX:
                self.text += key
        self.offsets.clear()

    def _choose(self, key: str) -> None:
        match key:
            case "?" | "h":
                self.help = True
            case "/":
                self.typing = True
            case "a":
                self.only_attention = not self.only_attention
                self.offsets.clear()
            case "n":
                self._next_node()
            case "s":
                self.order = _ORDERS[(_ORDERS.index(self.order) + 1) % len(_ORDERS)]
            case "r":
                self.reverse = not self.reverse
            case Key.TAB | Key.BACK_TAB:
                step = 1 if key == Key.TAB else -1
                self.part = _PARTS[(_PARTS.index(self.part) + step) % len(_PARTS)]
            case Key.ESCAPE | "c":
                self.only_attention, self.node, self.text = False, None, ""
                self.offsets.clear()

    def _next_node(self) -> None:
        """The next node, and after the last one all of them."""
        if self.node is None:
            later = self.nodes
        elif self.node in self.nodes:
            later = self.nodes[self.nodes.index(self.node) + 1 :]
        else:  # it is gone meanwhile
            later = tuple(node for node in self.nodes if natural(node) > natural(self.node))
        self.node = later[0] if later else None
        self.offsets.clear()

    def _scroll(self, key: str) -> bool:
        part, page = self.part, self.pages.get(self.part, 1)
        offset, last = self.offsets.get(part, 0), self.lasts.get(part, 0)
        match key:
            case Key.UP | "k":
                offset -= 1
            case Key.DOWN | "j":
                offset += 1
            case Key.PAGE_UP | "b":
                offset -= page
            case Key.PAGE_DOWN | " " | "f":
                offset += page
            case Key.HOME | "g":
                offset = 0
            case Key.END | "G":
                offset = last
            case _:
                return False
        self.offsets[part] = max(0, min(offset, last))
        return True
