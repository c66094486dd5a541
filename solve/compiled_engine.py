"""Rounds of a search by compiled code: moves the arrays of a `SearchState` there and back.

The kernels are compiled once on a machine and kept (`jatpo.solve.kept_kernels`). Numba is imported when the first of
them is called: where it is not installed, all rounds are those of `jatpo.solve.plain_rounds`.
"""

from __future__ import annotations

import time
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jatpo.disk import is_sealed
from jatpo.solve import kept_kernels
from jatpo.solve.search_state import Search, SearchState

NONE, NO_UNIFORM = (), np.zeros((0, 3, 0))
OWN = {"point_signature": "signature"}  # names that differ from those of the search


def available() -> bool:
    """Whether Numba is installed."""
    return find_spec("numba") is not None


def ready() -> bool:
    """Whether this machine has compiled the kernels as they are now."""
    return available() and is_sealed(kept_kernels.directory())


@cache
def kernels() -> Any:
    """The module of compiled rounds, compiled now unless this machine has done so before."""
    began, config = time.perf_counter(), import_module("numba").config
    before = config.CACHE_DIR
    try:
        with kept_kernels.kept() as place:
            config.CACHE_DIR = str(place)
            return import_module("jatpo.solve.compiled_round")
    finally:
        config.CACHE_DIR = before
        _spent.append(time.perf_counter() - began)


_spent: list[float] = []


def compiling_seconds() -> float:
    """What this process has spent on compiling or loading the kernels."""
    return sum(_spent)


