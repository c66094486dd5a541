"""R[x, a] from rewards r(a, x, y, z) given by writes with wildcards.

    R[x, a] = sum_y P(y | x, a) sum_z O(z | y, a) r(a, x, y, z)

computed as the reward of (a, x) whatever follows, plus corrections: for the (a, x, y) of P where a later
write names y, and within those for the observations z that some write names. A model whose rewards depend on
state and action only never looks at P, and its rewards come out as they were written.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from jatpo.files.writes import Writes, given, grid
from jatpo.validate import Coordinates

CHUNK = 1 << 20  # transitions, or pairs of a transition and an observation, looked at together
WITH_END = [(*lead, True, False) for lead in product((False, True), repeat=2)]
WITH_OBSERVATION = [(*lead, True) for lead in product((False, True), repeat=3)]


def expected(writes: Writes, transition: Coordinates, observation: Coordinates) -> np.ndarray:
    """The expected reward R[x, a]; `transition` and `observation` are sorted coordinates of P and O."""
    num_actions, num_states, _, _ = writes.sizes
    base = grid(writes, 2)
    if base is None:
        base = np.full((num_actions, num_states), -1, np.int64), np.zeros((num_actions, num_states))
    reward = np.array(base[1].T, order="C")
    ends, seen = writes.tables(WITH_END), writes.tables(WITH_OBSERVATION)
    if not ends and not seen:
        return reward
    transition, observation = (_normalised(part, num_states) for part in (transition, observation))
    named = _named(observation, seen, writes.sizes)
    for first in range(0, len(transition[0]), CHUNK):
        a, x, y, p = (part[first : first + CHUNK] for part in transition)
        time, value = base[0][a, x], base[1][a, x]
        gain = -value
        _overlay(ends, (a, x, y, None), time, value)
        gain += value
        gain += _seen(seen, named, (a, x, y), time, value, writes.sizes)
        np.add.at(reward, (x, a), p * gain)
    return reward


def _normalised(coordinates: Coordinates, num_rows: int) -> Coordinates:
    """The coordinates with every row summing to 1; whether it nearly did is checked elsewhere."""
    a, row, column, p = coordinates
    key = a.astype(np.int64) * num_rows + row
    return a, row, column, p / np.bincount(key, weights=p)[key]


def _overlay(tables: list, columns: tuple, time: np.ndarray, value: np.ndarray) -> None:
    """Replace, in place, times and values by those of later writes."""
    for pattern, table in tables:
        row = table.find(given(pattern, columns), len(time))
        newer = (row >= 0) & (table.time[row] > time)
        time[newer], value[newer] = table.time[row[newer]], table.value[row[newer]]


def _named(observation: Coordinates, seen: list, sizes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The entries of O whose observation some write names: the key of (a, y), z and q, sorted by key."""
    mentioned = np.unique(np.concatenate([table.columns[-1] for _, table in seen] or [np.empty(0, np.int32)]))
    kept = np.isin(observation[2], mentioned)
    a, y, z, q = (part[kept] for part in observation)
    return a.astype(np.int64) * sizes[1] + y, z, q


def _seen(
    seen: list, named: tuple, columns: tuple, time: np.ndarray, value: np.ndarray, sizes: tuple[int, ...]
) -> np.ndarray:
    """sum_z O(z | y, a) (r(a, x, y, z) - value) for each transition, over the observations written later."""
    a, x, y = columns
    gain = np.zeros(len(time))
    if not seen:
        return gain
    keys, symbol, q = named
    key = a.astype(np.int64) * sizes[1] + y
    low, high = np.searchsorted(keys, key), np.searchsorted(keys, key, side="right")
    ends = np.cumsum(high - low)
    for start in range(0, int(ends[-1]) if len(ends) else 0, CHUNK):
        pair = np.arange(start, min(start + CHUNK, int(ends[-1])))
        at = np.searchsorted(ends, pair, side="right")
        entry = high[at] - (ends[at] - pair)
        pair_time, pair_value = time[at], value[at].copy()
        _overlay(seen, (a[at], x[at], y[at], symbol[entry]), pair_time, pair_value)
        gain += np.bincount(at, weights=q[entry] * (pair_value - value[at]), minlength=len(gain))
    return gain
