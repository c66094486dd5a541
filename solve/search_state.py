"""Everything that a search over a belief graph knows, how it is kept, and what it proves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jatpo.checked_model import Sparse
from jatpo.evidence import BACKED_UP, Evidence
from jatpo.solve import initial_bounds
from jatpo.solve.alpha_vectors import AlphaVectors
from jatpo.solve.belief_graph import Beliefs, Graph, Pool
from jatpo.solve.clock import Clock
from jatpo.solve.sawtooth import Sawtooth

CORNERS = 2000  # states up to which each is a node from the start


@dataclass(frozen=True)
class Search:
    """Settings of the search; `gap` is the gap at which it has converged."""

    width: int = 8  # nodes kept at a level of a trial
    least: float = 0.0  # least share of the best score to be kept
    excess: float = 0.7  # of the gap at the start that a trial aims at
    walkers: int = 16
    gap: float = 1e-9
    compiled: bool = False  # leave what takes longer to compiled code, where Numba is installed

    def target(self, gap: float) -> float:
        """The gap that a trial aims at."""
        return max(self.gap / 2, self.excess * gap)


class SearchState:
    """Everything the search knows. Arrays and numbers only; a round changes it in place."""

    def __init__(self, model: Sparse, num_observations: int, corner_nodes: bool = True) -> None:
        t = initial_bounds.tables(model, num_observations)
        blind = initial_bounds.blind_policies(t)
        informed = initial_bounds.fast_informed_bound(t)
        corners = informed.max(axis=0)
        magnitude = np.maximum(np.abs(corners), np.abs(blind.max(axis=0)))
        self.tables = t
        self.graph = Graph(t, informed, magnitude)
        self.above = Sawtooth(self.graph, corners)
        self.below = AlphaVectors(self.graph, blind)
        states = np.flatnonzero(t.initial)
        root = Beliefs(np.zeros(1, np.int64), np.array([len(states)]), states, t.initial[states])
        self.graph.add(root)
        self.graph.found[int(self.graph.digest.all[0])] = 0
        self.corners = self._corner_nodes() if corner_nodes else np.zeros(0, np.int64)
        self.below.refresh(np.zeros(1, np.int64))
        self.compiled: Any = None  # what compiled rounds need beside this state
        self.clock = Clock()  # of the present round
        self.rounds = [0, 0]  # trials, walks
        self.earned = np.full(2, np.inf)
        self.improving = 0.0  # work spent on controllers
        self.upkeep = 0.0  # work spent on corners and sweeps
        self.radius = 0.5  # within which a state of a controller stands in for others
        self.backups = 0
        self.work = 0.0
        self.first_gap = self.upper - self.lower

    def _corner_nodes(self) -> np.ndarray:
        """Nodes at single states, so that the corners are backed up with the rest."""
        X = self.tables.num_states
        if X > CORNERS:
            return np.zeros(0, np.int64)
        states = np.arange(X)
        nodes = self.graph.add(Beliefs(states, np.ones(X, np.int64), states, np.ones(X)))
        self.graph.recall()
        return nodes

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All of the state but the model, as named arrays without the empty ones."""
        return {name: array for name, array in self._arrays().items() if array.size}

    def _arrays(self) -> dict[str, np.ndarray]:
        parts = {f"graph.{name}": getattr(self.graph, name).all for name in self.graph.pools()}
        parts |= {f"above.{name}": np.asarray(value) for name, value in self.above.to_arrays().items()}
        parts |= {f"below.{name}": np.asarray(value) for name, value in self.below.to_arrays().items()}
        own = {
            "rounds": self.rounds,
            "backups": self.backups,
            "earned": self.earned,
            "improving": self.improving,
            "upkeep": self.upkeep,
            "radius": self.radius,
            "work": self.work,
            "first_gap": self.first_gap,
        }
        return {name: np.array(value) for name, value in (parts | own).items()}

    @classmethod
    def from_arrays(
        cls, model: Sparse, num_observations: int, arrays: Mapping[str, np.ndarray]
    ) -> SearchState:
        """The state of `model` that `to_arrays` gave."""
        state = cls(model, num_observations)
        arrays = {name: array[:0] for name, array in state._arrays().items() if array.ndim} | dict(arrays)
        for name in state.graph.pools():
            setattr(state.graph, name, Pool(arrays[f"graph.{name}"]))
        state.graph.recall()
        for part, owner in (("above", state.above), ("below", state.below)):
            owner.load({key.split(".")[1]: value for key, value in arrays.items() if key.startswith(part)})
        state.rounds = [int(count) for count in arrays["rounds"]]
        state.backups, state.earned = int(arrays["backups"]), np.array(arrays["earned"])
        state.improving, state.radius = float(arrays["improving"]), float(arrays["radius"])
        state.upkeep = float(arrays["upkeep"])
        state.work, state.first_gap = float(arrays["work"]), float(arrays["first_gap"])
        return state

    def evidence(self) -> Evidence:
        """What `certify` checks: the controller below, and for each node above what bounds it."""
        g = self.graph
        values, action, successor = self.below.controller()
        backed = g.action_upper.all.max(axis=1)
        given = (g.given.all < backed) & (g.giver.all != np.arange(g.size))
        source = np.where(given | ~g.expanded.all, g.giver.all, BACKED_UP)
        return Evidence(
            values=values,
            action=action,
            successor=successor,
            informed=g.informed,
            belief=(np.append(g.first.all, g.states.size), g.states.all, g.weights.all),
            upper=g.upper.all,
            source=source,
            corner=self.above.corner_node,
            row=g.row.all,
            edge=(np.append(g.row_first.all, g.child.size), g.seen.all, g.child.all),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that grow."""
        parts = (self.graph, self.above, self.below)
        return sum(
            pool.room.nbytes for part in parts for pool in vars(part).values() if isinstance(pool, Pool)
        )

    @property
    def lower(self) -> float:
        return float(self.graph.lower.all[0])

    @property
    def upper(self) -> float:
        return float(self.graph.upper.all[0])

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def closed(self) -> bool:
        """Whether the gap is what rounding leaves."""
        magnitude = float(self.graph.magnitude.all[0])
        return self.gap <= max(64 * self.tables.rounding / (1 - self.tables.rate), 1e-12) * magnitude
