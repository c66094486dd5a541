"""Value iteration on the MDP beneath a POMDP: what an agent that sees the state could do.

    q(x, a) = R(x, a) + γ sum_y P(y | x, a) v(y),   v(x) = max_a q(x, a)

All functions take one model; `jax.vmap` over stacked models serves a library.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.model import POMDP

TIE = 1e-3  # actions this close to the best count as best: above float32 noise on values near 100


class MDPSolution(NamedTuple):
    """q* [X, A], v* [X], the number of sweeps and the last change []."""

    q: Array
    v: Array
    sweeps: Array
    change: Array


def sweep(model: POMDP, v: Array) -> Array:
    """q [X, A] of one step with the values `v` [X] after it."""
    return model.reward + model.discount * model.transition.pull(v)


def value_iteration(
    model: POMDP, tolerance: float | Array = 1e-4, max_sweeps: int | Array = 10_000
) -> MDPSolution:
    """q* of the infinite horizon: sweeps until no value changes by more than `tolerance`.

    With discount 1 the values may grow for ever; `max_sweeps` ends the loop and `change` tells.
    """

    def unfinished(solution: MDPSolution) -> Array:
        return (solution.change > tolerance) & (solution.sweeps < max_sweeps)

    def improve(solution: MDPSolution) -> MDPSolution:
        q = sweep(model, solution.v)
        v = jnp.max(q, axis=1)
        return MDPSolution(q, v, solution.sweeps + 1, jnp.max(jnp.abs(v - solution.v)))

    v = jnp.zeros(model.num_states, model.dtype)
    far = jnp.array(jnp.inf, model.dtype)
    start = MDPSolution(jnp.zeros_like(model.reward), v, jnp.int32(0), far)
    return jax.lax.while_loop(unfinished, improve, start)


def finite_horizon(model: POMDP, horizon: int) -> tuple[Array, Array]:
    """q [T, X, A] and v [T, X] with T = `horizon`; entry t has T - t steps to go."""

    def step(v: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        q = sweep(model, v)
        v = jnp.max(q, axis=1)
        return v, (q, v)

    _, (q, v) = jax.lax.scan(step, jnp.zeros(model.num_states, model.dtype), length=horizon)
    return q[::-1], v[::-1]


def greedy(q: Array, tolerance: float = TIE) -> Array:
    """Uniform over the actions within `tolerance` of the best, along the last axis."""
    best = (q >= jnp.max(q, axis=-1, keepdims=True) - tolerance).astype(q.dtype)
    return best / jnp.sum(best, axis=-1, keepdims=True)


value_iteration_library = jax.vmap(value_iteration, in_axes=(0, None, None))
"""`value_iteration` of stacked models, all K at once."""