class Compiled:
    """What compiled code needs beside a search: the model as it is read there, and room to work in."""

    def __init__(self, state: SearchState) -> None:
        kernels()
        self.names = import_module("jatpo.solve.compiled_state")
        t, g = state.tables, state.graph
        A, X = t.reward.shape
        Z = t.num_observations
        self.sizes = np.zeros(self.names.COUNTERS, np.int64)
        self.figures = np.zeros(self.names.FIGURES)
        self.figures[self.names.DISCOUNT], self.figures[self.names.ROUNDING] = t.discount, t.rounding
        empty = np.zeros(0, np.int64)
        self.own: dict[str, np.ndarray] = {
            "slots": empty,
            "joint_state": empty,
            "joint_weight": np.zeros(0),
        }
        self.fixed = {
            "sizes": self.sizes, "figures": self.figures,
            "p_first": t.transition.indptr.astype(np.int64), "p_state": t.transition.indices.astype(np.int64),
            "p": t.transition.data, "o_first": t.observation.indptr.astype(np.int64),
            "o_seen": t.observation.indices.astype(np.int64), "o": t.observation.data,
            "reward": t.reward, "informed": np.ascontiguousarray(g.informed),
            "state_magnitude": g.state_magnitude, "bit": g.bit, "hash": g.hash,
            "dense": np.zeros(X), "mass": np.zeros(X), "marked": np.zeros(max(X, Z), bool),
            "touched": np.zeros(X, np.int64), "total": np.zeros(Z), "place": np.zeros(Z, np.int64),
            "met": np.zeros(Z, np.int64), "follow": np.zeros(Z, np.int64), "arrived": np.zeros(X),
            "plan": np.zeros(X), "done": np.zeros(A, bool),
        }  # fmt: skip

    def trial(self, state: SearchState, search: Search, limit: float, end: float, tolerance: float) -> int:
        """A trial, backed up; returns its depth."""
        real = [search.target(state.gap), limit, end, search.least, tolerance]
        return self._run(state, kernels().TRIAL, [search.width], real)

    def walk(
        self,
        state: SearchState,
        search: Search,
        random: np.random.Generator,
        steps: int,
        upward: int,
        end: float,
        tolerance: float,
    ) -> int:
        """A walk, the first `upward` walkers by what is best above; returns its length."""
        uniform = random.random((steps, 3, search.walkers))
        return self._run(state, kernels().WALK, [upward], [end, tolerance], uniform)

    def back_up_above(self, state: SearchState, nodes: np.ndarray, tolerance: float) -> None:
        """Lower the upper bound of `nodes`, and move corners by more than `tolerance`."""
        self._run(state, kernels().BACK_UP, nodes, [tolerance])

    def sweep(self, state: SearchState) -> None:
        """Back up the whole graph above from cached bounds."""
        self._run(state, kernels().SWEEP)

    def publish(self, state: SearchState) -> None:
        """Make points of the expanded nodes that are lower than others give them."""
        self._run(state, kernels().PUBLISH)

    def prune_points(self, state: SearchState) -> None:
        """Drop the points that the others bound as well."""
        self._run(state, kernels().PRUNE)

    def refresh_visited(self, state: SearchState) -> None:
        """Score the nodes that were backed up, but for the corners that were not visited."""
        self._run(state, kernels().REFRESH)

    def best_below(self, state: SearchState, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of `nodes` that have a row, and the row with the best lower bound of each."""
        both = np.concatenate([nodes, nodes])
        self._run(state, kernels().BELOW, both)
        rows = both[len(nodes) :]
        return nodes[rows >= 0], rows[rows >= 0]

    def _run(
        self,
        state: SearchState,
        what: int,
        whole: ArrayLike = NONE,
        real: ArrayLike = NONE,
        uniform: np.ndarray = NO_UNIFORM,
    ) -> int:
        """Do `what`, a constant of `jatpo.solve.compiled_round`; returns the number of levels."""
        grown = self._grown(state)
        above, below = state.above, state.below
        below.largest, below.slack = np.array(below.largest), np.ascontiguousarray(below.slack)
        fixed = self.fixed | {
            "corners": above.corners, "wanted": above.wanted, "corner_node": above.corner_node,
            "largest": below.largest, "slack": below.slack, "hand": state.clock.hand,
        }  # fmt: skip
        n = self.names
        g = state.graph
        sizes = {
            n.NODES: g.size, n.ENTRIES: g.states.size, n.ROWS: g.row_node.size, n.EDGES: g.child.size,
            n.POINTS: above.number.size, n.VECTORS: below.name.size, n.NAMES: below.issued, n.ISSUED: above.issued,
            n.VERSION: above.version, n.BACKUPS: state.backups,
        }  # fmt: skip
        for place, size in sizes.items():
            self.sizes[place] = size
        self.figures[n.WORK], self.figures[n.FIRST_GAP] = state.work, state.first_gap
        whole, real = np.asarray(whole, np.int64), np.asarray(real, np.float64)
        arrays = tuple([*(room for room in grown.values()), *(fixed[name] for name in n.FIXED)])
        after, levels = kernels().run(arrays, what, whole, real, uniform)
        self._take(state, dict(zip(n.GROWN, after, strict=True)))
        return levels

    def _pools(self, state: SearchState) -> dict[str, tuple[Any, str, int]]:
        """Where each array that grows is: the object, its name there, and the position of its size."""
        n, g = self.names, state.graph
        places: dict[str, tuple[Any, str, int]] = {}
        for names, size in ((g.NODES, n.NODES), (g.ROWS, n.ROWS), (g.EDGES, n.EDGES)):
            places |= {name: (g, name, size) for name, _ in names}
        places |= {name: (g, name, n.NODES) for name in ("action_upper", "row")}
        places |= {name: (g, name, n.ENTRIES) for name in ("states", "weights")}
        for name in ("number", "node", "value", "drop", "point_signature", "top", "top_weight"):
            places[name] = (state.above, OWN.get(name, name), n.POINTS)
        places |= {name: (state.below, name, n.VECTORS) for name in ("name", "values", "action", "successor")}
        return places | {"alive": (state.below, "alive", n.NAMES)}

    def _grown(self, state: SearchState) -> dict[str, np.ndarray]:
        """The arrays that may be replaced, with the room that they have."""
        places = self._pools(state)
        return {
            name: self.own[name] if name in self.own else getattr(places[name][0], places[name][1]).room
            for name in self.names.GROWN
        }

    def _take(self, state: SearchState, arrays: dict[str, np.ndarray]) -> None:
        n = self.names
        for name, (owner, own, size) in self._pools(state).items():
            getattr(owner, own).take(arrays[name], int(self.sizes[size]))
        for name in self.own:
            self.own[name] = arrays[name]
        above, below = state.above, state.below
        below.issued, above.issued = int(self.sizes[n.NAMES]), int(self.sizes[n.ISSUED])
        above.version, state.backups = int(self.sizes[n.VERSION]), int(self.sizes[n.BACKUPS])
        state.work = float(self.figures[n.WORK])
