"""Checks of a model on the host, before any JAX array is made.

Every message names the row and the number found.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np

from jatpo.errors import JatpoError, RenormalisedWarning

DUST = 1.000001e-5  # a row this far from 1 is renormalised (1e-5, and the rounding of the sum)
SILENT = 1e-6  # and reported if it is further off than this
MOST = 2**31 - 1  # states, actions or observations

Coordinates = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def label(index: int, names: Sequence[str] | None) -> str:
    """`17 (agent 0,4 teammate 2,3)`, or just the number where there are no names."""
    return f"{index} ({names[index]})" if names else str(index)


def names_of(kind: str, names: Sequence[str] | None, size: int) -> tuple[str, ...] | None:
    """`names` as a tuple of `size` different strings."""
    if names is None:
        return None
    names = tuple(str(name) for name in names)
    if len(names) != size:
        raise JatpoError(f"{len(names)} names are given for {size} {kind}: give one name for each")
    if len(set(names)) != size:
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise JatpoError(f"the name '{twice}' stands for two {kind}: names must differ")
    return names


def counts(num_states: int, num_actions: int, num_observations: int) -> None:
    """Refuse an empty model, and one whose indices do not fit 32 bits."""
    found = {"states": num_states, "actions": num_actions, "observations": num_observations}
    for kind, size in found.items():
        if size < 1:
            raise JatpoError(f"the model has no {kind}: it needs at least one")
        if size > MOST:
            raise JatpoError(f"the model has {size} {kind}: at most {MOST} are possible")


def discount(value: float) -> float:
    """`value` if it lies in [0, 1]."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= 1:
        raise JatpoError(f"the discount is {value}, expected a number from 0 to 1")
    return number


