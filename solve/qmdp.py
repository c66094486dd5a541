"""Solvers of the underlying MDP only: QMDP, and value iteration for agents that observe the state.

Sweeps on the device find about the right values; policy iteration in float64 takes them to the fixed point, whatever
the discount. How far they still are from it is known (`Observed.excess`): a solution is `converged` if that is at most
the tolerance, or the precision of the model.

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
    """q* [A, X] of the MDP, and the bounds at the initial belief."""

    q: Any
    lower: float
    upper: float


@dataclass(frozen=True)
class ValueIteration(Solver):
    """q* of the MDP as one vector for each action; its upper bound is the value of observing the state."""

    tolerance: float = 1e-4
    sweeps: int = 10_000
    name: ClassVar[str] = "value-iteration"
    limits: ClassVar[tuple[str, ...]] = ()
    every_state: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise JatpoError(f"tolerance must be above 0, got {self.tolerance}")
        if not (self.sweeps == int(self.sweeps) and 1 <= self.sweeps < 1 << 31):
            raise JatpoError(f"sweeps must be a whole number from 1 to 2147483647, got {self.sweeps}")

    def init(self, problem: Problem, key: Array) -> MDPState:
        """Nothing but the shapes."""
        del key
        model = problem.model
        return MDPState(np.zeros((model.num_actions, problem.num_states)), -np.inf, np.inf)

    def step(self, problem: Problem, key: Array, state: MDPState) -> tuple[MDPState, Info]:
        """Sweeps, then policy iteration: the first step is the last."""
        del key, state
        found = jit_value_iteration(problem.model, self.tolerance, int(self.sweeps))
        tables = initial_bounds.tables(problem.part.exact(), problem.part.num_observations)
        exact = initial_bounds.observed(tables, np.asarray(found.v, np.float64)[: problem.num_states])
        precision = float(np.finfo(problem.model.dtype).eps * np.abs(exact.q).max())
        finished = exact.excess <= max(self.tolerance, precision)
        lower, upper = initial_bounds.blind_value(tables), self._upper(tables, exact.q)
        sweeps = int(found.sweeps) + exact.improvements
        info = Info(
            stages=sweeps,
            backups=sweeps * problem.num_states,
            vectors=problem.model.num_actions,
            lower=lower,
            upper=upper,
            status=Status.CONVERGED if finished else Status.SWEEPS_DONE,
            note="" if finished else f"its values are up to {exact.excess:.2g} too high",
        )
        return MDPState(exact.q, lower, upper), info

    def solution(self, problem: Problem, state: MDPState) -> Solution:
        """q* as vectors over all states of the original model."""
        model = problem.model
        vectors = np.asarray(state.q).astype(model.dtype)
        actions = np.arange(model.num_actions, dtype=np.int32)
        return Solution(
            policy=Policy(*jax.device_put((vectors, actions))),
            lower=state.lower,
            upper=state.upper,
            mean_value=float(np.max(state.q, axis=0) @ problem.part.exact().initial),
        )

    def _upper(self, tables: Tables, q: np.ndarray) -> float:
        return initial_bounds.observed_value(tables, q)


@dataclass(frozen=True)
class QMDP(ValueIteration):
    """q* of the MDP as one vector for each action: optimal if the state were observed from the next step on."""

    name: ClassVar[str] = "qmdp"

    def _upper(self, tables: Tables, q: np.ndarray) -> float:
        return initial_bounds.observed_next_value(tables, q)
