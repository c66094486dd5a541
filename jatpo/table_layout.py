"""How a table is laid out in a given width, so that no number is cut and no column is missing without a note.

In this order, the first that fits: the grid with its headers, or with short headers where it takes fewer lines; the
same with the rows under a heading for each value of the first column, if it repeats; one block of lines for each row,
if they fit on a screen; the grid without its optional columns, which a note names; one block for each row. In a grid
the cells of text fold between words, numbers and the first column never do.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jatpo.screen import cells

GAP = 2  # spaces between columns
NARROWEST = 12  # characters that a column of text keeps, where it has as many
SCREEN = 40  # lines of records that one still reads at a glance
BOLD, END = "\x1b[1m", "\x1b[0m"
FIGURE = re.compile(r"[-+<>~]?[\d.]*\d[^,]*|-|N\.A\.|")


@dataclass(frozen=True)
class Cells:
    """A table as text, by column: header, short header, whether it stands to the right, whether it may be left out."""

    headers: Sequence[str]
    short: Sequence[str]
    lines: Sequence[Sequence[str]]
    right: Sequence[bool]
    optional: Sequence[bool]

    def without(self, dropped: Sequence[int]) -> Cells:
        """The table without some columns."""
        kept = [column for column in range(len(self.headers)) if column not in dropped]

        def some(values: Sequence) -> list:
            return [values[column] for column in kept]

        lines = [some(line) for line in self.lines]
        return Cells(some(self.headers), some(self.short), lines, some(self.right), some(self.optional))


def plain(table: Cells) -> list[str]:
    """One line for each row, as wide as it takes."""
    return list(_grid(table, _natural(table)))


def fit(table: Cells, width: int, *, bold: bool = False) -> list[str]:
    """The lines of a table on a terminal of `width` columns."""
    brief = replace(table, headers=table.short)
    tables = [table, brief]
    tables += [candidate.without([0]) for candidate in tables if _repeats(table)]
    heads = [None, None, *[_headings(table)] * 2]
    laid = [
        _laid(candidate, headings, width, bold) for candidate, headings in zip(tables, heads, strict=False)
    ]
    for pair in (laid[:2], laid[2:]):
        fitting = [lines for lines in pair if lines is not None]
        if fitting:
            return min(fitting, key=len)
    records = _records(table, width)
    if len(records) <= SCREEN:
        return records
    found = [(_leave_out(tables[place], width), heads[place]) for place in range(1, len(tables), 2)]
    fitting = [(*least, headings) for least, headings in found if least is not None]
    if not fitting:
        return records
    smaller, widths, names, headings = min(fitting, key=lambda each: len(each[2]))
    note = f"left out to fit {width} columns: {', '.join(names)}"
    return [*_grid(smaller, widths, bold, headings), *textwrap.wrap(note, width)]


def _laid(table: Cells, headings: Sequence[str] | None, width: int, bold: bool) -> list[str] | None:
    """The grid, folded to `width`; None where it does not fit."""
    widths = _widths(table, width)
    return None if widths is None else list(_grid(table, widths, bold, headings))


def _repeats(table: Cells) -> bool:
    """Whether the rows come in groups by their first cell, some of more than one row."""
    first = [line[0] for line in table.lines]
    changes = sum(one != other for one, other in itertools.pairwise(first))
    return len(table.headers) > 1 and changes + 1 == len(set(first)) < len(first) and not table.right[0]


def _headings(table: Cells) -> list[str]:
    """A heading for each row with which a group begins; empty for the others."""
    first = [None, *(line[0] for line in table.lines)]
    return [f"{table.headers[0]}: {new}" if new != old else "" for old, new in itertools.pairwise(first)]


def _leave_out(table: Cells, width: int) -> tuple[Cells, list[int], list[str]] | None:
    """The table without the fewest of its optional columns, the last ones first; their names."""
    dropped: list[int] = []
    for column in reversed([column for column, optional in enumerate(table.optional) if optional]):
        dropped.append(column)
        smaller = table.without(dropped)
        widths = _widths(smaller, width)
        if widths is not None:
            return smaller, widths, [table.headers[each] for each in sorted(dropped)]
    return None


def _natural(table: Cells) -> list[int]:
    """The width of each column when nothing folds."""
    columns = zip(table.headers, *table.lines, strict=True)
    return [max(map(cells, column)) for column in columns]


def _least(table: Cells) -> list[int]:
    """The width of each column when texts fold as far as they may, and headers between words."""
    found = []
    for number, (header, *column) in enumerate(zip(table.headers, *table.lines, strict=True)):
        longest = max(map(cells, column), default=0)
        words = max((cells(word) for text in column for word in text.split()), default=0)
        whole = number == 0 or all(map(FIGURE.fullmatch, column))
        least = longest if whole else min(longest, max(words, NARROWEST))
        found.append(max([least, *map(cells, header.split())]))
    return found


def _widths(table: Cells, width: int) -> list[int] | None:
    """Widths of the columns that fill at most `width`; None where there are none."""
    natural, widths = _natural(table), _least(table)
    room = width - GAP * max(len(widths) - 1, 0) - sum(widths)
    if room < 0:
        return None
    while room > 0:
        short = [column for column, wide in enumerate(widths) if wide < natural[column]]
        if not short:
            break
        for column in short[:room]:
            widths[column] += 1
        room -= len(short[:room])
    return widths


def _grid(
    table: Cells, widths: Sequence[int], bold: bool = False, headings: Sequence[str] | None = None
) -> Iterator[str]:
    """The header and the rows, folded to `widths`, with a heading before some rows."""
    for line in _folded(table.headers, widths, table.right):
        yield f"{BOLD}{line}{END}" if bold and line else line
    for number, row in enumerate(table.lines):
        if headings and headings[number]:
            yield headings[number]
        yield from _folded(row, widths, table.right)


def _folded(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    """One row as one or more lines."""
    folded = [_fold(text, width) for text, width in zip(row, widths, strict=True)]
    for number in range(max(map(len, folded), default=0)):
        parts = [texts[number] if number < len(texts) else "" for texts in folded]
        padded = (_pad(*part) for part in zip(parts, widths, right, strict=True))
        yield (" " * GAP).join(padded).rstrip()


def _fold(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken between words only."""
    if cells(text) <= width:
        return [text]
    first, *words = text.split() or [""]
    lines = [first]
    for word in words:
        longer = f"{lines[-1]} {word}"
        lines[-1:] = [longer] if cells(longer) <= width else [lines[-1], word]
    return lines


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - cells(text))
    return space + text if right else text + space


def _records(table: Cells, width: int) -> list[str]:
    """One block of lines for each row: header and value, with an empty line between blocks."""
    widest = max(map(cells, table.headers), default=0)
    room = max(width - widest - GAP, NARROWEST)
    lines: list[str] = []
    for number, row in enumerate(table.lines):
        lines += [""] if number else []
        for head, text in zip(table.headers, row, strict=True):
            first, *more = _fold(text, room)
            lines.append(f"{_pad(head, widest, False)}{' ' * GAP}{first}".rstrip())
            lines += [" " * (widest + GAP) + line for line in more]
    return lines
