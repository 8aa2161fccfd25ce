"""What a benchmark found: figures beside their baseline, and how each stands to its goal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One thing measured. `ratio` is to the baseline; `most` or `least` is its goal, where there is one."""

    what: str
    value: float
    unit: str
    baseline: float | None = None
    most: float | None = None
    least: float | None = None
    absolute: bool = False
    """The goal is of the value, not of the ratio."""

    @property
    def ratio(self) -> float | None:
        return None if not self.baseline else self.value / self.baseline

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None: it has none."""
        judged = self.value if self.absolute else self.ratio
        if judged is None or (self.most is None and self.least is None):
            return None
        return (self.most is None or judged <= self.most) and (self.least is None or judged >= self.least)

    @property
    def goal(self) -> str:
        """The goal in words."""
        sign, limit = ("≤", self.most) if self.most is not None else ("≥", self.least)
        if limit is None:
            return ""
        return f"{sign} {limit:g} {self.unit if self.absolute else '×'}"

    def document(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "baseline": self.baseline,
            "ratio": self.ratio,
            "goal": self.goal,
            "met": self.met,
        }


@dataclass
class Report:
    """All figures of one benchmark; `wrong` holds what should never be, such as a lost message."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    took_s: float = 0.0

    def add(self, what: str, value: float, unit: str, **more: Any) -> None:
        self.figures.append(Figure(what, value, unit, **more))

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "took_s": round(self.took_s, 1),
            "figures": [figure.document() for figure in self.figures],
            "remarks": self.remarks,
            "wrong": self.wrong,
        }


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed; nearest rank."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def show(report: Report, screen: Console) -> None:
    """Print a report as a table."""
    table = Table(title=f"{report.name} ({report.took_s:.0f} s)", title_justify="left", title_style="bold")
    table.add_column("FIGURE")
    for heading in ("MEASURED", "BASELINE", "RATIO", "GOAL"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in report.figures:
        style = {True: "green", False: "bold red", None: ""}[one.met]
        table.add_row(
            one.what,
            written(one.value, one.unit),
            "" if one.baseline is None else written(one.baseline, one.unit),
            "" if one.ratio is None else f"{one.ratio:.2f} ×",
            one.goal,
            style=style,
        )
    screen.print(table)
    for remark in report.remarks:
        screen.print(f"  {remark}", soft_wrap=True, highlight=False)
    for text in report.wrong:
        screen.print(f"  ✗ {text}", style="bold red", soft_wrap=True, highlight=False)


def written(value: float, unit: str) -> str:
    """A number with three digits that count."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()
