"""Solvers of the underlying MDP only: QMDP, and value iteration for agents that observe the state.

Their vectors bound the optimum from above and are no lower bound as policies. The lower bound reported beside them is
that of the best blind policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.mdp import value_iteration
from jatpo.solve import initial_bounds
from jatpo.solve.base import Solver
from jatpo.solve.initial_bounds import Tables
from jatpo.solve.policy import Policy
from jatpo.solve.problem import Problem
from jatpo.solve.solution import Solution
from jatpo.solve.stopping import Info, Status

jit_value_iteration = jax.jit(value_iteration)


class MDPState(NamedTuple):
    """q* [X, A] and v* [X] of the MDP, and the bounds at the initial belief."""

    q: Any
    v: Any
    lower: float
    upper: float


@dataclass(frozen=True)
class ValueIteration(Solver):
    """q* of the MDP as one vector for each action; its upper bound is the value of observing the state."""

    tolerance: float = 1e-4
    name: ClassVar[str] = "value-iteration"
    limits: ClassVar[tuple[str, ...]] = ()
    every_state: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise JatpoError(f"tolerance must be above 0, got {self.tolerance}")

    def init(self, problem: Problem, key: Array) -> MDPState:
        """Nothing but the shapes."""
        del key
        model = problem.model
        blank = np.zeros((model.num_states, model.num_actions), model.dtype)
        return MDPState(blank, blank[:, 0], -np.inf, np.inf)

    def step(self, problem: Problem, key: Array, state: MDPState) -> tuple[MDPState, Info]:
        """All sweeps of value iteration: the first step is the last."""
        del key, state
        model = problem.model
        found = jit_value_iteration(model, self.tolerance)
        tables = initial_bounds.tables(problem.part.exact(), problem.part.num_observations)
        upper = self._upper(tables)
        sweeps = int(found.sweeps)
        status = Status.CONVERGED if float(found.change) <= self.tolerance else Status.STAGES_DONE
        lower = initial_bounds.blind_value(tables)
        info = Info(sweeps, sweeps * problem.num_states, model.num_actions, lower, upper, status)
        return MDPState(found.q, found.v, lower, upper), info

    def solution(self, problem: Problem, state: MDPState) -> Solution:
        """q* as vectors over all states of the original model."""
        model = problem.model
        vectors = np.asarray(state.q).T[:, : problem.num_states]
        actions = np.arange(model.num_actions, dtype=np.int32)
        return Solution(
            policy=Policy(*jax.device_put((vectors, actions))),
            lower=state.lower,
            upper=state.upper,
            mean_value=float(state.v @ model.initial),
        )

    def _upper(self, tables: Tables) -> float:
        return initial_bounds.observed_value(tables)


@dataclass(frozen=True)
class QMDP(ValueIteration):
    """q* of the MDP as one vector for each action: optimal if the state were observed from the next step on."""

    name: ClassVar[str] = "qmdp"

    def _upper(self, tables: Tables) -> float:
        return initial_bounds.observed_next_value(tables)
