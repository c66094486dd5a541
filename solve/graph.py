"""The solver `graph`: search over a graph of visited beliefs with true bounds on both sides, in float64 on the host.

A thin layer over `jatpo.solve.gap_search`. A step changes the state in place and returns it: the search keeps what it
has visited, and copying that would cost more than a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jax import Array

from jatpo import memory
from jatpo.errors import JatpoError
from jatpo.evidence import Evidence
from jatpo.solve import gap_search
from jatpo.solve.base import Solver
from jatpo.solve.clock import Clock
from jatpo.solve.compiled_engine import available, compiling_seconds
from jatpo.solve.problem import Problem, key_words
from jatpo.solve.search_state import Search, SearchState
from jatpo.solve.solution import Solution
from jatpo.solve.stopping import Info, Status, Stop

NOTED = 3.0  # seconds of compiling from which on it is mentioned
WATCHED = 1 << 28  # bytes of a search from which on the free memory is looked at
NEEDED = (
    2  # times the bytes of a search that must be free: an array that grows is copied, and so is a saved state
)


@dataclass(frozen=True)
class GraphSearch(Solver):
    """Trials by the excess gap and walks along the lower policy, until the `Stop` is reached or the bounds meet."""

    width: int = 8  # nodes kept at a level of a trial
    least: float = 0.0  # least share of the best score to be kept
    excess: float = 0.7  # of the gap at the start that a trial aims at
    walkers: int = 16
    compiled: int = field(
        default_factory=lambda: int(available())
    )  # 1: longer searches by compiled code (Numba)
    name: ClassVar[str] = "graph"

    def __post_init__(self) -> None:
        for name in ("width", "walkers"):
            if getattr(self, name) < 1:
                raise JatpoError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.compiled not in (0, 1):
            raise JatpoError(f"compiled must be 0 or 1, got {self.compiled}")
        if self.compiled and not available():
            raise JatpoError("compiled searches need Numba: pip install 'jatpo[fast]', or set compiled=0")
        for name in ("least", "excess"):
            if not 0 <= getattr(self, name) < 1:
                raise JatpoError(f"{name} must be in [0, 1), got {getattr(self, name)}")

    def check(self, stop: Stop) -> None:
        """Refuse to run forever."""
        if not stop.given:
            raise JatpoError("nothing would stop the graph solver: give seconds, a gap or a number of stages")

    def init(self, problem: Problem, key: Array) -> SearchState:
        """Blind policies below, the fast informed bound above."""
        del key
        return SearchState(problem.part.exact(), problem.part.num_observations)

    def step(self, problem: Problem, key: Array, state: SearchState) -> tuple[SearchState, Info]:
        """One trial or walk."""
        return self.step_within(problem, key, state, Clock())

    def step_within(
        self, problem: Problem, key: Array, state: SearchState, clock: Clock
    ) -> tuple[SearchState, Info]:
        """One trial or walk, which ends early when the time is up."""
        del problem
        search = Search(self.width, self.least, self.excess, self.walkers, 0.0, bool(self.compiled))
        seed = int(key_words(key)[-1])
        before = compiling_seconds()
        gap_search.advance(state, search, seed, clock)
        apart = compiling_seconds() - before
        status = Status.CONVERGED if state.closed else Status.MEMORY_FULL if _fills_memory(state) else None
        vectors = state.below.name.size
        note = f"the search was compiled for this machine in {apart:.0f} s" if apart >= NOTED else ""
        info = Info(sum(state.rounds), state.backups, vectors, state.lower, state.upper, status, note, apart)
        return state, info

    def solution(self, problem: Problem, state: SearchState) -> Solution:
        """The scored vectors, over all states of the original model."""
        return Solution(problem.policy_of(state.below), state.lower, state.upper)

    def evidence(self, problem: Problem, state: SearchState) -> Evidence:
        """The controller below and the graph above."""
        del problem
        return state.evidence()

    def pack(self, state: SearchState) -> dict[str, np.ndarray]:
        """All arrays of the search."""
        return state.to_arrays()

    def unpack(self, problem: Problem, key: Array, arrays: dict[str, np.ndarray]) -> SearchState:
        """The state that was packed into `arrays`."""
        del key
        return SearchState.from_arrays(problem.part.exact(), problem.part.num_observations, arrays)


def _fills_memory(state: SearchState) -> bool:
    """Whether the search has come so close to the free memory that it has to end."""
    size = state.nbytes
    return size > WATCHED and NEEDED * size > memory.free_bytes()
