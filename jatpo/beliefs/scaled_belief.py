"""A belief with an exponent for every state, so that no probability underflows: b(x) = mantissa(x) 2^exponent(x).

In single precision a hidden state that never changes is less probable than 1e-38 after some 50 equal hints at 85 %;
held as a plain number its probability is then 0, and no evidence brings it back. Here it stays, with the relative
rounding of its mantissa: the exponents are whole numbers.

P is applied to one band of states after the other, the most probable first: those within `BAND` binary orders of the
largest that is left, scaled by it. Nearly always one band holds all of them, and a step then costs as much as with
`Dense`. The bands are counted at run time, so gradients do not pass through `predict`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.beliefs.belief_protocol import Diagnostics, Representation
from jatpo.model import POMDP
from jatpo.storage import pick

BAND = 60  # binary orders
NOTHING = -(1 << 28)  # the exponent of probability 0
LN2 = 0.6931471805599453


class ScaledBelief(NamedTuple):
    """Probabilities as `mantissa` 2^`exponent`; 0 has mantissa 0 and exponent `NOTHING`."""

    mantissa: Array  # [X], in [1/2, 1) or 0
    exponent: Array  # [X], int32


@dataclass(frozen=True)
class Scaled(Representation):
    """The probability of every state, however small."""

    def start(self, key: Array | None, model: POMDP) -> ScaledBelief:
        del key
        return _scaled(model.initial, jnp.zeros(model.initial.shape, jnp.int32))

    def predict(self, key: Array | None, model: POMDP, belief: ScaledBelief, action: Array) -> ScaledBelief:
        del key

        def some_left(carry: tuple[ScaledBelief, ScaledBelief]) -> Array:
            return jnp.any(carry[0].mantissa > 0)

        def next_band(carry: tuple[ScaledBelief, ScaledBelief]) -> tuple[ScaledBelief, ScaledBelief]:
            left, found = carry
            top = jnp.max(left.exponent)
            within = left.exponent > top - BAND
            weights = jnp.where(within, _shifted(left.mantissa, left.exponent - top), 0)
            arrived = model.transition.predict(weights, action)
            rest = ScaledBelief(
                jnp.where(within, 0, left.mantissa), jnp.where(within, NOTHING, left.exponent)
            )
            return rest, _sum(found, _scaled(arrived, jnp.full(arrived.shape, top, jnp.int32)))

        nothing = ScaledBelief(
            jnp.zeros_like(belief.mantissa), jnp.full(belief.exponent.shape, NOTHING, jnp.int32)
        )
        return jax.lax.while_loop(some_left, next_band, (belief, nothing))[1]

    def weigh(
        self, key: Array | None, model: POMDP, predicted: ScaledBelief, action: Array, observation: Array
    ) -> tuple[ScaledBelief, Array, Diagnostics]:
        del key
        weights = model.observation.likelihood(action, observation)
        joint = _scaled(predicted.mantissa * weights, predicted.exponent)
        top = jnp.max(joint.exponent)
        total = jnp.sum(_shifted(joint.mantissa, joint.exponent - top))
        possible = total > 0
        divisor = jnp.where(possible, total, 1)
        after = _scaled(joint.mantissa / divisor, joint.exponent - jnp.where(possible, top, 0))
        kept = jax.tree.map(lambda new, old: jnp.where(possible, new, old), after, predicted)
        order = top.astype(weights.dtype) * jnp.asarray(LN2, weights.dtype)
        log_evidence = jnp.where(possible, jnp.log(divisor) + order, -jnp.inf)
        nothing = jnp.zeros((), weights.dtype)
        size = jnp.sum(kept.mantissa > 0).astype(weights.dtype)
        return kept, log_evidence, Diagnostics(nothing, nothing, size)

    def expectation(self, belief: ScaledBelief, values: Array) -> Array:
        return values @ _shifted(*belief)

    def mode(self, belief: ScaledBelief) -> Array:
        return jnp.argmax(_shifted(*belief)).astype(jnp.int32)

    def sample(self, key: Array, belief: ScaledBelief) -> Array:
        return pick(jax.random.uniform(key, (), belief.mantissa.dtype), _shifted(*belief))

    def dense(self, belief: ScaledBelief, num_states: int) -> Array:
        del num_states
        return _shifted(*belief)

    def log(self, belief: ScaledBelief) -> Array:
        """The logarithm of the probability of every state [X]."""
        held = belief.mantissa > 0
        order = belief.exponent.astype(belief.mantissa.dtype) * jnp.asarray(LN2, belief.mantissa.dtype)
        return jnp.where(held, jnp.log(jnp.where(held, belief.mantissa, 1)) + order, -jnp.inf)


def _scaled(numbers: Array, exponent: Array) -> ScaledBelief:
    """`numbers` 2^`exponent` with mantissas in [1/2, 1)."""
    mantissa, more = jnp.frexp(numbers)
    held = mantissa > 0
    return ScaledBelief(mantissa, jnp.where(held, exponent + more.astype(jnp.int32), NOTHING))


def _shifted(mantissa: Array, exponent: Array) -> Array:
    """`mantissa` 2^`exponent` as plain numbers; 0 where they are too small."""
    low = -1000 if mantissa.dtype == jnp.float64 else -120
    small = jnp.ldexp(mantissa, jnp.clip(exponent, low, 1))
    return jnp.where(exponent < low, 0, small)


def _sum(one: ScaledBelief, other: ScaledBelief) -> ScaledBelief:
    top = jnp.maximum(one.exponent, other.exponent)
    parts = [_shifted(part.mantissa, part.exponent - top) for part in (one, other)]
    return _scaled(parts[0] + parts[1], top)
