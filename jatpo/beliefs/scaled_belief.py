"""A belief with an exponent for every state, so that no probability underflows: b(x) = mantissa(x) 2^(-B level(x)).

In single precision a hidden state that never changes is less probable than 1e-38 after some 50 equal hints at 85 %;
held as a plain number its probability is then 0, and no evidence brings it back. Here it stays, with the relative
rounding of its mantissa, since levels are whole numbers. B is half of the exponents that the precision has (64 of
float32), so that a mantissa in [2^-B, 1] leaves room for the probabilities that it is multiplied with.

P is applied to one level after the other, the most probable first. Nearly always one level holds all states, and a step
then costs little more than with `Dense`. Levels are counted at run time, so gradients do not pass through `predict`:
they are refused with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import filter
from jatpo.beliefs.belief_protocol import Diagnostics, Representation
from jatpo.model import POMDP
from jatpo.reverse import no_gradient
from jatpo.storage import Transition, pick

NO_LEVEL = 2**31 - 1
SENTENCE = (
    "gradients do not pass through beliefs of jatpo.beliefs.Scaled: differentiate with Dense(), the default"
)


class ScaledBelief(NamedTuple):
    """Probabilities as `mantissa` 2^(-B `level`); 0 has mantissa 0 and level 0."""

    mantissa: Array  # [X], in [2^-B, 1] or 0
    level: Array  # [X] int32


@dataclass(frozen=True)
class Scaled(Representation):
    """The probability of every state, however small."""

    def start(self, key: Array | None, model: POMDP) -> ScaledBelief:
        del key
        return _scaled(model.initial, jnp.zeros(model.initial.shape, jnp.int32))

    def predict(self, key: Array | None, model: POMDP, belief: ScaledBelief, action: Array) -> ScaledBelief:
        del key
        return _lone(_predicted(model.transition, _column(belief), jnp.asarray(action)[None]))

    def weigh(
        self, key: Array | None, model: POMDP, predicted: ScaledBelief, action: Array, observation: Array
    ) -> tuple[ScaledBelief, Array, Diagnostics]:
        del key
        weights = model.observation.likelihood(action, observation)
        return _lone(_weighed(_column(predicted), weights[:, None]))

    def update_columns(
        self, keys: Array | None, model: POMDP, beliefs: ScaledBelief, actions: Array, observations: Array
    ) -> tuple[ScaledBelief, Array, Diagnostics]:
        del keys
        predicted = _predicted(model.transition, beliefs, actions)
        return _weighed(predicted, filter.likelihood_columns(model.observation, actions, observations))

    def expectation(self, belief: ScaledBelief, values: Array) -> Array:
        return values @ _plain(belief)

    def expectation_columns(self, beliefs: ScaledBelief, values: Array) -> Array:
        return values @ _plain(beliefs)

    def mode(self, belief: ScaledBelief) -> Array:
        return jnp.argmax(_plain(belief)).astype(jnp.int32)

    def sample(self, key: Array, belief: ScaledBelief) -> Array:
        return pick(jax.random.uniform(key, (), belief.mantissa.dtype), _plain(belief))

    def dense(self, belief: ScaledBelief, num_states: int) -> Array:
        del num_states
        return _plain(belief)

    def dense_columns(self, beliefs: ScaledBelief, num_states: int) -> Array:
        del num_states
        return _plain(beliefs)

    def size(self, belief: ScaledBelief) -> Array:
        return jnp.sum(belief.mantissa > 0).astype(belief.mantissa.dtype)

    def log(self, belief: ScaledBelief) -> Array:
        """The logarithm of the probability of every state [X]."""
        order = belief.level.astype(belief.mantissa.dtype) * _log_step(belief.mantissa)
        return filter.safe_log(belief.mantissa) - order


def _column(belief: ScaledBelief) -> ScaledBelief:
    return jax.tree.map(lambda leaf: leaf[:, None], belief)


def _lone(columns: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[..., 0], columns)


def _predicted(transition: Transition, beliefs: ScaledBelief, actions: Array) -> ScaledBelief:
    """sum_x b(x) P(y | x, a) of every column [X, N], level by level, of which 0 is never empty."""
    transition, (mantissa, level) = no_gradient((transition, beliefs), SENTENCE)

    def of_level(own: Array) -> ScaledBelief:
        within = jnp.where(level == own[None, :], mantissa, 0)
        arrived = filter.predict_columns(transition, within, actions)
        return _scaled(arrived, jnp.broadcast_to(own[None, :], arrived.shape))

    def some_left(carry: tuple[Array, ScaledBelief]) -> Array:
        return jnp.any(level > carry[0][None, :])

    def add_next(carry: tuple[Array, ScaledBelief]) -> tuple[Array, ScaledBelief]:
        done, found = carry
        following = jnp.min(jnp.where(level > done[None, :], level, NO_LEVEL), axis=0)
        return following, _sum(found, of_level(following))

    first = jnp.zeros(actions.shape, jnp.int32)
    return jax.lax.while_loop(some_left, add_next, (first, of_level(first)))[1]


def _weighed(predicted: ScaledBelief, weights: Array) -> tuple[ScaledBelief, Array, Diagnostics]:
    """`filter.condition` of columns [X, N] with likelihoods [X, N]."""
    joint = _scaled(predicted.mantissa * weights, predicted.level)
    top, total = _total(joint)
    possible = total > 0
    inverse = 1 / jnp.where(possible, total, 1)
    after = _scaled(joint.mantissa * inverse[None, :], joint.level - top[None, :])
    kept = jax.tree.map(lambda new, old: jnp.where(possible[None, :], new, old), after, predicted)
    order = top.astype(weights.dtype) * _log_step(weights)
    log_evidence = jnp.where(possible, jnp.log(jnp.where(possible, total, 1)) - order, -jnp.inf)
    nothing = jnp.zeros_like(total)
    size = jnp.sum(kept.mantissa > 0, axis=0).astype(weights.dtype)
    return kept, log_evidence, Diagnostics(nothing, nothing, size)


def _total(joint: ScaledBelief) -> tuple[Array, Array]:
    """The sums of columns [X, N] as levels [N] and numbers [N]; the levels are 0 unless an observation is very rare."""
    ones = jnp.ones(joint.mantissa.shape[0], joint.mantissa.dtype)

    def of_level(top: Array) -> Array:  # as a product, since a sum over the first axis does not vectorise
        return ones @ _plain(joint._replace(level=joint.level - top[None, :]))

    def exactly(_: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        lowest = jnp.min(jnp.where(joint.mantissa > 0, joint.level, NO_LEVEL), axis=0)
        top = jnp.where(lowest == NO_LEVEL, 0, lowest)
        return jnp.zeros((), bool), top, of_level(top)

    first = jnp.zeros(joint.mantissa.shape[1], jnp.int32)
    total = of_level(first)
    too_small = jnp.any(total < _step(total))
    return jax.lax.while_loop(lambda carry: carry[0], exactly, (too_small, first, total))[1:]


def _binary_orders(like: Array) -> int:
    """B."""
    return 1 - int(jnp.finfo(like.dtype).minexp) // 2


def _step(like: Array) -> Array:
    """2^-B."""
    return jnp.asarray(2.0 ** -_binary_orders(like), like.dtype)


def _log_step(like: Array) -> Array:
    """B log 2."""
    return jnp.asarray(_binary_orders(like) * np.log(2), like.dtype)


def _scaled(numbers: Array, level: Array) -> ScaledBelief:
    """`numbers` 2^(-B `level`), where they are at most 2^B and at least 2^-2B, with mantissas in [2^-B, 1]."""
    step = _step(numbers)
    small, large = numbers < step, (numbers > 1) & (level > 0)
    mantissa = jnp.where(small, numbers * (1 / step), jnp.where(large, numbers * step, numbers))
    moved = level + small.astype(jnp.int32) - large.astype(jnp.int32)
    return ScaledBelief(mantissa, jnp.where(mantissa > 0, moved, 0))


def _plain(belief: ScaledBelief) -> Array:
    """The probabilities as plain numbers; 0 where they are too small."""
    near = jnp.where(belief.level == 1, belief.mantissa * _step(belief.mantissa), 0)
    return jnp.where(belief.level == 0, belief.mantissa, near)


def _sum(one: ScaledBelief, other: ScaledBelief) -> ScaledBelief:
    """The sum, state by state; `other` may be small against `one` where both have weight."""
    absent = one.mantissa == 0
    top = jnp.where(
        absent, other.level, jnp.where(other.mantissa == 0, one.level, jnp.minimum(one.level, other.level))
    )
    parts = [_plain(part._replace(level=part.level - top)) for part in (one, other)]
    return _scaled(parts[0] + parts[1], top)
