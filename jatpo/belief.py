"""The belief filter: predict, weigh by what was seen, normalise (problem.md, "One step").

    predicted(y) = sum_x b(x) P(y | x, a)
    evidence     = sum_y O(z | y, a) predicted(y)
    b'(y)        = O(z | y, a) predicted(y) / evidence

An observation that is impossible leaves the predicted belief and a log evidence of -inf. Everything is
differentiable, also where probabilities are zero. Kernels take one belief; the named vmaps below lift them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.model import POMDP
from jatpo.storage import select


def predict(model: POMDP, belief: Array, action: Array) -> Array:
    """The belief after `action`, before anything is seen [X]."""
    return model.transition.push(belief, action)


def likelihood(model: POMDP, action: Array, observation: Array) -> Array:
    """O(z | y, a) for every state y [X]."""
    return model.observation.likelihood(action, observation)


def evidence(model: POMDP, belief: Array, action: Array) -> Array:
    """The probability of every observation after `action` [Z]."""
    predicted = predict(model, belief, action)
    observation = model.observation
    return predicted @ observation.rows(action)


def condition(predicted: Array, weight: Array) -> tuple[Array, Array]:
    """`predicted` [X] given an observation of likelihood `weight` [X], and the log evidence []."""
    joint = predicted * weight
    peak = jax.lax.stop_gradient(jnp.max(joint))
    possible = peak > 0
    scale = jnp.where(possible, peak, jnp.ones_like(peak))  # a constant factor, so that
    scaled = joint / scale  # the gradient does not square an evidence of 1e-20
    total = jnp.where(possible, jnp.sum(scaled), jnp.ones_like(peak))
    rest = predicted / jnp.maximum(jnp.sum(predicted), jnp.finfo(predicted.dtype).tiny)
    belief = jnp.where(possible, scaled / total, rest)
    return belief, jnp.where(possible, jnp.log(total) + jnp.log(scale), -jnp.inf)


def update(model: POMDP, belief: Array, action: Array, observation: Array) -> tuple[Array, Array]:
    """The belief after `action` and `observation` [X], and the log evidence []."""
    return condition(predict(model, belief, action), likelihood(model, action, observation))


update_batch = jax.vmap(update, in_axes=(None, 0, 0, 0))
"""`update` of beliefs [B, X] in one model, with actions and observations [B]."""

update_library = jax.vmap(update, in_axes=(0, 0, None, None))
"""`update` of one belief per model [K, X] in stacked models, after one action and observation."""


def update_columns(model: POMDP, beliefs: Array, actions: Array, observations: Array) -> tuple[Array, Array]:
    """`update` of every column of `beliefs` [X, B], with actions and observations [B].

    The fastest form for large batches: rows are gathered whole, for all actions, and the right action picked.
    """
    pushed = model.transition.push_all(beliefs)  # [A, X, B]
    predicted = select(pushed, actions)
    weights = model.observation.likelihood_all(actions, observations)
    return jax.vmap(condition, in_axes=(1, 1), out_axes=(1, 0))(predicted, weights)
