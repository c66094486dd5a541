"""K models as one world, so that a chunk of trials can mix them: action k·A + a is action a of model k.

A step of a trial then touches only the rows of its own true model. `start` and `step` are those of
`jatpo.environment`, for N trials and with the uniform numbers already drawn.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.model import POMDP
from jatpo.storage import BlockedObservation, DenseObservation, DenseTransition, Observation, Transition, pick


def joined(models: POMDP) -> POMDP:
    """Stacked models [K, ...] as a world with K·A actions; the start beliefs stay [K, X]."""
    num_models, num_states, num_actions = models.reward.shape
    reward = jnp.swapaxes(models.reward, 0, 1).reshape(num_states, num_models * num_actions)
    transition = _transition(models.transition)
    observation = _observation(models.observation, num_models, num_actions)
    return POMDP(transition, observation, reward, models.initial, models.discount)


def final_states(models: POMDP) -> Array:
    """Which states of stacked models every action leads back to, for certain and for nothing [K, X]."""
    transition = models.transition
    states = jnp.arange(models.num_states, dtype=jnp.int32)
    if isinstance(transition, DenseTransition):
        stays = transition.probability[:, :, states, states]
    else:
        back = transition.successor == states[None, None, :, None]
        stays = jnp.sum(jnp.where(back, transition.probability, 0), axis=-1)
    return jnp.all(stays > 1 - 1e-6, axis=1) & jnp.all(models.reward == 0, axis=2)


def start(world: POMDP, uniform: Array, truth: Array) -> Array:
    """Start states [N] of trials whose true models are `truth` [N]."""
    return jax.vmap(pick)(uniform, world.initial[truth])


def step(world: POMDP, uniform: Array, states: Array, actions: Array) -> tuple[Array, Array, Array]:
    """(next states, observations, rewards) [N] for uniform numbers [N, 2] and joined actions k·A + a [N]."""

    def one(uniform: Array, state: Array, action: Array) -> tuple[Array, Array, Array]:
        arrived = world.transition.sample(uniform[0], state, action)
        observation = world.observation.sample(uniform[1], arrived, action)
        return arrived, observation, world.reward[state, action]

    return jax.vmap(one)(uniform, states, actions)


def step_apart(world: POMDP, uniform: Array, states: Array, actions: Array) -> tuple[Array, Array, Array]:
    """`step`, kept apart from what uses it.

    XLA would fuse the draws into a filter and repeat them for every state of every belief. The condition,
    which always holds, is one that it cannot see through (an optimization barrier does not stop it).
    """
    nothing = jnp.zeros_like(states), jnp.zeros_like(states), jnp.zeros(states.shape, world.reward.dtype)
    return jax.lax.cond(uniform[0, 0] >= 0, step, lambda *_: nothing, world, uniform, states, actions)


def _merge(leaf: Array) -> Array:
    """[K, A, ...] as [K·A, ...]."""
    return leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:])


def _transition(transition: Transition) -> Transition:
    if isinstance(transition, DenseTransition):
        return DenseTransition(_merge(transition.probability))
    merged = {"successor": _merge(transition.successor), "probability": _merge(transition.probability)}
    return dataclasses.replace(transition, **merged)


def _observation(observation: Observation, num_models: int, num_actions: int) -> Observation:
    if isinstance(observation, DenseObservation):
        return DenseObservation(_merge(observation.probability))
    num_classes = observation.symbol.shape[1]
    first = num_classes * jnp.arange(num_models, dtype=jnp.int32)
    kind = jnp.broadcast_to(observation.kind, (num_models, num_actions, observation.kind.shape[2]))
    return BlockedObservation(
        _merge(kind + first[:, None, None]),
        _merge(observation.symbol),
        _merge(observation.probability),
        observation.num_observations,
    )
