"""How much is measured, and how far it has come."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """In full, or short: enough to see that it runs, not enough to believe the numbers."""

    short: bool = False

    def of(self, full: int, *, short: int) -> int:
        return short if self.short else full


class Progress(AbstractContextManager["Progress"]):
    """A bar at a terminal, nothing elsewhere."""

    def __init__(self, screen: Console) -> None:
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=screen,
            transient=True,
            disable=not screen.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def each(self, items: Iterable[T], what: str) -> Iterator[T]:
        """The items, one step of the bar each."""
        listed = list(items)
        task = self._bars.add_task(what, total=len(listed))
        for item in listed:
            yield item
            self._bars.advance(task)
        self._bars.remove_task(task)