def reward(
    array: np.ndarray,
    num_states: int,
    num_actions: int,
    states: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
) -> np.ndarray:
    """R[x, a], finite and of the right shape."""
    array = np.asarray(array, np.float64)
    if array.shape != (num_states, num_actions):
        turned = array.shape == (num_actions, num_states)
        hint = ": it looks transposed, expected R[x, a]" if turned else ""
        raise JatpoError(f"reward has shape {array.shape}, expected {(num_states, num_actions)}{hint}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        x, a = map(int, bad[0])
        where = f"x={label(x, states)}, a={label(a, actions)}"
        raise JatpoError(f"reward[{where}] is {array[x, a]}, expected a finite number")
    return array


def representable(
    array: np.ndarray,
    dtype: np.dtype,
    states: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
) -> None:
    """Refuse a reward R[x, a] that `dtype` does not hold."""
    most = float(np.finfo(dtype).max)
    bad = np.argwhere(np.abs(array) > most)
    if len(bad):
        x, a = map(int, bad[0])
        where = f"x={label(x, states)}, a={label(a, actions)}"
        raise JatpoError(
            f"reward[{where}] is {array[x, a]:g}, and {dtype} holds numbers up to {most:.2g}: "
            "scale the rewards or set JAX_ENABLE_X64=1"
        )


def distribution(what: str, array: np.ndarray, size: int, names: Sequence[str] | None = None) -> np.ndarray:
    """A probability vector [size]; rounding dust is renormalised."""
    array = np.asarray(array, np.float64)
    if array.shape != (size,):
        raise JatpoError(f"{what} has shape {array.shape}, expected {(size,)}")
    wrong = np.flatnonzero(~np.isfinite(array) | (array < 0))
    if len(wrong):
        at = int(wrong[0])
        raise JatpoError(f"{what}[{label(at, names)}] is {array[at]}, expected a probability")
    total = array.sum()
    if abs(total - 1) > DUST:
        raise JatpoError(f"{what} sums to {total:.6g}, expected 1")
    if abs(total - 1) > SILENT:
        _report(f"{what} was", abs(total - 1))
    return array / total if abs(total - 1) > _rounding(array) else array


def dense_shapes(transition: np.ndarray, observation: np.ndarray) -> tuple[int, int, int]:
    """A, X, Z of dense arrays P[a, x, y] and O[a, y, z]."""
    shape = transition.shape
    if len(shape) != 3:
        raise JatpoError(f"transition has shape {shape}, expected (A, X, X)")
    if shape[1] != shape[2]:
        turned = shape[0] == shape[2] or shape[0] == shape[1]
        hint = ": its axes look swapped, expected P[a, x, y]" if turned else ""
        raise JatpoError(f"transition has shape {shape}, expected (A, X, X){hint}")
    if observation.ndim != 3 or observation.shape[:2] != shape[:2]:
        swapped = observation.ndim == 3 and {shape[0], shape[1]} <= set(observation.shape)
        hint = ": its axes look swapped, expected O[a, y, z]" if swapped else ""
        expected = f"({shape[0]}, {shape[1]}, Z)"
        raise JatpoError(f"observation has shape {observation.shape}, expected {expected}{hint}")
    return shape[0], shape[1], observation.shape[2]


def rows(
    what: str,
    coordinates: Coordinates,
    sizes: tuple[int, int, int],
    letters: str,
    actions: Sequence[str] | None,
    states: Sequence[str] | None,
) -> Coordinates:
    """Sorted, summed and normalised (a, row, column, p), every row a distribution.

    `sizes` is (actions, rows, columns); `letters` names the row and column index in messages ("xy" or "yz").
    """
    a, row, column, p = _flat(what, coordinates, sizes, letters)
    wrong = np.flatnonzero(~np.isfinite(p) | (p < 0))
    if len(wrong):
        at = wrong[0]
        where = f"a={label(int(a[at]), actions)}, {letters[0]}={label(int(row[at]), states)}"
        raise JatpoError(f"{what}[{where}, {letters[1]}={column[at]}] is {p[at]}, expected a probability")
    a, row, column, p = _merge(a, row, column, p, sizes)
    total = np.bincount(a * sizes[1] + row, weights=p, minlength=sizes[0] * sizes[1])
    off = np.abs(total - 1)
    if off.max(initial=0) > DUST:
        raise JatpoError(_bad_row(what, total, off, (a, row, column, p), sizes, letters, actions, states))
    if off.max(initial=0) > SILENT:
        count = int((off > SILENT).sum())
        _report(f"1 row of {what} was" if count == 1 else f"{count} rows of {what} were", off.max())
    total[off <= _rounding(p)] = 1
    return a, row, column, p / total[a * sizes[1] + row]


def _report(subject: str, off: float) -> None:
    text = f"{subject} off by up to {off:.1e} and renormalised"
    warnings.warn(text, RenormalisedWarning, stacklevel=6)  # names the line that called the constructor


def _rounding(p: np.ndarray) -> float:
    """How far rounding alone moves a sum of `p` from 1.

    Such rows stay as they are, to the last bit: a stored float32 model comes back unchanged.
    """
    return 2.0**-23 if np.array_equal(p, p.astype(np.float32)) else 1e-12


def _flat(what: str, coordinates: Coordinates, sizes: tuple[int, int, int], letters: str) -> Coordinates:
    if len(coordinates) != 4:
        expected = f"(a, {letters[0]}, {letters[1]}, p)"
        raise JatpoError(f"{what} has {len(coordinates)} coordinate arrays, expected four: {expected}")
    a, row, column, p = (np.asarray(part).ravel() for part in coordinates)
    if not len(a) == len(row) == len(column) == len(p):
        lengths = f"{len(a)}, {len(row)}, {len(column)}, {len(p)}"
        raise JatpoError(f"the four coordinate arrays of {what} have lengths {lengths}, expected equal ones")
    for name, index, size in zip(("a", *letters), (a, row, column), sizes, strict=True):
        if len(index) and not np.issubdtype(index.dtype, np.integer):
            raise JatpoError(f"index {name} of {what} has dtype {index.dtype}, expected whole numbers")
        if len(index) and (index.min() < 0 or index.max() >= size):
            found = int(index.min() if index.min() < 0 else index.max())
            raise JatpoError(f"index {name}={found} of {what} is outside 0..{size - 1}")
    return a.astype(np.int64), row.astype(np.int64), column.astype(np.int64), p.astype(np.float64)


def _merge(a: np.ndarray, row: np.ndarray, column: np.ndarray, p: np.ndarray, sizes: tuple) -> Coordinates:
    """Sorted by (a, row, column), duplicates added up, zeros dropped."""
    flat = (a * sizes[1] + row) * sizes[2] + column
    if len(flat) > 1 and not np.all(np.diff(flat) > 0):
        flat, inverse = np.unique(flat, return_inverse=True)
        p = np.bincount(inverse, weights=p, minlength=len(flat))
    keep = p > 0
    flat, p = flat[keep], p[keep]
    return flat // (sizes[1] * sizes[2]), flat // sizes[2] % sizes[1], flat % sizes[2], p


def _bad_row(
    what: str,
    total: np.ndarray,
    off: np.ndarray,
    merged: Coordinates,
    sizes: tuple[int, int, int],
    letters: str,
    actions: Sequence[str] | None,
    states: Sequence[str] | None,
) -> str:
    at = int(np.flatnonzero(off > DUST)[0])
    where = f"a={label(at // sizes[1], actions)}, {letters[0]}={label(at % sizes[1], states)}"
    text = f"{what}[{where}] sums to {total[at]:.6g}, expected 1"
    others = int((off > DUST).sum()) - 1
    if others:
        text += f" (and {others} more {'row is' if others == 1 else 'rows are'} off)"
    if sizes[1] == sizes[2]:
        a, _, column, p = merged
        columns = np.bincount(a * sizes[2] + column, weights=p, minlength=sizes[0] * sizes[2])
        if np.abs(columns - 1).max() <= DUST:
            order = f"[a, {', '.join(letters)}]"
            text += f"; the columns do sum to 1, so the array looks transposed: expected index order {order}"
    return text
