"""The page: parts with a title each, laid out so that all are seen and the chosen one is seen most."""

from dataclasses import dataclass
from typing import Final

from rich.text import Text

from components.cli.screen import printable
from components.cli.watch.columns import Columns, columns
from components.cli.watch.figures import fit
from components.cli.watch.rows import clock
from components.cli.watch.sections import Section, actions, attention_of, capacity, events, nodes_of, workloads
from components.cli.watch.view import Part, View
from components.overview.attention import Need, attention
from components.overview.overview import Overview
from components.overview.words import lasting

_SMALL: Final = 22
SPACIOUS: Final = 32
"""Lines from which on there is an empty line between parts."""


@dataclass(frozen=True)
class Moment:
    """What the page shows besides the picture: where from, when, and whether the connection stands."""

    broker: str
    now_ms: int
    lost: str | None = None
    """Why there is no connection; None: there is one."""
    lost_ms: int = 0
    """Since when."""
    dropped: int = 0
    """Messages that came too fast."""


def page(seen: Overview, view: View, moment: Moment, width: int, height: int) -> list[Text]:
    """The lines of the screen, exactly `height` of them, none wider than `width`."""
    names = (name for _, name in seen.workloads)
    widths = columns(width, names, nodes_of(seen))
    view.nodes = tuple(nodes_of(seen))
    needs = attention(seen, moment.now_ms)
    body = _help(widths) if view.help else _body(seen, view, moment, needs, widths, height - 2)
    if moment.lost is not None:
        for line in body:
            line.stylize("dim")
    lines = [_header(moment, widths), *body[: max(0, height - 2)]]
    lines += [Text()] * (height - 1 - len(lines))
    lines = [*lines, _footer(view, widths)][-height:]
    for line in lines:
        line.truncate(width, overflow="crop")
    return lines


def _body(
    seen: Overview, view: View, moment: Moment, needs: list[Need], widths: Columns, height: int
) -> list[Text]:
    sections = [
        attention_of(needs, widths),
        capacity(seen, view, needs, widths, height),
        workloads(seen, view, moment.now_ms, needs, widths),
        actions(seen, view, moment.now_ms, widths, height),
        events(seen, view, widths),
    ]
    spacious = height >= SPACIOUS
    fixed = sum(1 + len(section.heads) for section in sections) + (len(sections) - 1 if spacious else 0)
    shares = _share(sections, height - fixed, view.part, max(1.0, height / _SMALL))
    lines: list[Text] = []
    for section in sections:
        lines += _lines_of(section, shares[section.part], view, widths)
        if spacious:
            lines.append(Text())
    return lines


def _share(sections: list[Section], lines: int, chosen: Part, scale: float) -> dict[Part, int]:
    """How many rows each part shows: a few each, then the chosen one, then the others from above."""
    shares = {section.part: 0 for section in sections}
    order = sorted(sections, key=lambda section: section.part != chosen)
    for first_round in (True, False):
        for section in order:
            most = round(section.least * scale) if first_round else section.most
            wanted = (
                len(section.rows) if section.part == chosen and not first_round else min(most, len(section.rows))
            )
            more = min(lines, wanted - shares[section.part])
            if more > 0:
                shares[section.part] += more
                lines -= more
    return shares


def _lines_of(section: Section, lines: int, view: View, widths: Columns) -> list[Text]:
    count = len(section.rows)
    first = view.window(section.part, count, lines)
    title = section.title.copy()
    where = f"{first + 1}–{first + lines} of {count}" if 0 < lines < count else ""
    chosen = section.part is view.part
    title.stylize("bold underline" if chosen else "bold", 0, len(section.part))
    title.truncate(widths.width - len(where) - 1, overflow="ellipsis", pad=True)
    title.append(f" {where}", "bold" if chosen else "dim")
    return [title, *section.heads, *(section.row(*what) for what in section.rows[first : first + lines])]


def _header(moment: Moment, widths: Columns) -> Text:
    line = Text()
    if moment.lost is not None:
        gone = lasting(moment.now_ms - moment.lost_ms)
        line.append(f" ✗ no connection for {gone}, trying again: {printable(moment.lost)}", "bold red")
    else:
        line.append(" piriscale watch ", "bold reverse").append(" ● live", "bold green").append(
            f"  {moment.broker}", "dim"
        )
        if moment.dropped:
            line.append(f"  {moment.dropped} messages came too fast to be counted in", "yellow")
    line.truncate(widths.width - 13, overflow="ellipsis", pad=True)
    return line.append(f" {clock(moment.now_ms)} UTC", "dim")


def _footer(view: View, widths: Columns) -> Text:
    if view.typing:
        return Text(f" name has: {fit(view.text + '▏', 40)}enter keeps it, esc clears it", "reverse")
    keys = (
        ("q", "quit"),
        ("?", "help"),
        ("/", "name"),
        ("n", "node"),
        ("a", "attention"),
        ("s", "sort"),
        ("r", "reverse"),
        ("tab", "part"),
        ("↑↓", "scroll"),
    )
    line = Text()
    for key, word in keys:
        line.append(f"{key}", "bold reverse").append(f" {word}  " if widths.wide else f" {word} ", "dim")
    return line


def _help(widths: Columns) -> list[Text]:
    keys = (
        ("q, Ctrl-C", "quit"),
        ("/", "show what has these letters in the name of its"),
        ("", "node or workload; enter keeps it, esc clears it"),
        ("n", "show one node, then the next one, then all again"),
        ("a", "show only what needs attention"),
        ("esc, c", "show everything again"),
        ("s", "sort by name, node, state, age, CPU use, memory use"),
        ("r", "reverse that order"),
        ("tab, shift-tab", "choose the part to scroll; it gets the most lines"),
        ("↑ ↓, k j", "scroll by a line"),
        ("page up, page down", "scroll by a page; b and space, too"),
        ("home, end", "to the beginning, to the end; g and G, too"),
        ("?", "this help; any key leaves it"),
    )
    lines = [Text(" Keys", "bold")]
    for key, meaning in keys:
        lines.append(Text(f"  {key:<20}", "bold cyan").append(fit(meaning, widths.width - 23)))
    lines += [Text(), Text(" Signs", "bold")]
    for mark, word, style in (
        ("●", "good", "green"),
        ("◐", "at work", "cyan"),
        ("▲", "look at it: drift, a refusal, something that waits", "yellow"),
        ("✗", "wrong", "bold red"),
        ("○", "not managed, or nothing to do", "dim"),
    ):
        lines.append(Text(f"  {mark} ", style).append(word, "default"))
    units = "  ∞ no limit, – not asked for, ? not known. Memory is binary. Times are UTC."
    return [*lines, Text(units, "dim")]
