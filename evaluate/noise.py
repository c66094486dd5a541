"""The random numbers of a chunk of trials, drawn before its first step.

Trial i has the key `fold_in(key, i)`, split into the streams named below; step t of a stream has
`fold_in(., t)`. So a trial's numbers depend on nothing but the seed, the trial and the step: trial 7 is the
same alone and in a batch, and all agents meet the same true models, start states and noise of the world
(common random numbers). Agents share the numbers that turn probabilities into actions, too.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

STREAMS = ("draw", "start", "world", "agent")
ROUND_STEPS, ROUND_MODELS = 32, 64  # sizes are rounded up, so that domains share the compiled program


class Noise(NamedTuple):
    """What chance decides in N trials of T steps or somewhat more: uniform numbers, and keys for agents."""

    draw: Array  # [N, 1 + K or more], the true model and the library
    start: Array  # [N], the start state
    world: Array  # [T, N, 2], the next state and the observation
    choice: Array  # [T, N], the action, given its probabilities
    first_keys: Array  # [N], for `init`
    step_keys: Array  # [T, N], for `act` and `update`, see `agent_keys`


def step_keys(keys: Array, steps: Array) -> Array:
    """The keys of steps [T] of one stream of every trial [N]: [T, N]."""
    each = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    return jax.vmap(each, in_axes=(None, 0))(keys, steps)


def agent_keys(keys: Array) -> tuple[Array, Array]:
    """The keys of `act` and of `update` [N] from those of a step [N]; the choice has the other half."""
    act = jax.vmap(jax.random.split)(keys)[:, 0]
    return act, jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 2)


def make_noise(key: Array, trials: np.ndarray, num_models: int, horizon: int, dtype: np.dtype) -> Noise:
    """The noise of the trials with these numbers [N], for at least K models and T steps."""
    models = -(-(num_models + 1) // ROUND_MODELS) * ROUND_MODELS
    steps = -(-horizon // ROUND_STEPS) * ROUND_STEPS
    return _make_noise(key, jnp.asarray(trials, jnp.int32), models, steps, dtype)


@partial(jax.jit, static_argnames=("models", "horizon", "dtype"))
def _make_noise(key: Array, trials: Array, models: int, horizon: int, dtype: np.dtype) -> Noise:
    trials = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, trials)
    draw, start, world, agent = step_keys(trials, jnp.arange(len(STREAMS)))
    steps = step_keys(agent, jnp.arange(horizon + 1))
    choice = jax.vmap(jax.vmap(jax.random.split))(steps[1:])[:, :, 1]

    def uniform(keys: Array, *shape: int) -> Array:
        flat = jax.vmap(partial(jax.random.uniform, shape=shape, dtype=dtype))(keys.reshape(-1))
        return flat.reshape(*keys.shape, *shape)

    of_world = uniform(step_keys(world, jnp.arange(horizon)), 2)
    return Noise(uniform(draw, models), uniform(start), of_world, uniform(choice), steps[0], steps[1:])
