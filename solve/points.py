"""Belief points to back up: by random exploration from the initial belief, or by following a policy.

Walkers act in the model with a hidden state of their own; what they see updates their beliefs. All walkers
move at once, beliefs as columns [X, W].
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import environment
from jatpo.belief import update_columns
from jatpo.model import POMDP

Choose = Callable[[Array, Array], Array]  # (key, beliefs [X, W]) -> actions [W]


def walk(key: Array, model: POMDP, choose: Choose, walkers: int, steps: int) -> Array:
    """Beliefs met by `walkers` in `steps` steps, the initial one first: [steps, X, W]."""
    start_key, walk_key = jax.random.split(key)
    states = jax.vmap(environment.reset, in_axes=(0, None))(jax.random.split(start_key, walkers), model)
    beliefs = jnp.broadcast_to(model.initial[:, None], (model.num_states, walkers))
    move = jax.vmap(environment.step, in_axes=(0, None, 0, 0))

    def step(carry: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], Array]:
        states, beliefs = carry
        act_key, move_key = jax.random.split(key)
        actions = choose(act_key, beliefs)
        states, observations, _ = move(jax.random.split(move_key, walkers), model, states, actions)
        after, _ = update_columns(model, beliefs, actions, observations)
        return (states, after), beliefs

    _, met = jax.lax.scan(step, (states, beliefs), jax.random.split(walk_key, steps))
    return met


def random_actions(num_actions: int) -> Choose:
    """Choose uniformly."""

    def choose(key: Array, beliefs: Array) -> Array:
        return jax.random.randint(key, beliefs.shape[1:], 0, num_actions, jnp.int32)

    return choose


def distinct(columns: np.ndarray) -> np.ndarray:
    """The different columns of [X, n], in the order of their first appearance.

    Columns are compared by a fixed random projection, in which different beliefs do not coincide.
    """
    projection = np.random.default_rng(0).normal(size=columns.shape[0]) @ columns
    _, first = np.unique(np.round(projection, 5), return_index=True)
    return columns[:, np.sort(first)]


def explore(key: Array, model: POMDP, count: int, steps: int, rounds: int = 8) -> Array:
    """About `count` different beliefs met under random actions [X, <= count].

    Fewer come back where `rounds` rounds of walks do not meet that many.
    """
    walkers = max(8, -(-count // steps))
    found = np.zeros((model.num_states, 0), model.dtype)
    for attempt in jax.random.split(key, rounds):
        met = np.asarray(_random_walk(attempt, model, walkers, steps))
        found = distinct(np.concatenate([found, *met], axis=1))
        if found.shape[1] >= count:
            break
    return jnp.asarray(found[:, :count])


def _random_walk_steps(key: Array, model: POMDP, walkers: int, steps: int) -> Array:
    return walk(key, model, random_actions(model.num_actions), walkers, steps)


_random_walk = jax.jit(_random_walk_steps, static_argnums=(2, 3))
