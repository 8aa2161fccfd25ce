"""Numbers and bars as they fit into columns."""

from collections.abc import Callable
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from components.cli.screen import printable

ALLOCATED: Final = "█"
RESERVED: Final = "▒"
AVAILABLE: Final = "░"
ASCII_OF: Final = str.maketrans("█▒░●◐▲✗✓○…–→∞─▏↑↓", "#=.*~!xvo.->U-_^v")
"""For terminals that do not know Unicode: one letter for each sign, so that columns stay."""

STYLE_OF_BAR: Final = {ALLOCATED: "blue", RESERVED: "magenta", AVAILABLE: "green"}
SUM_WIDTH: Final = 25
"""Columns that the sum of three amounts and its result may take."""

OVER_STYLE: Final = "bold red"


def cores(millicores: int | None) -> str:
    """Millicores as cores in at most 5 columns: "0.25", "2", "12.5", "128"; "∞" for no limit."""
    if millicores is None:
        return "∞"
    whole = millicores / 1000
    return f"{whole:.3g}" if whole < 100 else f"{whole:.0f}"


def cores_used(millicores: int | None) -> str:
    """Likewise, but with decimals that stand below each other: "0.25", "12.50", "128"."""
    if millicores is None:
        return "–"
    return f"{millicores / 1000:.2f}" if millicores < 99_995 else f"{millicores / 1000:.0f}"


def memory(mib: int | None) -> str:
    """MiB in at most 5 columns: "256M", "1.5G", "13.2G", "2T"; "∞" for no limit."""
    if mib is None:
        return "∞"
    for unit, size in (("T", 1024 * 1024), ("G", 1024)):
        if mib >= size:
            return f"{mib / size:.3g}{unit}" if mib < 1000 * size else f"{mib / size:.0f}{unit}"
    return f"{mib}M"


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly so many columns, cut with "…"; control characters escaped."""
    shown = printable(text)
    if cell_len(shown) > width:
        return set_cell_size(shown, max(0, width - 1)) + "…" if width > 0 else ""
    padding = " " * (width - cell_len(shown))
    return padding + shown if right else shown + padding


def bar(total: int, allocated: int, reserved: int, width: int) -> Text:
    """How a node's capacity is divided: allocated, reserved, available. Red: more is promised than there is."""
    text = Text()
    if total <= 0:
        return text.append(" " * width)
    over = allocated + reserved > total
    used = min(width, _cells(allocated, total, width))
    kept = min(width - used, _cells(reserved, total, width))
    text.append(ALLOCATED * used, OVER_STYLE if over else STYLE_OF_BAR[ALLOCATED])
    text.append(RESERVED * kept, OVER_STYLE if over else STYLE_OF_BAR[RESERVED])
    return text.append(AVAILABLE * (width - used - kept), STYLE_OF_BAR[AVAILABLE])


def use_bar(used: int | None, limit: int | None, width: int) -> Text:
    """How much of its limit a container uses: yellow from 70 %, red from 90 %; blank when not known."""
    if used is None or not limit:
        return Text(" " * width)
    share = used / limit
    filled = min(width, _cells(used, limit, width))
    style = "red" if share >= 0.9 else "yellow" if share >= 0.7 else "green"
    return Text().append(ALLOCATED * filled, style).append(AVAILABLE * (width - filled), "dim")


def divided(
    total: int, allocated: int, reserved: int, available: int, show: Callable[[int], str], width: int
) -> Text:
    """What a bar shows, in numbers and its colours: "2.5 + 2 + 15.5 = 20"; where narrow "15.5 of 20 free"."""
    style = OVER_STYLE if allocated + reserved > total else ""
    if width < SUM_WIDTH:
        return Text().append(fit(f"{show(available)} of {show(total)} free", width), style)
    text = Text().append(show(allocated), style or STYLE_OF_BAR[ALLOCATED])
    text.append(" + ", style or "dim").append(show(reserved), style or STYLE_OF_BAR[RESERVED])
    if style:
        text.append(f" > {show(total)}", style)
    else:
        text.append(" + ", "dim").append(show(available), STYLE_OF_BAR[AVAILABLE])
        text.append(f" = {show(total)}", "dim")
    text.truncate(width, overflow="ellipsis", pad=True)
    return text


def _cells(part: int, total: int, width: int) -> int:
    """Columns for a part, rounded; something is never shown as nothing."""
    return max(1, round(part / total * width)) if part > 0 else 0
