"""The log-likelihood of histories: the belief filter along each of them, with gradients.

    log L(h)     = sum_t log sum_y O(z_t | y, a_t) predicted_t(y)
    evidence     = sum_k prior(k) L_k(h),   posterior(k) ∝ prior(k) L_k(h)

The beliefs are normalised at every step and the logs of the factors added up, so that thousands of steps lose
nothing. Zeros are exact: what is impossible has log-likelihood -inf, and its gradient is that of the other
steps, finite everywhere.

Reverse mode has to keep the beliefs of all steps, or make them again. Beyond `BUDGET` bytes the steps are cut into
pieces of which only the first belief is kept; a piece is run anew when its gradient is due. Memory then grows with
the square root of T.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import filter
from jatpo.learn.histories import Histories, History
from jatpo.library import Library
from jatpo.model import POMDP

BUDGET = 1 << 28  # bytes up to which all beliefs are kept
MOST = 60.0  # exp of it is finite in single precision


class Steps(NamedTuple):
    """What was done, seen and done next, with time first, cut into pieces [T / piece, piece, N]."""

    actions: Array
    observations: Array
    mask: Array
    following: Array


def log_likelihood(model: POMDP, history: History) -> Array:
    """The log probability of a history's observations given its actions []."""
    actions, observations = (jnp.asarray(part, jnp.int32)[None] for part in history)
    whole = Histories(actions, observations, jnp.ones(actions.shape, bool))
    return log_likelihoods(model, whole)[0]


def log_likelihoods(model: POMDP, histories: Histories, piece: int | None = None) -> Array:
    """`log_likelihood` of every history [N]; `piece` steps at a time are kept for the gradient."""
    num_histories, num_steps = histories.actions.shape
    if num_steps == 0:
        return jnp.zeros(num_histories, model.dtype)
    each = model.num_states * num_histories * jnp.dtype(model.dtype).itemsize
    kept = (
        1 if model.observation.zeros_are_padding else 2
    )  # arrays [X, N] that a step keeps for the backward pass
    steps = _cut(histories, piece or piece_length(num_steps, kept, each))
    start = jnp.broadcast_to(model.initial[:, None], (model.num_states, num_histories))
    predicted = filter.predict_columns(model.transition, start, jnp.asarray(histories.actions)[:, 0])

    def along(carry: tuple[Array, Array], steps: Steps) -> tuple[tuple[Array, Array], None]:
        return jax.lax.scan(partial(_step, model), carry, steps)

    nothing = jnp.zeros(num_histories, model.dtype)
    again = along if len(steps.mask) == 1 else jax.checkpoint(along)
    (_, total), _ = jax.lax.scan(again, (predicted, nothing), steps)
    return total


def _step(model: POMDP, carry: tuple[Array, Array], steps: Steps) -> tuple[tuple[Array, Array], None]:
    """One step of all histories: predicted beliefs [X, N] and log-likelihoods so far [N].

    In this order all that a step has to keep for the way back is the belief in its middle.
    """
    predicted, total = carry
    beliefs, log_evidence = filter.weigh(model.observation, predicted, steps.actions, steps.observations)
    predicted = filter.predict_columns(model.transition, beliefs, steps.following)
    return (predicted, total + jnp.where(steps.mask, log_evidence, 0)), None


def _cut(histories: Histories, piece: int) -> Steps:
    """Time first, padded to whole pieces with masked steps."""
    extra = -histories.actions.shape[1] % piece

    def pieces(part: Array | np.ndarray) -> Array:
        padded = jnp.pad(jnp.asarray(part).T, ((0, extra), (0, 0)))
        return padded.reshape(-1, piece, padded.shape[1])

    actions = jnp.asarray(histories.actions)
    following = jnp.pad(actions[:, 1:], ((0, 0), (0, 1)))
    return Steps(*(pieces(part) for part in (actions, histories.observations, histories.mask, following)))


def piece_length(num_steps: int, kept: int, belief_bytes: int) -> int:
    """All steps if what a gradient keeps of them fits `BUDGET`; the piece that keeps least otherwise.

    Pieces of c of T steps keep `kept` · c + T / c arrays of `belief_bytes`. Lengths in between are slower than either.
    """
    if kept * num_steps * belief_bytes <= BUDGET:
        return num_steps
    return max(1, round(math.sqrt(num_steps / kept)))


def log_evidences(library: Library, histories: Histories) -> Array:
    """The log-likelihood of every history under every model [N, K]."""
    histories = jax.tree.map(jnp.asarray, histories)
    return jax.lax.map(lambda model: log_likelihoods(model, histories), library.models).T


def log_evidence(library: Library, histories: Histories) -> Array:
    """The log probability of every history if its model is drawn from the library's prior [N]."""
    return marginal(library.prior, log_evidences(library, histories))


def posterior(library: Library, histories: Histories) -> Array:
    """The probability of every model given each history [N, K]; the prior where all likelihoods are 0."""
    return responsibilities(library.prior, log_evidences(library, histories))


def marginal(prior: Array, log_evidences: Array) -> Array:
    """log sum_k prior(k) exp(l_k) [N] for l [N, K]; -inf, with gradient 0, where all likelihoods are 0."""
    top, terms = _scaled(prior, log_evidences)
    total = jnp.sum(terms, axis=1)
    possible = total > 0
    return jnp.where(possible, jnp.log(jnp.where(possible, total, 1)) + top, -jnp.inf)


def responsibilities(prior: Array, log_evidences: Array) -> Array:
    """prior(k) exp(l_k), normalised over the models [N, K]."""
    _, terms = _scaled(prior, log_evidences)
    total = jnp.sum(terms, axis=1, keepdims=True)
    possible = total > 0
    return jnp.where(possible, terms / jnp.where(possible, total, 1), prior[None, :])


def _scaled(prior: Array, log_evidences: Array) -> tuple[Array, Array]:
    """The highest l of each history among models of positive prior [N], and prior · exp(l - highest) [N, K]."""
    finite = jnp.isfinite(log_evidences)
    safe = jnp.where(finite, log_evidences, 0)
    able = finite & (prior > 0)[None, :]
    top = jax.lax.stop_gradient(jnp.max(jnp.where(able, safe, -jnp.inf), axis=1))
    top = jnp.where(jnp.isfinite(top), top, 0)
    over = jnp.minimum(safe - top[:, None], MOST)  # only a model of prior 0 can be above the highest
    return top, prior[None, :] * jnp.where(finite, jnp.exp(over), 0)
