"""Numbers as decimal text that reads back to the same bits.

Reading divides every row of probabilities by its sum, and the sum of rounded numbers is not 1 to the last
bit. So the shortest text of each number is tried first; a row that would not come back is written with the
digits of numbers nearby, within half a unit in the last place of the stored ones, that do sum to 1.
"""

from __future__ import annotations

import numpy as np


def shortest(values: np.ndarray) -> np.ndarray:
    """The shortest text that reads back to the same number in the same precision: [N] str."""
    if values.dtype == np.float64:
        return np.array([repr(value) for value in values.tolist()], dtype="U32")
    return values.astype("U32")


def probability_texts(values: np.ndarray, row: np.ndarray, num_rows: int) -> np.ndarray:
    """Texts of non-zero probabilities `values` [N] that lie in rows `row` [N]: [N] str."""
    texts = shortest(values)
    if not len(texts):
        return texts
    bad = _changed(texts.astype(np.float64), values, row, num_rows)[row]
    if bad.any():
        near = _near(values[bad], row[bad], num_rows)
        fixed = ~_changed(near, values[bad], row[bad], num_rows)[row[bad]]
        texts[np.flatnonzero(bad)[fixed]] = shortest(near[fixed])
    return texts


def _changed(read: np.ndarray, values: np.ndarray, row: np.ndarray, num_rows: int) -> np.ndarray:
    """Whether any number of each row [num_rows] would read back as another one."""
    total = np.bincount(row, weights=read, minlength=num_rows)
    changed = np.zeros(num_rows, bool)
    changed[row[(read / total[row]).astype(values.dtype) != values]] = True
    return changed


def _near(values: np.ndarray, row: np.ndarray, num_rows: int) -> np.ndarray:
    """float64 numbers that round to `values`, with rows that sum to 1."""
    exact, room = values.astype(np.float64), np.spacing(values).astype(np.float64)
    excess = np.bincount(row, weights=exact, minlength=num_rows) - 1
    share = np.bincount(row, weights=room, minlength=num_rows)
    return exact - room * (excess / np.where(share > 0, share, 1))[row]
