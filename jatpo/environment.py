"""A POMDP as a world to act in: pure functions of a key, for use under jit, vmap and scan."""

from __future__ import annotations

import jax
from jax import Array

from jatpo.model import POMDP
from jatpo.storage import pick


def reset(key: Array, model: POMDP) -> Array:
    """A start state [] drawn from the initial belief. There is no observation before the first action."""
    return pick(jax.random.uniform(key, dtype=model.dtype), model.initial)


def step(key: Array, model: POMDP, state: Array, action: Array) -> tuple[Array, Array, Array]:
    """(next state, observation, reward), each []. The reward is that of acting in `state`."""
    return move(jax.random.uniform(key, (2,), model.dtype), model, state, action)


def move(uniform: Array, model: POMDP, state: Array, action: Array) -> tuple[Array, Array, Array]:
    """`step` with its two uniform numbers [2] already drawn."""
    arrived = model.transition.sample(uniform[0], state, action)
    observation = model.observation.sample(uniform[1], arrived, action)
    return arrived, observation, model.reward[state, action]
