"""Value iteration on the MDP beneath a POMDP: what an agent that sees the state could do.

    q(x, a) = R(x, a) + γ sum_y P(y | x, a) v(y),   v(x) = max_a q(x, a)

All functions take one model; `jax.vmap` over stacked models serves a library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.model import POMDP
from jatpo.ties import share_best

TIE = 1e-3  # actions this close to the best count as best: above float32 noise on values near 100


class MDPSolution(NamedTuple):
    """q* [X, A], v* [X], the number of sweeps and the last change []."""

    q: Array
    v: Array
    sweeps: Array
    change: Array


def sweep(model: POMDP, v: Array) -> Array:
    """q [X, A] of one step with the values `v` [X] after it."""
    return model.reward + model.discount * model.transition.expect(v)


def value_iteration(
    model: POMDP, tolerance: float | Array = 1e-4, max_sweeps: int | Array = 10_000
) -> MDPSolution:
    """q* of the infinite horizon: sweeps until no value changes by more than `tolerance`.

    With discount 1 the values may grow indefinitely; `max_sweeps` stops the loop and `change` shows it.
    """

    def values(q: Array) -> Array:
        return jnp.max(q, axis=1)

    start = jnp.zeros_like(model.reward)
    q, sweeps, change = iterate(start, lambda q: sweep(model, values(q)), tolerance, max_sweeps, values)
    return MDPSolution(q, values(q), sweeps, change)


class Sweeps(NamedTuple):
    """What an iteration came to, its number of sweeps and its last change."""

    result: Array
    sweeps: Array
    change: Array


def iterate(
    start: Array,
    improve: Callable[[Array], Array],
    tolerance: float | Array,
    limit: int | Array,
    measure: Callable[[Array], Array] = lambda result: result,
) -> Sweeps:
    """Sweeps of `improve` until `measure` of the result changes nowhere by more than `tolerance`."""

    def unfinished(state: Sweeps) -> Array:
        return (state.change > tolerance) & (state.sweeps < limit)

    def once(state: Sweeps) -> Sweeps:
        result = improve(state.result)
        change = jnp.max(jnp.abs(measure(result) - measure(state.result)))
        return Sweeps(result, state.sweeps + 1, change)

    far = jnp.array(jnp.inf, start.dtype)
    return jax.lax.while_loop(unfinished, once, Sweeps(start, jnp.int32(0), far))


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
    return share_best(q, tolerance)


value_iteration_library = jax.vmap(value_iteration, in_axes=(0, None, None))
"""`value_iteration` of stacked models, all K at once."""
