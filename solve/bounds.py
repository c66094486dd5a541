"""Bounds on the optimum of a POMDP, from below and from above.

Below: blind policies (one action for ever), a vector for each action, each a true lower bound.
Above: QMDP (the state is seen from the next step on) and the fast informed bound (Hauskrecht 2000), which
still picks one vector for each observation:

    f_a(x) = R(x, a) + γ sum_z max_a' sum_y P(y | x, a) O(z | y, a) f_a'(y),   optimum(b) ≤ max_a f_a · b
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.mdp import MDPSolution, value_iteration
from jatpo.model import POMDP
from jatpo.storage import BlockedTransition


class Sweeps(NamedTuple):
    """Vectors [A, X] of an iteration, its number of sweeps and its last change."""

    vectors: Array
    sweeps: Array
    change: Array


def _iterate(start: Array, improve: Callable[[Array], Array], tolerance: float, limit: int) -> Sweeps:
    def unfinished(state: Sweeps) -> Array:
        return (state.change > tolerance) & (state.sweeps < limit)

    def sweep(state: Sweeps) -> Sweeps:
        vectors = improve(state.vectors)
        return Sweeps(vectors, state.sweeps + 1, jnp.max(jnp.abs(vectors - state.vectors)))

    return jax.lax.while_loop(unfinished, sweep, Sweeps(start, jnp.int32(0), jnp.array(jnp.inf, start.dtype)))


def floor_value(model: POMDP) -> Array:
    """R_min / (1 - γ), below every value []; states that pad a model of a library do not count."""
    real = model.transition.pull(jnp.ones(model.num_states, model.dtype)) > 0  # [X, A]
    return jnp.min(jnp.where(real, model.reward, jnp.inf)) / (1 - model.discount)


def blind(model: POMDP, tolerance: float = 1e-3, limit: int = 2000) -> Array:
    """The value of each action taken for ever, from below: vectors [A, X].

    The iteration starts at R_min / (1 - γ) and rises, so that it is a lower bound wherever it stops.
    """
    start = jnp.full((model.num_actions, model.num_states), floor_value(model), model.dtype)

    def improve(vectors: Array) -> Array:
        pulled = jax.vmap(model.transition.pull)(vectors)  # [A (vector), X, A (action)]
        return model.reward.T + model.discount * jnp.diagonal(pulled, axis1=0, axis2=2).T

    return _iterate(start, improve, tolerance, limit).vectors


def slack(model: POMDP, solution: MDPSolution) -> Array:
    """How far q of value iteration may be from q* [].

    By stopping early, and by rounding: each sweep adds a little, which the sweeps after it shrink by γ.
    """
    rounding = 2 * jnp.finfo(model.dtype).eps * jnp.max(jnp.abs(solution.q))
    return (solution.change * model.discount + rounding) / (1 - model.discount)


def qmdp(model: POMDP, tolerance: float = 1e-4) -> Array:
    """q* of the MDP beneath as vectors [A, X], from above: its slack is added, so the bound holds."""
    solution = value_iteration(model, tolerance)
    return solution.q.T + slack(model, solution)


def revealed(model: POMDP, tolerance: float = 1e-4) -> Array:
    """q* as vectors [A, X], from below: what is attained where every observation betrays the state."""
    solution = value_iteration(model, tolerance)
    return solution.q.T - slack(model, solution)


def informed(model: POMDP, start: Array, tolerance: float = 1e-3, limit: int = 300) -> Array:
    """The fast informed bound [A, X], sweeping down from `start`, an upper bound; valid wherever it stops."""
    return _iterate(start, lambda vectors: _informed_sweep(model, vectors), tolerance, limit).vectors


def _informed_sweep(model: POMDP, vectors: Array) -> Array:
    """One sweep of the fast informed bound on vectors [A, X]."""

    def of_action(action: Array) -> Array:
        joint = _joint_values(model, action, vectors)  # [X, Z]
        return model.reward[:, action] + model.discount * joint

    return jax.lax.map(of_action, jnp.arange(model.num_actions, dtype=jnp.int32))


def _joint_values(model: POMDP, action: Array, vectors: Array) -> Array:
    """sum_z max_v sum_y P(y | x, a) O(z | y, a) v(y) for every x [X]."""
    rows = model.observation.rows(action)  # [X, Z]
    transition = model.transition
    if not isinstance(transition, BlockedTransition):
        after = jnp.einsum("xy,yz,vy->xzv", transition.probability[action], rows, vectors)
        return jnp.sum(jnp.max(after, axis=2), axis=1)
    successor, probability = transition.successor[action], transition.probability[action]

    def of_state(x: Array) -> Array:
        seen = rows[successor[x]] * probability[x][:, None]  # [S, Z]
        return jnp.sum(jnp.max(vectors[:, successor[x]] @ seen, axis=0))

    return jax.lax.map(of_state, jnp.arange(model.num_states, dtype=jnp.int32), batch_size=256)
