"""All statements of a window that look alike, read at once: single entries and rows of numbers.

Nothing here fails. A statement in which anything is unusual is left to be read by itself, which says what is
wrong with it.
"""

from __future__ import annotations

import numpy as np

from jatpo.files.spec import Spec
from jatpo.files.tokens import Symbols, Window, floats
from jatpo.validate import DUST


def take(spec: Spec, window: Window, head: np.ndarray, stop: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Read the statements of `spec` from tokens `head` up to `stop` [N] that can be; which were read [N]."""
    taken = np.zeros(len(head), bool)
    axes = len(spec.axes)
    single = _with_header(window, head, stop, axes, 1)
    if len(single):
        taken[single] = _take_single(spec, window, head[single], time[single])
    row = _with_header(window, head, stop, axes - 1, spec.axes[-1].size)
    if len(row):
        taken[row] = _take_rows(spec, window, head[row], time[row])
    return taken


def _with_header(
    window: Window, head: np.ndarray, stop: np.ndarray, indices: int, numbers: int
) -> np.ndarray:
    """The statements with the given numbers of indices, each after a colon, and of values."""
    fits = stop - head == 2 * indices + 1 + numbers
    fits &= window.colons_before[stop] - window.colons_before[head] == indices
    found = np.flatnonzero(fits)
    for place in range(indices):
        found = found[window.colon[head[found] + 2 * place + 1]]
    return found


def _columns(
    spec: Spec, window: Window, head: np.ndarray, indices: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """The indices of every statement, and whether all of them are known."""
    columns = [spec.axes[place].find(window, head + 2 * place + 2) for place in range(indices)]
    known = np.ones(len(head), bool)
    for column in columns:
        known &= column != Symbols.UNKNOWN
    return columns, known


def _allowed(spec: Spec, values: np.ndarray) -> np.ndarray:
    return (values >= 0) & (values <= 1 + DUST) if spec.probability else ~np.isnan(values)


def _full(spec: Spec, columns: list[np.ndarray], count: int) -> list[np.ndarray]:
    """`columns` with wildcards for the axes that are not given."""
    wild = np.full(count, Symbols.WILD)
    return [*columns, *(wild for _ in range(len(spec.writes.sizes) - len(columns)))]


def _take_single(spec: Spec, window: Window, head: np.ndarray, time: np.ndarray) -> np.ndarray:
    axes = len(spec.axes)
    columns, good = _columns(spec, window, head, axes)
    values = floats(window, head + 2 * axes + 1)
    good &= _allowed(spec, values)
    kept = [column[good] for column in columns]
    spec.writes.put_columns(_full(spec, kept, len(kept[0])), values[good], time[good])
    return good


def _take_rows(spec: Spec, window: Window, head: np.ndarray, time: np.ndarray) -> np.ndarray:
    axes, size = len(spec.axes), spec.axes[-1].size
    columns, good = _columns(spec, window, head, axes - 1)
    at = (head + 2 * axes - 1)[:, None] + np.arange(size)
    values = floats(window, at.ravel()).reshape(at.shape)
    good &= _allowed(spec, values).all(axis=1)
    columns, values, time = [column[good] for column in columns], values[good], time[good]
    default = np.zeros(len(values)) if spec.probability else values[:, 0]
    spec.writes.put_columns(_full(spec, columns, len(values)), default, time)
    row, place = np.nonzero(values != default[:, None])
    entry = [*(column[row] for column in columns), place]
    spec.writes.put_columns(_full(spec, entry, len(row)), values[row, place], time[row] + 1)
    return good
