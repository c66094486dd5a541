"""A policy as alpha vectors: the value of a belief is the best inner product, its action the best vector's.

Padding vectors hold `NEVER` in every state, so they win no maximum; stacked policies of a library have a
leading axis K.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.mdp import TIE
from jatpo.model import POMDP

NEVER = -1e30


class Policy(NamedTuple):
    """Alpha vectors and the action of each."""

    vectors: Array  # [V, X]
    actions: Array  # [V] int32


def value(policy: Policy, belief: Array) -> Array:
    """The value of `belief` [X]: []."""
    return jnp.max(policy.vectors @ belief)


def scores_to_probabilities(scores: Array, actions: Array, num_actions: int, tie: float = TIE) -> Array:
    """Uniform over the actions of the vectors whose score [V] is within `tie` of the best: [A]."""
    winning = scores >= jnp.max(scores) - tie
    chosen = jnp.zeros(num_actions, bool).at[actions].max(winning).astype(scores.dtype)
    return chosen / jnp.sum(chosen)


def action_probabilities(policy: Policy, belief: Array, num_actions: int, tie: float = TIE) -> Array:
    """pi(a | b) [A]: uniform over the actions of the maximising vectors."""
    return scores_to_probabilities(policy.vectors @ belief, policy.actions, num_actions, tie)


def action_probabilities_columns(policy: Policy, beliefs: Array, num_actions: int, tie: float = TIE) -> Array:
    """`action_probabilities` of every column of `beliefs` [X, B]: [A, B]."""
    return scores_columns_to_probabilities(policy.vectors @ beliefs, policy.actions, num_actions, tie)


def scores_columns_to_probabilities(
    scores: Array, actions: Array, num_actions: int, tie: float = TIE
) -> Array:
    """`scores_to_probabilities` of every column of `scores` [V, B]: [A, B]."""
    winning = scores >= jnp.max(scores, axis=0, keepdims=True) - tie
    one_hot = (actions[None, :] == jnp.arange(num_actions, dtype=jnp.int32)[:, None]).astype(scores.dtype)
    chosen = (one_hot @ winning.astype(scores.dtype) > 0).astype(scores.dtype)
    return chosen / jnp.sum(chosen, axis=0, keepdims=True)


def q(model: POMDP, policy: Policy, belief: Array) -> Array:
    """q(b, a) by one step of look-ahead on the vectors [A].

    q(b, a) = R(b, a) + γ sum_z max_v sum_y O(z | y, a) predicted_a(y) v(y)

    The value of a backup, for one belief and by any storage: it needs no plan, and has gradients in the model.
    """
    belief = jnp.asarray(belief)  # a NumPy array could not be indexed by what is traced below

    def of_action(action: Array) -> Array:
        joint = model.transition.predict(belief, action)[:, None] * model.observation.rows(action)  # [X, Z]
        return jnp.sum(jnp.max(policy.vectors @ joint, axis=0))

    after = jax.lax.map(of_action, jnp.arange(model.num_actions, dtype=jnp.int32))
    return belief @ model.reward + model.discount * after


def stack(policies: Sequence[Policy], num_states: int) -> Policy:
    """Policies of K models padded to one shape: vectors [K, V, X], actions [K, V]."""
    most = max(policy.vectors.shape[0] for policy in policies)
    vectors = np.zeros((len(policies), most, num_states), policies[0].vectors.dtype)
    actions = np.zeros((len(policies), most), np.int32)
    for k, policy in enumerate(policies):
        count, size = policy.vectors.shape
        vectors[k, :count, :size] = policy.vectors
        vectors[k, count:] = NEVER
        actions[k, :count] = policy.actions
    return Policy(*jax.device_put((vectors, actions)))
