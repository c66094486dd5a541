"""Small files solved at once, in NumPy: the rounds that `jatpo.solve.graph` would make, without importing jax."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from jatpo.checked_model import Checked, reachable_states, restricted
from jatpo.solve.compiled_engine import available, ready
from jatpo.solve.gap_search import PLAIN, Search, SearchState, advance
from jatpo.solve.stopping import Info, Status, Stop

PATIENCE = (
    1.0  # seconds after which a search is left to the solver, which shows its progress and keeps its state
)
LARGEST = 1e30  # value that single precision is sure to hold


class AtOnce(NamedTuple):
    """A finished search."""

    info: Info
    status: Status
    seconds: float


def solve_at_once(model: Checked, stop: Stop, seed: int) -> AtOnce | None:
    """What graph search finds if it stops soon, other than by its time; None if it does not."""
    sparse, began = model.sparse, time.process_time()
    if not sparse.discount < 1 - 1e-6 or not np.abs(sparse.reward).max() < LARGEST * (1 - sparse.discount):
        return None
    state = SearchState(restricted(sparse, reachable_states(sparse)), model.num_observations)
    search = Search(gap=0.0, compiled=available())
    while (seconds := time.process_time() - began) < PATIENCE:
        if search.compiled and state.work >= PLAIN and not ready():
            return None
        advance(state, search, seed & 0xFFFFFFFF)
        info = Info(sum(state.rounds), state.backups, state.below.name.size, state.lower, state.upper)
        status = Status.CONVERGED if state.closed else stop.reached(info, 0.0)
        if status:
            return AtOnce(info, status, time.process_time() - began)
        if 0 < stop.seconds <= seconds:
            return None
    return None
