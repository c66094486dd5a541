"""Value iteration in NumPy float64, for models and for two-agent processes before they are models."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jatpo.errors import JatpoError

LIMIT = 100_000  # sweeps


class Converged(NamedTuple):
    """q and v of the last sweep, and the number of sweeps."""

    q: np.ndarray
    v: np.ndarray
    sweeps: int


def iterate_values(
    sweep: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    axis: int | tuple[int, ...],
    residual: float,
    advice: str,
    limit: int = LIMIT,
) -> Converged:
    """Sweeps q = sweep(v), v = max q over `axis`, until no value moves by more than `residual`."""
    values, moved = start, np.inf
    for number in range(1, limit + 1):
        q = sweep(values)
        updated = q.max(axis=axis)
        moved = np.abs(updated - values).max()
        values = updated
        if moved <= residual:
            return Converged(q, values, number)
    raise JatpoError(f"value iteration still moves by {moved:.2g} after {limit} sweeps: {advice}")
