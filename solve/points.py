"""Belief points to back up: by random exploration from the initial belief, or by following a policy.

Walkers carry a belief and no state: observations are drawn by their probability under it, which is the same. All
walkers move at once, beliefs as columns [X, W].
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import filter
from jatpo.model import POMDP
from jatpo.solve.compiling import jit
from jatpo.storage import pick, select

STRETCH = 6  # steps for which a roaming walker repeats an action, on average

Choose = Callable[[Array, Array], Array]  # (uniform numbers [2, W], beliefs [X, W]) -> actions [W]


def walk(uniform: Array, model: POMDP, choose: Choose) -> Array:
    """Beliefs visited by W independent walkers in T steps, the initial one first: [T, X, W].

    `uniform` [T, 3, W] are all random numbers: two to choose an action, one to draw an observation.
    """
    rows = model.observation.table(model.num_actions)

    def step(beliefs: Array, uniform: Array) -> tuple[Array, Array]:
        actions = choose(uniform[:2], beliefs)
        predicted, evidence = expect(model, rows, beliefs, actions)
        seen = jax.vmap(pick, in_axes=(0, 1))(uniform[2], evidence)
        likelihood = model.observation.likelihood_columns(actions, seen)
        return filter.normalised(predicted * likelihood, predicted)[0], beliefs

    start = jnp.broadcast_to(model.initial[:, None], (model.num_states, uniform.shape[2]))
    return jax.lax.scan(step, start, uniform)[1]


def expect(model: POMDP, rows: Array, beliefs: Array, actions: Array) -> tuple[Array, Array]:
    """The predicted beliefs [X, W] and the probability of every observation [Z, W].

    Predicted as in a backup, not by `filter.predict_columns`: that adds up in another order, and other belief points
    would come out.
    """
    predicted = select(model.transition.predict_all(beliefs), actions)
    evidence = jnp.einsum("dxz,xw->dzw", rows, predicted)
    return predicted, select(evidence, jnp.minimum(actions, rows.shape[0] - 1))


def random_walk(uniform: Array, model: POMDP) -> Array:
    """`walk` with actions at random."""
    return walk(uniform, model, lambda uniform, _: (uniform[0] * model.num_actions).astype(jnp.int32))


def guided_walk(uniform: Array, model: POMDP, upper: Array) -> Array:
    """`walk` with every other action at random and the rest the best by the vectors `upper` [A, X]."""

    def choose(uniform: Array, beliefs: Array) -> Array:
        best = jnp.argmax(upper @ beliefs, axis=0).astype(jnp.int32)
        return jnp.where(uniform[1] < 0.5, best, (uniform[0] * model.num_actions).astype(jnp.int32))

    return walk(uniform, model, choose)


def roaming_walk(uniform: Array, model: POMDP) -> Array:
    """`walk` that repeats a random action for `STRETCH` steps on average: it comes further from the start."""
    fresh = (uniform[:, 0] * model.num_actions).astype(jnp.int32)  # [T, W]
    stays = uniform[:, 1] < 1 - 1 / STRETCH

    def repeat(last: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        action = jnp.where(now[1], last, now[0])
        return action, action

    actions = jax.lax.scan(repeat, fresh[0], (fresh, stays))[1]
    middle = (actions.astype(uniform.dtype) + 0.5) / model.num_actions
    return random_walk(uniform.at[:, 0].set(middle), model)


jit_random_walk = jit(random_walk)
jit_guided_walk = jit(guided_walk)
jit_roaming_walk = jit(roaming_walk)


def distinct(columns: np.ndarray) -> np.ndarray:
    """The different columns of [X, n], in the order of their first appearance.

    Columns are compared by a fixed random projection, in which different beliefs do not coincide.
    """
    projection = np.random.default_rng(0).normal(size=columns.shape[0]).dot(columns)
    _, first = np.unique(np.round(projection, 5), return_index=True)
    return columns[:, np.sort(first)]


def meets_reward(beliefs: np.ndarray, reward: np.ndarray) -> bool:
    """Whether more than one in a thousand of `beliefs` [X, B] is near a reward.

    That is, it expects more than the least reward by a tenth of the range of `reward` [X, A].
    """
    least, most = reward.min(), reward.max()
    expected = np.max(reward.T.dot(beliefs), axis=0)  # [B]
    return bool(np.mean(expected >= least + 0.1 * (most - least)) > 1e-3)


def explore(
    random: np.random.Generator,
    model: POMDP,
    count: int,
    steps: int,
    walk: Callable[..., Array | np.ndarray] = jit_random_walk,  # (uniform, model)
    rounds: int = 8,
) -> np.ndarray:
    """Beliefs visited on walks [X, count]; repeated where `rounds` rounds of walks visit fewer."""
    walkers = max(8, -(-count // steps))
    found: list[np.ndarray] = []
    for _ in range(rounds):
        uniform = random.random((steps, 3, walkers), model.dtype)
        found = [distinct(np.concatenate([*found, *np.asarray(walk(uniform, model))], axis=1))]
        if found[0].shape[1] >= count:
            break
    return found[0][:, np.arange(count) % found[0].shape[1]]
