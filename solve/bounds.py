"""Lower and upper bounds on the optimum of a POMDP.

Lower: blind policies (one action forever), a vector for each action.
Upper: QMDP (the state is seen from the next step on) and the fast informed bound (Hauskrecht 2000), which
still picks one vector for each observation:

    f_a(x) = R(x, a) + γ sum_z max_a' sum_y P(y | x, a) O(z | y, a) f_a'(y),   optimum(b) ≤ max_a f_a · b
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.mdp import MDPSolution, iterate, value_iteration
from jatpo.model import POMDP


def floor_value(model: POMDP) -> Array:
    """R_min / (1 - γ), a lower bound on every value []; states that pad a model of a library do not count."""
    real = model.transition.expect(jnp.ones(model.num_states, model.dtype)) > 0  # [X, A]
    return jnp.min(jnp.where(real, model.reward, jnp.inf)) / (1 - model.discount)


def blind(model: POMDP, tolerance: float = 1e-3, limit: int = 2000) -> Array:
    """Lower bounds on the value of each action taken forever: vectors [A, X].

    The iteration starts at R_min / (1 - γ) and rises, so that it is a lower bound wherever it stops.
    """
    start = jnp.full((model.num_states, model.num_actions), floor_value(model), model.dtype)
    actions = jnp.arange(model.num_actions, dtype=jnp.int32)

    def improve(vectors: Array) -> Array:
        return model.reward + model.discount * model.transition.expect_columns(vectors, actions)

    return iterate(start, improve, tolerance, limit).result.T


def slack(model: POMDP, solution: MDPSolution) -> Array:
    """How far q of value iteration may be from q* [].

    By stopping early, and by rounding: each sweep adds a little, which the sweeps after it shrink by γ.
    """
    rounding = 2 * jnp.finfo(model.dtype).eps * jnp.max(jnp.abs(solution.q))
    return (solution.change * model.discount + rounding) / (1 - model.discount)


def qmdp(model: POMDP, tolerance: float = 1e-4) -> Array:
    """q* of the underlying MDP as vectors [A, X], an upper bound: its slack is added."""
    solution = value_iteration(model, tolerance)
    return solution.q.T + slack(model, solution)


def revealed(model: POMDP, tolerance: float = 1e-4) -> Array:
    """q* as vectors [A, X], a lower bound: attained where every observation reveals the state."""
    solution = value_iteration(model, tolerance)
    return solution.q.T - slack(model, solution)


def informed(model: POMDP, start: Array, tolerance: float = 1e-3, limit: int | Array = 300) -> Array:
    """The fast informed bound [A, X], sweeping down from `start`, an upper bound; valid wherever it stops."""
    return iterate(start, lambda vectors: _informed_sweep(model, vectors), tolerance, limit).result


def _informed_sweep(model: POMDP, vectors: Array) -> Array:
    """One sweep of the fast informed bound on vectors [A, X]."""

    def of_action(action: Array) -> Array:
        after = model.transition.informed_sums(model.observation.rows(action), action, vectors)
        return model.reward[:, action] + model.discount * after

    return jax.lax.map(of_action, jnp.arange(model.num_actions, dtype=jnp.int32))
