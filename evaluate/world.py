"""K models as one world, so that a chunk of trials can mix them: action k·A + a is action a of model k.

A step of a trial then touches only the rows of its own true model. `start` and `step` are those of
`jatpo.environment`, for N trials and with the uniform numbers already drawn.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jatpo import environment
from jatpo.model import POMDP
from jatpo.simulators.tabular_simulator import joined_table
from jatpo.storage import Transition, pick

joined = joined_table
"""Stacked models [K, ...] as a world with K·A actions; the start beliefs stay [K, X]."""


def final_states(models: POMDP) -> Array:
    """Which states of stacked models every action leads back to, for certain and for nothing [K, X]."""
    states = jnp.arange(models.num_states, dtype=jnp.int32)
    actions = jnp.arange(models.num_actions, dtype=jnp.int32)

    def stays(transition: Transition, state: Array) -> Array:
        return jax.vmap(lambda action: transition.probability_of(state, action, state))(actions)

    back = jax.vmap(jax.vmap(stays, (None, 0)), (0, None))(models.transition, states)  # [K, X, A]
    return jnp.all(back > 1 - 1e-6, axis=2) & jnp.all(models.reward == 0, axis=2)


def start(world: POMDP, uniform: Array, truth: Array) -> Array:
    """Start states [N] of trials whose true models are `truth` [N]."""
    return jax.vmap(pick)(uniform, world.initial[truth])


def step(world: POMDP, uniform: Array, states: Array, actions: Array) -> tuple[Array, Array, Array]:
    """(next states, observations, rewards) [N] for uniform numbers [N, 2] and joined actions k·A + a [N]."""
    return jax.vmap(environment.move, in_axes=(0, None, 0, 0))(uniform, world, states, actions)


def step_apart(world: POMDP, uniform: Array, states: Array, actions: Array) -> tuple[Array, Array, Array]:
    """`step`, kept apart from what uses it.

    XLA would fuse the draws into a filter and repeat them for every state of every belief. The condition,
    which always holds, is one that it cannot see through (an optimization barrier does not stop it).
    """
    nothing = jnp.zeros_like(states), jnp.zeros_like(states), jnp.zeros(states.shape, world.reward.dtype)
    return jax.lax.cond(uniform[0, 0] >= 0, step, lambda *_: nothing, world, uniform, states, actions)
