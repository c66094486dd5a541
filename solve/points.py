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

from jatpo.belief import update_columns
from jatpo.model import POMDP
from jatpo.storage import pick

Choose = Callable[[Array, Array], Array]  # (uniform numbers [2, W], beliefs [X, W]) -> actions [W]


def walk(uniform: Array, model: POMDP, choose: Choose) -> Array:
    """Beliefs met by W walkers in T steps, the initial one first: [T, X, W].

    `uniform` [T, 4, W] holds all the chance there is: two numbers to choose, one to move, one to see; the first
    step's second also draws the start.
    """
    steps, _, walkers = uniform.shape
    states = jax.vmap(pick, in_axes=(0, None))(uniform[0, 1], model.initial)
    beliefs = jnp.broadcast_to(model.initial[:, None], (model.num_states, walkers))

    def step(carry: tuple[Array, Array], uniform: Array) -> tuple[tuple[Array, Array], Array]:
        states, beliefs = carry
        actions = choose(uniform[:2], beliefs)
        states = jax.vmap(model.transition.sample)(uniform[2], states, actions)
        observations = jax.vmap(model.observation.sample)(uniform[3], states, actions)
        after, _ = update_columns(model, beliefs, actions, observations)
        return (states, after), beliefs

    _, met = jax.lax.scan(step, (states, beliefs), uniform)
    return met


def _random_walk(uniform: Array, model: POMDP) -> Array:
    return walk(uniform, model, lambda uniform, _: (uniform[0] * model.num_actions).astype(jnp.int32))


random_walk = jax.jit(_random_walk)
"""`walk` with actions at random."""


def distinct(columns: np.ndarray) -> np.ndarray:
    """The different columns of [X, n], in the order of their first appearance.

    Columns are compared by a fixed random projection, in which different beliefs do not coincide.
    """
    projection = np.random.default_rng(0).normal(size=columns.shape[0]) @ columns
    _, first = np.unique(np.round(projection, 5), return_index=True)
    return columns[:, np.sort(first)]


def explore(random: np.random.Generator, model: POMDP, count: int, steps: int, rounds: int = 8) -> Array:
    """Beliefs met under random actions [X, count]; repeated where `rounds` rounds of walks meet fewer."""
    walkers = max(8, -(-count // steps))
    found = np.zeros((model.num_states, 0), model.dtype)
    for _ in range(rounds):
        met = np.asarray(random_walk(random.random((steps, 4, walkers), model.dtype), model))
        found = distinct(np.concatenate([found, *met], axis=1))
        if found.shape[1] >= count:
            break
    return jnp.asarray(found[:, np.arange(count) % found.shape[1]])
