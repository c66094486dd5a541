"""Solvers that look at the MDP beneath only: QMDP, and value iteration for those who see the state.

Their vectors bound the optimum from above; as policies they promise nothing. The lower bound told beside them is
that of the best blind policy.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jatpo.errors import unknown
from jatpo.mdp import value_iteration
from jatpo.solve import bounds
from jatpo.solve.policy import Policy
from jatpo.solve.problem import Problem
from jatpo.solve.solution import Solution

METHODS = ("qmdp", "value-iteration")

jit_value_iteration = jax.jit(value_iteration)
jit_blind = jax.jit(bounds.blind)


@dataclass(frozen=True)
class ExactSettings:
    """`method` is "qmdp" or "value-iteration"; both keep q* as one vector for each action."""

    method: str = "qmdp"
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)


def solve(problem: Problem, settings: ExactSettings, seed: int) -> Solution:
    """q* of the MDP beneath `problem`."""
    started = time.perf_counter()
    model = problem.model
    found = jit_value_iteration(model, settings.tolerance)
    above = jnp.max(found.q.T @ model.initial) if settings.method == "qmdp" else found.v @ model.initial
    vectors = jax.device_put(np.asarray(found.q.T)[:, : problem.num_states])
    return Solution(
        policy=Policy(vectors, jnp.arange(model.num_actions, dtype=jnp.int32)),
        lower=float(jnp.max(jit_blind(model) @ model.initial)),
        upper=float(above + bounds.slack(model, found)),
        mean_value=float(found.v @ model.initial),
        stages=int(found.sweeps),
        backups=int(found.sweeps) * problem.num_states,
        seconds=time.perf_counter() - started,
        stopped=f"no value changes by {settings.tolerance:g}",
        seed=seed,
        settings={"solver": type(settings).__name__, **asdict(settings)},
        model_hash=problem.model_hash,
    )
