"""The non-zero entries of a kernel K[a, row, column] that was given by writes with wildcards.

Every write of a value other than 0 is spread over its wildcards only where no later write covers the whole
row, so that time and memory are those of the entries that come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from jatpo import memory
from jatpo.errors import JatpoError
from jatpo.files.writes import NEVER, Pattern, Table, Writes, given, grid
from jatpo.validate import Coordinates, label

ENTRY_BYTES = 120  # what one entry takes at the peak of reading
BY_COLUMN: tuple[Pattern, ...] = (
    (True, True, True),
    (False, True, True),
    (True, False, True),
    (False, False, True),
)


class Entries(NamedTuple):
    """Entries that some write made non-zero, and when; flat arrays of equal length."""

    a: np.ndarray
    row: np.ndarray
    column: np.ndarray
    value: np.ndarray
    time: np.ndarray


def nonzeros(writes: Writes, what: str, names: Sequence[str] | None) -> Coordinates:
    """The non-zero entries (a, row, column, value), sorted. `what` and the rows' `names` are for messages."""
    _refuse_missing(writes, what, names)
    rows = grid(writes, 1)
    tables = writes.tables(BY_COLUMN)
    kept = []
    if rows is not None:
        kept.append(_latest(_whole_rows(*rows, writes.sizes, what), None, None, tables))
    for pattern, table in tables:
        found = _spread(pattern, table, None if rows is None else rows[0], writes.sizes, what)
        kept.append(_latest(found, pattern, None if rows is None else rows[0], tables))
    entries = kept[0] if len(kept) == 1 else Entries(*map(np.concatenate, zip(*kept, strict=True)))
    return _sorted(entries, writes.sizes)


def _refuse_missing(writes: Writes, what: str, names: Sequence[str] | None) -> None:
    """Refuse a kernel of which some row was never written, before anything as large as all rows is made."""
    tables = writes.tables(list(product((False, True), repeat=3)))
    by_row = [table.columns[int(pattern[0])] for pattern, table in tables if pattern[1]]
    if len(by_row) < len(tables) or sum(map(len, by_row)) >= writes.sizes[1]:
        return
    written = np.unique(np.concatenate(by_row)) if by_row else np.empty(0, np.int64)
    missing = int(np.append(written != np.arange(len(written)), True).argmax())
    raise JatpoError(f"{what} has no row for state {label(missing, names)}, expected one for every state")


def _sorted(entries: Entries, sizes: tuple[int, ...]) -> Coordinates:
    a, row, column, value, _ = entries
    code = (a.astype(np.int64) * sizes[1] + row) * sizes[2] + column
    if len(code) > 1 and not bool((np.diff(code) > 0).all()):
        order = np.argsort(code)
        a, row, column, value = a[order], row[order], column[order], value[order]
    return a, row, column, value


def _latest(entries: Entries, own: Pattern | None, row_time: np.ndarray | None, tables: list) -> Entries:
    """The entries that no later write of another pattern than their `own` covers."""
    a, row, column, _, time = entries
    keep = np.ones(len(time), bool)
    if row_time is not None:
        keep &= row_time[a, row] < time
    for pattern, table in tables:
        if pattern != own:
            keep &= table.times(given(pattern, (a, row, column)), len(time)) < time
    return entries if keep.all() else Entries(*(part[keep] for part in entries))


def _whole_rows(time: np.ndarray, value: np.ndarray, sizes: tuple[int, ...], what: str) -> Entries:
    """The rows whose last write to all columns was not 0, entry by entry."""
    a, row = np.nonzero(value)
    _require(len(a) * sizes[2], what)
    column = np.tile(np.arange(sizes[2], dtype=np.int32), len(a))
    parts = (np.repeat(part, sizes[2]) for part in (a, row, value[a, row], time[a, row]))
    a, row, value, time = parts
    return Entries(a, row, column, value, time)


def _spread(pattern: Pattern, table: Table, row_time: np.ndarray | None, sizes: tuple, what: str) -> Entries:
    """The non-zero writes of one pattern at every (a, row) without a later write to the whole row."""
    columns, value, time = table.columns, table.value, table.time
    if not value.all():
        nonzero = np.flatnonzero(value)
        columns, value, time = [part[nonzero] for part in columns], value[nonzero], time[nonzero]
    if all(pattern):
        return Entries(columns[0], columns[1], columns[2], value, time)
    if row_time is None:
        row_time = np.broadcast_to(np.int64(NEVER), sizes[:2])
    if pattern[0] or pattern[1]:
        lines = row_time if pattern[0] else row_time.T
        write, cell = _earlier_cells(lines, columns[0], time, what)
        a, row = (columns[0][write], cell) if pattern[0] else (cell, columns[0][write])
    else:
        write, cell = _earlier_cells(row_time.reshape(1, -1), np.zeros(len(time), np.int64), time, what)
        a, row = cell // sizes[1], cell % sizes[1]
    return Entries(a, row, columns[-1][write], value[write], time[write])


def _earlier_cells(
    lines: np.ndarray, line: np.ndarray, time: np.ndarray, what: str
) -> tuple[np.ndarray, np.ndarray]:
    """All pairs (write, cell) such that lines[line[write], cell] < time[write], for `lines` [G, L]."""
    order = np.argsort(lines, axis=1, kind="stable")
    span = int(max(lines.max(initial=0), time.max(initial=0))) + 2  # times lie in -1 .. span - 2
    starts = np.arange(len(lines), dtype=np.int64) * span
    ascending = (np.take_along_axis(lines, order, axis=1) + 1 + starts[:, None]).ravel()
    count = np.searchsorted(ascending, starts[line] + time + 1) - line.astype(np.int64) * lines.shape[1]
    _require(int(count.sum()), what)
    write = np.repeat(np.arange(len(time)), count)
    place = np.arange(len(write)) - np.repeat(np.cumsum(count) - count, count)
    return write, order[line[write], place]


def _require(entries: int, what: str) -> None:
    memory.require(
        entries * ENTRY_BYTES, f"the {what} with {entries} non-zero entries", "make it sparser or smaller"
    )
