"""The belief filter for a chunk of trials: K models at once, beliefs [K, X, N], the trial on the last axis.

    predicted_k(y) = sum_x b_k(x) P_k(y | x, a)
    evidence_k     = sum_y O_k(z | y, a) predicted_k(y)
    b_k'(y)        = O_k(z | y, a) predicted_k(y) / evidence_k        (problem.md, "One step")

Each trial has its own action and observation. The predicted belief is computed once, for the belief and for the
evidence. An observation that is impossible under a model leaves its predicted belief and a log evidence of -inf.
`floor` is added to every real state before normalising, as the published program did with 1e-8.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.storage import DenseTransition, Transition


def initial(library: Library, num_trials: int) -> Array:
    """The start beliefs [K, X, N]."""
    start = library.models.initial
    return jnp.broadcast_to(start[:, :, None], (*start.shape, num_trials))


def update(library: Library, beliefs: Array, actions: Array, observations: Array, floor: Array) -> tuple:
    """Beliefs [K, X, N] after actions and observations [N], and the log evidence [K, N]."""
    step = _update_lone if beliefs.shape[-1] == 1 else _update_model
    return jax.vmap(step, in_axes=(0, 0, 0, None, None, None))(
        library.models, library.state_mask, beliefs, actions, observations, floor
    )


def _update_model(
    model: POMDP, mask: Array, beliefs: Array, actions: Array, observations: Array, floor: Array
):
    """One model: beliefs [X, N] to beliefs [X, N] and log evidence [N]."""
    predicted = push(model.transition, beliefs, actions)
    return condition(predicted, model.observation.likelihood_all(actions, observations), mask, floor)


def _update_lone(
    model: POMDP, mask: Array, beliefs: Array, actions: Array, observations: Array, floor: Array
):
    """`_update_model` of a single trial: only its own action's transitions are touched."""
    predicted = model.transition.push(beliefs[:, 0], actions[0])
    weight = model.observation.likelihood(actions[0], observations[0])
    return condition(predicted[:, None], weight[:, None], mask, floor)


def condition(predicted: Array, weights: Array, mask: Array, floor: Array) -> tuple[Array, Array]:
    """`predicted` [X, N] given observations of likelihood `weights` [X, N], and the log evidence [N]."""
    joint = predicted * weights
    evidence = jnp.sum(joint, axis=0, keepdims=True)
    joint = joint + jnp.where(mask, floor, 0)[:, None]
    total = jnp.sum(joint, axis=0, keepdims=True)
    tiny = jnp.finfo(predicted.dtype).tiny
    rest = predicted / jnp.maximum(jnp.sum(predicted, axis=0, keepdims=True), tiny)
    beliefs = jnp.where(total > 0, joint / jnp.where(total > 0, total, 1), rest)
    possible = evidence > 0
    return beliefs, jnp.where(possible, jnp.log(jnp.where(possible, evidence, 1)), -jnp.inf)[0]


def push(transition: Transition, beliefs: Array, actions: Array) -> Array:
    """sum_x b(x) P(y | x, a) of every column of `beliefs` [X, N], each under its own action [N]: [X, N].

    All actions are pushed and the right one kept: whole rows move, which no per-column choice allows. The loop
    over actions is one of XLA, which compiles faster than as many copies of its body.
    """

    def of_action(action: Array, arriving: Array) -> Array:
        own = jnp.where((actions == action)[None, :], beliefs, 0)
        return arriving + _push_all_columns(transition, own, action)

    return jax.lax.fori_loop(0, transition.num_actions, of_action, jnp.zeros_like(beliefs))


def _push_all_columns(transition: Transition, beliefs: Array, action: Array) -> Array:
    """`push` of every column under one action."""
    if isinstance(transition, DenseTransition):
        return jnp.einsum("xy,xb->yb", transition.probability[action], beliefs)
    index, weight = transition.predecessor[action], transition.inflow[action]  # [X, Q]
    terms = (beliefs[index[:, q]] * weight[:, q, None] for q in range(index.shape[1]))
    place = (jnp.arange(beliefs.shape[0], dtype=jnp.int32)[:, None] == transition.hub[None, :]).astype(
        beliefs.dtype
    )  # [X, H]
    into_hubs = transition.hub_inflow[action] @ beliefs
    return sum(terms, place @ into_hubs)  # padding hubs have no inflow
