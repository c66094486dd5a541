"""An array given by writes with wildcards, of which the last one that covers an entry counts.

Nothing is ever spread over a wildcard here. Writes are kept by pattern, which says for every axis whether an
index was given or `*`; the value of an entry is that of the latest write among those of all patterns. So a
line such as ``R: * : * : * : * -1`` takes the room of one write, whatever the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

Pattern = tuple[bool, ...]  # for every axis: is an index given?
Index = Sequence["int | np.ndarray | None"]  # None is a wildcard

NEVER = -1  # the time of what was never written
ROOM = 1 << 62


class Writes:
    """Writes to an array of shape `sizes`; each has a time, and later ones override earlier ones."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self._bulk: dict[Pattern, list[tuple]] = {}
        self._single: dict[Pattern, list[tuple]] = {}
        self._tables: dict[Pattern, Table] = {}

    def put(self, index: Index, value: float, time: int) -> None:
        """Write one value at `index`, which may have wildcards."""
        pattern = tuple(part is not None for part in index)
        given = tuple(part for part in index if part is not None)
        self._single.setdefault(pattern, []).append((given, time, value))

    def put_all(self, index: Index, value: np.ndarray, time: np.ndarray | int) -> None:
        """Write `value` [N] at N places; each part of `index` is one number, a wildcard, or an array [N]."""
        if not len(value):
            return
        pattern = tuple(part is not None for part in index)
        columns = tuple(_filled(part, len(value), np.int32) for part in index if part is not None)
        self._bulk.setdefault(pattern, []).append((columns, _filled(time, len(value), np.int64), value))

    def put_columns(self, columns: Sequence[np.ndarray], value: np.ndarray, time: np.ndarray) -> None:
        """`put_all` of places that differ in their wildcards: negative indices are wildcards."""
        wild = np.stack([column < 0 for column in columns])
        code = np.dot(1 << np.arange(len(columns)), wild)
        for kind in np.unique(code):
            rows = code == kind
            parts = [None if kind >> axis & 1 else column[rows] for axis, column in enumerate(columns)]
            self.put_all(parts, value[rows], time[rows])

    def table(self, pattern: Pattern) -> Table | None:
        """The last writes of one pattern; None if there are none."""
        if pattern not in self._tables and (pattern in self._bulk or pattern in self._single):
            sizes = [size for size, given in zip(self.sizes, pattern, strict=True) if given]
            chunks = self._bulk.pop(pattern, [])
            single = self._single.pop(pattern, [])
            if single:
                places, time, value = zip(*single, strict=True)
                columns = tuple(np.array(column, np.int32) for column in zip(*places, strict=True))
                chunks.append((columns, np.array(time, np.int64), np.array(value, np.float64)))
            columns = [np.concatenate(parts) for parts in zip(*(chunk[0] for chunk in chunks), strict=True)]
            time, value = (np.concatenate([chunk[i] for chunk in chunks]) for i in (1, 2))
            self._tables[pattern] = Table(columns, sizes, time, value)
        return self._tables.get(pattern)

    def tables(self, patterns: Sequence[Pattern]) -> list[tuple[Pattern, Table]]:
        """The tables among `patterns` that have entries."""
        found = ((pattern, self.table(pattern)) for pattern in patterns)
        return [(pattern, table) for pattern, table in found if table is not None]


class Table:
    """Distinct places with the time and value of the last write to each, sorted by place."""

    def __init__(
        self, columns: list[np.ndarray], sizes: list[int], time: np.ndarray, value: np.ndarray
    ) -> None:
        self._sizes = sizes
        self._ranks: list[np.ndarray | None] = []
        code = self._fold(columns, len(time))
        last = _last_of_each(code, time)
        self.code = code if last is None else code[last]
        pick = slice(None) if last is None else last
        self.columns = [column[pick] for column in columns]
        self.time, self.value = time[pick], value[pick]

    def _fold(self, columns: list[np.ndarray], count: int) -> np.ndarray:
        """One number for each place. Where it would not fit 62 bits, places so far are ranked first."""
        code, room = np.zeros(count, np.int64), 1
        for column, size in zip(columns, self._sizes, strict=True):
            ranks = None
            if room * size > ROOM:
                ranks, code = np.unique(code, return_inverse=True)
                room = len(ranks)
            self._ranks.append(ranks)
            code, room = code * size + column, room * size
        return code

    def find(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """For `count` places, the row of the table that holds each, or -1."""
        code, known = np.zeros(count, np.int64), np.ones(count, bool)
        for column, size, ranks in zip(columns, self._sizes, self._ranks, strict=True):
            if ranks is not None:
                rank = np.minimum(np.searchsorted(ranks, code), len(ranks) - 1)
                known &= ranks[rank] == code
                code = rank
            code = code * size + column
        row = np.minimum(np.searchsorted(self.code, code), len(self.code) - 1)
        return np.where(known & (self.code[row] == code), row, -1)

    def times(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """When each of `count` places was last written; NEVER for places not in the table."""
        row = self.find(columns, count)
        return np.where(row >= 0, self.time[row], NEVER)


def given(pattern: Pattern, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The columns for which `pattern` has an index."""
    return [column for column, present in zip(columns, pattern, strict=True) if present]


def grid(writes: Writes, tail: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Time and value [size, size] of the writes whose last `tail` axes are wildcards; None if there are none.

    The first two axes are left. Later writes win among them.
    """
    rest = (False,) * tail
    tables = writes.tables([(*lead, *rest) for lead in product((False, True), repeat=2)])
    if not tables:
        return None
    shape = writes.sizes[:2]
    time, value = np.full(shape, NEVER, np.int64), np.zeros(shape)
    for pattern, table in tables:
        place: tuple = (Ellipsis,)
        new_time, new_value = table.time, table.value
        if pattern[0] and pattern[1]:
            place = tuple(table.columns)
        elif pattern[0]:
            place, new_time, new_value = (table.columns[0],), new_time[:, None], new_value[:, None]
        elif pattern[1]:
            place = (slice(None), table.columns[0])
        newer = new_time > time[place]
        value[place] = np.where(newer, new_value, value[place])
        time[place] = np.where(newer, new_time, time[place])
    return time, value


def _filled(part: np.ndarray | int, count: int, dtype: type) -> np.ndarray:
    return part.astype(dtype, copy=False) if isinstance(part, np.ndarray) else np.full(count, part, dtype)


def _last_of_each(code: np.ndarray, time: np.ndarray) -> np.ndarray | None:
    """Rows in the order of `code`, the latest of those with equal code; None if that is how they stand."""
    if len(code) < 2 or bool((np.diff(code) > 0).all()):
        return None
    in_time = bool((np.diff(time) >= 0).all())
    order = np.argsort(code, kind="stable") if in_time else np.lexsort((time, code))
    last = np.append(np.diff(code[order]) > 0, True)
    return order[last]
