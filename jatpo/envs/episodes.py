"""Episodes one after the other, each a function of a seed and its number, for Gymnasium's environments.

Episode n of seed s uses the key fold_in(s, n), its step t that key folded with t: the environments of a
vector are those that run alone, bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.envs.functional import Params, State, reset, step_env


class Episode(NamedTuple):
    """The state of an episode."""

    seed: Array  # [] key
    number: Array  # [] int32
    state: State


class Outcome(NamedTuple):
    """The result of a step: observation [], reward [], whether the horizon is reached []."""

    observation: Array
    reward: Array
    ended: Array


def _begin(params: Params, seed: Array, number: Array) -> tuple[Episode, Outcome]:
    """Episode `number` and its first outcome: no observation, reward 0."""
    key = jax.random.fold_in(jax.random.fold_in(seed, number), 0)
    observation, state = reset(key, params)
    nothing = jnp.zeros((), params.world.reward.dtype), jnp.asarray(False)
    return Episode(seed, number, state), Outcome(observation, *nothing)


def _advance(params: Params, episode: Episode, action: Array) -> tuple[Episode, Outcome]:
    """One step."""
    key = jax.random.fold_in(jax.random.fold_in(episode.seed, episode.number), episode.state.time + 1)
    observation, state, reward, ended, _ = step_env(key, episode.state, action, params)
    return episode._replace(state=state), Outcome(observation, reward, ended)


def _advance_or_begin(params: Params, episode: Episode, action: Array) -> tuple[Episode, Outcome]:
    """One step; where the episode has ended, the start of the next one, whatever the action."""
    ended = episode.state.time >= params.horizon
    old, outcome = _advance(params, episode, action)
    new, first = _begin(params, episode.seed, episode.number + 1)
    number, state, outcome = jax.tree.map(
        lambda fresh, moved: jnp.where(ended, fresh, moved),
        (new.number, new.state, first),
        (old.number, old.state, outcome),
    )
    return Episode(episode.seed, number, state), outcome


begin = jax.jit(_begin)
advance = jax.jit(_advance)
begin_all = jax.jit(jax.vmap(_begin, in_axes=(None, 0, 0)))
advance_all = jax.jit(jax.vmap(_advance_or_begin, in_axes=(None, 0, 0)))
make_seeds = jax.jit(jax.vmap(jax.random.key))  # numbers [N] uint32 as keys [N]


def seed_number(generator: np.random.Generator) -> np.uint32:
    """The number of a new seed."""
    return generator.integers(2**32, dtype=np.uint32)
