"""The belief filter and the posterior over models: predict, weigh by the observation, normalise.

    predicted(y) = sum_x b(x) P(y | x, a)
    evidence     = sum_y O(z | y, a) predicted(y)
    b'(y)        = O(z | y, a) predicted(y) / evidence
    p'(k)        ∝ evidence_k ^ temper p(k)

One semantics for agents, solvers, learning and environments: an observation that is impossible leaves the predicted
belief and a log evidence of -inf, and its gradient is 0, never NaN. Evidence below the smallest normal number counts as
impossible. Reverse mode, of any order, passes through everything here; a backward pass squares no small evidence and
keeps one array [X, N] of a step where the storage lists what is possible, else two.

Beliefs are columns: the trial, history or walker is the last axis [X, N], which vectorises. `update` takes one belief.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import Array

from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.reverse import reverse_only
from jatpo.storage import Observation, Transition


def initial(library: Library, num_trials: int) -> Array:
    """The start beliefs [K, X, N]."""
    start = library.models.initial
    return jnp.broadcast_to(start[:, :, None], (*start.shape, num_trials))


def update(model: POMDP, belief: Array, action: Array, observation: Array) -> tuple[Array, Array]:
    """The belief after `action` and `observation` [X], and the log evidence []."""
    one = jnp.asarray(action)[None], jnp.asarray(observation)[None]
    beliefs, log_evidence = update_columns(model, belief[:, None], *one)
    return beliefs[:, 0], log_evidence[0]


update_batch = jax.vmap(update, in_axes=(None, 0, 0, 0))
"""`update` of beliefs [N, X] in one model, with actions and observations [N]. `update_columns` is faster."""

update_models = jax.vmap(update, in_axes=(0, 0, None, None))
"""`update` of one belief per model [K, X] in stacked models, after one action and observation."""


def update_columns(
    model: POMDP,
    beliefs: Array,
    actions: Array,
    observations: Array,
    mask: Array | None = None,
    floor: Array | None = None,
) -> tuple[Array, Array]:
    """`update` of every column of `beliefs` [X, N], with actions and observations [N]: [X, N], [N].

    `floor` is added to every state of `mask` [X] before normalising, as the published program did with 1e-8.
    """
    chex.assert_shape(beliefs, (model.num_states, None))
    chex.assert_shape([actions, observations], (beliefs.shape[1],))
    predicted = predict_columns(model.transition, beliefs, actions)
    return weigh(model.observation, predicted, actions, observations, mask, floor)


def update_library(
    library: Library, beliefs: Array, actions: Array, observations: Array, floor: Array | None = None
) -> tuple[Array, Array]:
    """Beliefs [K, X, N] of every model after actions and observations [N], and the log evidence [K, N]."""
    chex.assert_shape(beliefs, (library.num_models, library.num_states, actions.shape[0]))

    def of_model(model: POMDP, mask: Array, beliefs: Array) -> tuple[Array, Array]:
        return update_columns(model, beliefs, actions, observations, mask, floor)

    return jax.vmap(of_model)(library.models, library.state_mask, beliefs)


def evidence(model: POMDP, belief: Array, action: Array) -> Array:
    """The probability of every observation after `action` [Z]."""
    return model.observation.evidence(model.transition.predict(belief, action), action)


def predict_columns(transition: Transition, beliefs: Array, actions: Array) -> Array:
    """sum_x b(x) P(y | x, a) of every column [X, N] under its own action [N]: [X, N]."""
    transition, beliefs = reverse_only((transition, beliefs))
    if beliefs.shape[1] == 1:  # a lone column: only its own action's transitions are touched
        return transition.predict(beliefs[:, 0], actions[0])[:, None]
    return transition.predict_columns(beliefs, actions)


def likelihood_columns(observation: Observation, actions: Array, observations: Array) -> Array:
    """O(z | y, a) for every state y, for each of the actions and observations [N]: [X, N]."""
    if actions.shape[0] == 1:
        return observation.likelihood(actions[0], observations[0])[:, None]
    return observation.likelihood_columns(actions, observations)


def weigh(
    observation: Observation,
    predicted: Array,
    actions: Array,
    observations: Array,
    mask: Array | None = None,
    floor: Array | None = None,
) -> tuple[Array, Array]:
    """`predicted` [X, N] given what was seen after each action [N], and the log evidence [N]."""
    observation, predicted, floor = reverse_only((observation, predicted, floor))
    return _weigh(observation, predicted, actions, observations, mask, floor)


@jax.custom_vjp
def _weigh(
    observation: Observation,
    predicted: Array,
    actions: Array,
    observations: Array,
    mask: Array | None,
    floor: Array | None,
) -> tuple[Array, Array]:
    weights = likelihood_columns(observation, actions, observations)
    return condition(predicted, weights, mask, floor)[:2]


def condition(
    predicted: Array, weights: Array, mask: Array | None = None, floor: Array | None = None
) -> tuple[Array, Array, Array, Array]:
    """`predicted` [X, N] given likelihoods [X, N]: beliefs, log evidence [N], and the factors that were applied.

    The factors [N] are 1 / total, with total = evidence + floor |mask|, and 1 / evidence; 0 where these are impossible.
    """
    real = jnp.ones(predicted.shape[0], predicted.dtype) if mask is None else mask.astype(predicted.dtype)
    joint = predicted * weights
    found = real @ joint  # as a product, since a sum over the first axis does not vectorise
    total, raised = found, joint
    if floor is not None:
        total, raised = found + floor * jnp.sum(real), joint + floor * real[:, None]
    scale, inverse = _inverse(total), _inverse(found)
    beliefs = jnp.where((scale > 0)[None, :], raised * scale[None, :], predicted)
    seen = inverse > 0
    return beliefs, jnp.where(seen, jnp.log(jnp.where(seen, found, 1)), -jnp.inf), scale, inverse


def normalised(joint: Any, predicted: Any, axis: int = 0, xp: ModuleType = jnp) -> tuple[Any, Any]:
    """`joint` = predicted times likelihood as beliefs along `axis`, and their evidence with that axis of length 1.

    `condition` for the walks of the solvers, which need no gradient and also run in NumPy. It divides by a plain sum:
    a belief point that moved in its last place would change which vectors are found.
    """
    evidence = joint.sum(axis=axis, keepdims=True)
    possible = evidence >= xp.finfo(joint.dtype).tiny
    return xp.where(possible, joint / xp.where(possible, evidence, 1), predicted), xp.where(
        possible, evidence, 0
    )


def _inverse(number: Array) -> Array:
    """1 / number, 0 where that is not finite."""
    normal = number >= jnp.finfo(number.dtype).tiny
    return jnp.where(normal, 1 / jnp.where(normal, number, 1), 0)


def _weigh_forward(
    observation: Observation,
    predicted: Array,
    actions: Array,
    observations: Array,
    mask: Array | None,
    floor: Array | None,
) -> tuple[tuple[Array, Array], tuple]:
    weights = likelihood_columns(observation, actions, observations)
    beliefs, log_evidence, scale, inverse = condition(predicted, weights, mask, floor)
    # The next prediction keeps the beliefs anyway; what was predicted is b' / O / scale where O > 0.
    kept = None if observation.zeros_are_padding and floor is None else predicted
    return (beliefs, log_evidence), (
        observation,
        kept,
        beliefs,
        scale,
        inverse,
        actions,
        observations,
        mask,
        floor,
    )


def _weigh_backward(residuals: tuple, given: tuple[Array, Array]) -> tuple[Any, ...]:
    """With b' = (joint + floor) / total, by joint(y): (given(y) - sum b' given) / total + given of log e / e."""
    observation, predicted, beliefs, scale, inverse, actions, observations, mask, floor = residuals
    by_belief, by_log = given
    real = jnp.ones(beliefs.shape[0], beliefs.dtype) if mask is None else mask.astype(beliefs.dtype)
    possible = (scale > 0)[None, :]
    mean = jnp.ones_like(real) @ (beliefs * by_belief)  # [N]
    common = jnp.where(inverse > 0, by_log, 0) * (1 if floor is None else inverse / _positive(scale)) - mean
    by_raised = jnp.where(possible, by_belief + real[:, None] * common[None, :], 0)  # times total
    weights = likelihood_columns(observation, actions, observations)
    by_predicted = jnp.where(possible, weights * by_raised * scale[None, :], by_belief)
    if predicted is None:
        by_likelihood = jnp.where(weights > 0, beliefs * by_raised / _positive(weights), 0)
    else:
        by_likelihood = predicted * by_raised * scale[None, :]
    by_observation = observation.likelihood_gradient(by_likelihood, actions, observations)
    by_floor = None
    if floor is not None:
        rise = real @ by_belief - jnp.sum(real) * mean
        by_floor = jnp.sum(jnp.where(scale > 0, rise * scale, 0))
    return by_observation, by_predicted, None, None, None, by_floor


_weigh.defvjp(_weigh_forward, _weigh_backward)


def _positive(numbers: Array) -> Array:
    return jnp.where(numbers > 0, numbers, 1)


def posterior(
    log_posterior: Array, log_evidence: Array, members: Array, floor: Array, temper: Array
) -> tuple[Array, Array]:
    """The log posterior over models [K, N] after log evidence [K, N], and the log evidence of the mixture [N].

    Bayes' rule among `members` [K, N] with the evidence to the power `temper`; 0 does not learn. A model that is ruled
    out has -inf and stays there unless `floor` > 0. Where all are ruled out at once, the posterior stays as it was and
    the log evidence is -inf. Every operation is given finite numbers, also where its result is not used, since 0 times
    infinity would come back as NaN in a gradient.
    """
    seen, held = log_evidence > -jnp.inf, log_posterior > -jnp.inf
    alive = seen & held
    before, found = jnp.where(held, log_posterior, 0), jnp.where(seen, log_evidence, 0)
    learns, floored = temper > 0, floor > 0
    weighed = before + jnp.where(learns, temper, 1) * found
    low = jnp.log(jnp.where(floored, floor, 1))
    lifted = jnp.where(floored, jnp.where(alive, jnp.logaddexp(weighed, low), low), weighed)
    possible_models = members & (alive | floored)
    total, possible = log_total(lifted, possible_models)
    updated = jnp.where(possible_models, lifted - total[None, :], -jnp.inf)
    after = jnp.where((possible & learns)[None, :], updated, log_posterior)
    explained, explicable = log_total(before + found, alive)
    return after, jnp.where(explicable, explained, -jnp.inf)


def posterior_carried(
    log_posterior: Array, rest: Array, log_evidence: Array, members: Array, temper: Array
) -> tuple[Array, Array, Array]:
    """`posterior` without a floor, and the next `rest` [K, N]: what rounding took from the log posterior, to be added.

    log p(k) of a model that is out of favour for thousands of steps is a large number, to which small ones are added.
    In single precision their last places are then lost, at every step the same way. Here they are carried along.
    """
    none = jnp.zeros((), log_posterior.dtype)
    after, explained = posterior(log_posterior, log_evidence, members, none, temper)
    moved = (after > -jnp.inf) & (temper > 0) & (explained > -jnp.inf)[None, :]
    before, found = (jnp.where(moved, part, 0) for part in (log_posterior, log_evidence))
    weighed, first = _exact_sum(before, temper * found)
    total, _ = log_total(weighed, moved)
    _, second = _exact_sum(weighed, -total[None, :])
    after_all, left = _exact_sum(jnp.where(moved, after, 0), rest + first + second)
    return jnp.where(moved, after_all, after), explained, jnp.where(moved, left, rest)


def _exact_sum(one: Array, other: Array) -> tuple[Array, Array]:
    """The rounded sum, and what rounding took from it (Knuth's two-sum)."""
    total = one + other
    kept = total - one
    return total, (one - (total - kept)) + (other - kept)


def log_total(logs: Array, held: Array) -> tuple[Array, Array]:
    """log sum exp [N] over those of `logs` [K, N] that are held, 0 where none is, and whether one is [N]."""
    some = jnp.any(held, axis=0)
    peak = jax.lax.stop_gradient(jnp.max(jnp.where(held, logs, -jnp.inf), axis=0))
    peak = jnp.where(some, peak, 0)
    below = jnp.where(held, logs - peak[None, :], 0)
    total = jnp.sum(jnp.where(held, jnp.exp(below), 0), axis=0)
    return jnp.where(some, peak + jnp.log(jnp.where(some, total, 1)), 0), some


def safe_log(weights: Array) -> Array:
    """log with -inf for 0, and no warning or NaN in its gradient."""
    positive = weights > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, weights, 1)), -jnp.inf)
