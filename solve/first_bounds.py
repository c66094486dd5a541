"""Bounds on the value of a model before any search, in float64 and sound, and what float32 may add to a value.

`first_bounds` gives the best blind policy below and two steps of look-ahead on the fast informed bound above. Solvers
that compute in float32 report their own value less `rounding_of` it: with one backup off by at most e, and the rounded
model by at most d, every vector is within (e + d) / (1 - γ) of the value of its plan.

Shapes: A actions, X states, Z observations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jatpo.model import POMDP
from jatpo.solve.plain_rounds import look_ahead
from jatpo.solve.search_state import SearchState

CHILDREN = 1024  # beliefs after one step up to which a second step is looked at


class FirstBounds(NamedTuple):
    """lower ≤ V(initial) ≤ upper, and what no plan's |value| exceeds at any state."""

    lower: float
    upper: float
    magnitude: float


def first_bounds(model: POMDP) -> FirstBounds:
    """The bounds of `model`, all of whose states count."""
    state = SearchState(model.exact(), model.num_observations, corner_nodes=False)
    look_ahead(state, CHILDREN)
    least = min(float(state.tables.reward.min()), 0.0) / (1 - state.tables.rate)
    most = float(np.abs(state.above.corners).max())
    return FirstBounds(state.lower, state.upper, max(-least, most))


def rounding_of(model: POMDP, magnitude: float, at_once: bool = False) -> float:
    """How far above the value of its plan a vector may be that was backed up in the precision of `model`.

    A backup sums over a row of O and then over a row of P, or over both `at_once`; `magnitude` bounds all values.
    """
    exact, stored = model.exact(), model.to_sparse()
    size, A = model.num_states, model.num_actions
    rows = [_longest(part, A, size) for part in exact[:2]]
    terms = rows[0] * rows[1] if at_once else sum(rows)
    reward = float(np.abs(exact.reward).max(initial=0.0))
    rate = max(exact.discount, stored.discount)
    unit = 0.51 * float(np.finfo(model.dtype).eps)
    backup = unit * ((terms + 4) * magnitude + 2 * reward)
    moved = float(np.abs(exact.reward - stored.reward).max(initial=0.0))
    away = _distance(exact.transition, stored.transition, A, size)
    away += _distance(exact.observation, stored.observation, A, size)
    moved += (rate * away + abs(exact.discount - stored.discount)) * magnitude
    start = float(np.abs(exact.initial - stored.initial).sum()) * magnitude
    return (backup + moved) / (1 - rate) + start


def _longest(coordinates: tuple, A: int, X: int) -> int:
    return int(np.bincount(coordinates[0] * X + coordinates[1], minlength=A * X).max(initial=0))


def _distance(exact: tuple, stored: tuple, A: int, X: int) -> float:
    """The largest sum of |difference| over a row; entries that were rounded to 0 count in full."""
    if len(exact[3]) == len(stored[3]):
        row, difference = exact[0] * X + exact[1], np.abs(exact[3] - stored[3])
        return float(np.bincount(row, difference, A * X).max(initial=0.0))
    total = [np.bincount(part[0] * X + part[1], part[3], A * X) for part in (exact, stored)]
    return float(np.abs(total[0] - total[1]).max()) + float(np.finfo(np.float32).eps)
