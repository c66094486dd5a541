"""The belief filter for a chunk of trials: K models at once, beliefs [K, X, N], the trial on the last axis.

    predicted_k(y) = sum_x b_k(x) P_k(y | x, a)
    evidence_k     = sum_y O_k(z | y, a) predicted_k(y)
    b_k'(y)        = O_k(z | y, a) predicted_k(y) / evidence_k        (problem.md, "One step")

Each trial has its own action and observation. The predicted belief is computed once, for the belief and for
the evidence. An observation that is impossible under a model leaves its predicted belief and a log evidence
of -inf. `floor` is added to every real state before normalising, as the published program did with 1e-8.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.storage import BlockedObservation, DenseTransition, Observation, Transition

SMALL = 1 << 16  # a table of class by observation of this many entries is made anew at every step


def initial(library: Library, num_trials: int) -> Array:
    """The start beliefs [K, X, N]."""
    start = library.models.initial
    return jnp.broadcast_to(start[:, :, None], (*start.shape, num_trials))


def update(
    library: Library, beliefs: Array, actions: Array, observations: Array, floor: Array
) -> tuple[Array, Array]:
    """Beliefs [K, X, N] after actions and observations [N], and the log evidence [K, N]."""

    def of_model(model: POMDP, mask: Array, beliefs: Array) -> tuple[Array, Array]:
        if beliefs.shape[1] == 1:  # a lone trial: only its own action's transitions are touched
            predicted = model.transition.push(beliefs[:, 0], actions[0])[:, None]
            weights = model.observation.likelihood(actions[0], observations[0])[:, None]
        else:
            predicted = push(model.transition, beliefs, actions)
            weights = likelihood(model.observation, actions, observations)
        return condition(predicted, weights, mask, floor)

    return jax.vmap(of_model)(library.models, library.state_mask, beliefs)


def condition(predicted: Array, weights: Array, mask: Array, floor: Array) -> tuple[Array, Array]:
    """`predicted` [X, N] given observations of likelihood `weights` [X, N], and the log evidence [N]."""
    real = mask.astype(predicted.dtype)
    joint = predicted * weights
    evidence = real @ joint  # as a product, since a sum over the first axis does not vectorise
    total = (evidence + floor * jnp.sum(real))[None, :]
    scale = 1 / jnp.where(total > 0, total, 1)
    beliefs = jnp.where(total > 0, (joint + floor * real[:, None]) * scale, predicted)
    possible = evidence > 0
    return beliefs, jnp.where(possible, jnp.log(jnp.where(possible, evidence, 1)), -jnp.inf)


def likelihood(observation: Observation, actions: Array, observations: Array) -> Array:
    """O(z | y, a) for every state y, for each of the actions and observations [N]: [X, N]."""
    if isinstance(observation, BlockedObservation) and observation.kind.shape[0] == 1:
        classes, listed = observation.symbol.shape
        if listed > 1 and classes * observation.num_observations <= SMALL:
            of_class = observation.class_rows().T[observations]  # [N, C]
            return of_class.T[observation.kind[0]]
    return observation.likelihood_all(actions, observations)


def push(transition: Transition, beliefs: Array, actions: Array) -> Array:
    """sum_x b(x) P(y | x, a) of every column of `beliefs` [X, N], each under its own action [N]: [X, N].

    All actions are pushed and the right one kept: whole rows move, which no per-column choice allows. The
    loop over actions is one of XLA, which compiles faster than as many copies of its body.
    """

    def of_action(action: Array, arriving: Array) -> Array:
        pushed = _push_all_columns(transition, beliefs, action)
        return arriving + jnp.where((actions == action)[None, :], pushed, 0)

    return jax.lax.fori_loop(0, transition.num_actions, of_action, jnp.zeros_like(beliefs))


def _push_all_columns(transition: Transition, beliefs: Array, action: Array) -> Array:
    """`push` of every column under one action."""
    if isinstance(transition, DenseTransition):
        return jnp.einsum("xy,xb->yb", transition.probability[action], beliefs)
    index, weight = transition.predecessor[action], transition.inflow[action]  # [X, Q]
    terms = (beliefs[index[:, q]] * weight[:, q, None] for q in range(index.shape[1]))
    numbers = jnp.arange(beliefs.shape[0], dtype=jnp.int32)
    place = (numbers[:, None] == transition.hub[None, :]).astype(beliefs.dtype)  # [X, H]
    into_hubs = transition.hub_inflow[action] @ beliefs  # padding hubs have no inflow
    return sum(terms, place @ into_hubs)
