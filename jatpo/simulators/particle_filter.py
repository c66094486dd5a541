"""Particle beliefs: weighted states of a simulator, with an unbiased estimate of the evidence.

    bootstrap   resample ancestors where few carry the weight, move each by itself, weigh by O(z | y, a)
    adapted     list the successors y of every particle, weigh them by w P(y | x, a) O(z | y, a), keep `count` of them
    merged      as adapted, with equal states added up before the choice

The last two need `successors`, the last one `code` as well. All choose by one rule: candidate i with weight q_i is kept
r_i times on average, by systematic sampling, and each copy has the weight q_i / r_i, so every weight keeps its
expectation and the product of the evidences is an unbiased estimate of the probability of all observations (Del Moral,
2004). Bootstrap particles have r_i in proportion to q_i, the others r_i = min(1, q_i / c) with c such that the r_i sum
to `count` (Fearnhead and Clifford, 2003): heavy candidates are kept as they are. Where start states are listed
(`starts`) and no more than `count` states have weight, merged particles are the exact filter.

When no particle explains an observation, the model is depleted: its log evidence is the log of `floor`, a stated
number instead of a zero that sampling has made, and its particles are drawn anew: from start states that were drawn
before the first step, weighed by the observation, or where these explain nothing either, as they were predicted. After
a depletion the evidence is no longer unbiased; `dropped` is 1 in that step, and the belief counts it.

Gradients: rates r_i are constants, weights q_i are not, so that the gradient of the evidence Z is an unbiased estimate
of that of the probability (Ścibior and Wood, 2021) for parameters that act through `log_observation`, and with adapted
and merged particles through the probabilities of `successors`. log Z and its gradient have a bias of order 1 / count.
Bootstrap moves have no gradient in the parameters of `step`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.beliefs import Diagnostics, Representation
from jatpo.errors import unknown
from jatpo.pytree import pytree
from jatpo.simulators.simulator_protocol import Simulator, State

RESERVE = 4  # one start state is kept for that many particles
PROPOSALS = ("bootstrap", "adapted", "merged")
ROUNDS = (
    16  # of the search for the threshold c; it approaches from above, and any c that is reached is unbiased
)


@pytree
@dataclass(frozen=True)
class ParticleBelief:
    """States with weights; a weight of 0 marks a place that is not used."""

    states: State  # [P, ...]
    weights: Array  # [P], of sum 1
    depleted: Array  # [] int32, how often all particles died
    reserve: State  # [P / RESERVE, ...], start states for when they do


@pytree
@dataclass(frozen=True)
class Proposed:
    """Candidates before the observation; M is P, or P·S where successors are listed."""

    states: State  # [M, ...]
    weights: Array  # [M]
    depleted: Array
    reserve: State


@dataclass(frozen=True)
class Particles(Representation):
    """`count` particles. `resample_below`: the share of effective particles below which bootstrap resamples."""

    count: int
    proposal: str = "bootstrap"
    resample_below: float = 0.5
    floor: float = 1e-6

    of_tables = False

    def __post_init__(self) -> None:
        if self.proposal not in PROPOSALS:
            raise unknown("proposal", self.proposal, PROPOSALS)

    def start(self, key: Array | None, model: Simulator) -> ParticleBelief:
        assert key is not None
        never = jnp.zeros((), jnp.int32)
        draw, apart = jax.random.split(key)
        reserve = jax.vmap(model.initial)(jax.random.split(apart, -(-self.count // RESERVE)))
        if self.proposal != "bootstrap" and model.lists_starts:
            states, weights = model.starts()
            chosen, weights = systematic(draw, weights, _threshold(weights, self.count), self.count)
            return ParticleBelief(jax.tree.map(lambda leaf: leaf[chosen], states), weights, never, reserve)
        states = jax.vmap(model.initial)(jax.random.split(draw, self.count))
        return ParticleBelief(states, self._even(model), never, reserve)

    def _even(self, model: Simulator) -> Array:
        return jnp.full(self.count, 1 / self.count, jnp.result_type(model.discount, jnp.float32))

    def predict(self, key: Array | None, model: Simulator, belief: ParticleBelief, action: Array) -> Proposed:
        assert key is not None
        if self.proposal == "bootstrap":
            choose, move = jax.random.split(key)
            states, weights = self._resampled(choose, belief)
            keys = jax.random.split(move, self.count)
            states, _, _ = jax.vmap(model.step, in_axes=(0, 0, None))(keys, states, action)
            return Proposed(states, weights, belief.depleted, belief.reserve)
        states, probability = jax.vmap(model.successors, in_axes=(0, None))(belief.states, action)
        weights = (belief.weights[:, None] * probability.astype(belief.weights.dtype)).reshape(-1)
        states = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
        if self.proposal == "merged":
            states, weights = merged_states(model, states, weights)
        return Proposed(states, weights, belief.depleted, belief.reserve)

    def _resampled(self, key: Array, belief: ParticleBelief) -> tuple[State, Array]:
        """The particles as they are, or ancestors drawn from them with even weights where few are effective."""
        weights = belief.weights
        few = effective_size(weights) < self.resample_below * self.count
        chosen, drawn = systematic(key, weights, _proportional(weights, self.count), self.count)
        own = jnp.arange(self.count, dtype=chosen.dtype)
        place = jnp.where(few, chosen, own)
        return jax.tree.map(lambda leaf: leaf[place], belief.states), jnp.where(few, drawn, weights)

    def weigh(
        self, key: Array | None, model: Simulator, predicted: Proposed, action: Array, observation: Any
    ) -> tuple[ParticleBelief, Array, Diagnostics]:
        assert key is not None
        weights, evidence = _weighed(model, predicted.states, predicted.weights, action, observation)
        alive = evidence > 0
        kept = jnp.where(alive, weights / jnp.where(alive, evidence, 1), predicted.weights)
        states = predicted.states
        if self.proposal != "bootstrap":
            chosen, kept = systematic(key, kept, _threshold(kept, self.count), self.count)
            states = jax.tree.map(lambda leaf: leaf[chosen], states)
            kept = kept / jax.lax.stop_gradient(jnp.sum(kept))
        fresh, new_weights = self._redrawn(model, predicted.reserve, action, observation)
        found = jnp.sum(new_weights) > 0
        use = ~alive & found
        states = jax.tree.map(lambda new, old: jnp.where(use, new, old), fresh, states)
        kept = jnp.where(use, new_weights, kept)
        depleted = predicted.depleted + (~alive).astype(jnp.int32)
        log_evidence = jnp.where(alive, jnp.log(jnp.where(alive, evidence, 1)), jnp.log(self.floor))
        dropped = (~alive).astype(kept.dtype)
        unknown_error = jnp.full((), jnp.finfo(kept.dtype).max / 4, kept.dtype)
        diagnostics = Diagnostics(dropped, unknown_error, effective_size(kept))
        return ParticleBelief(states, kept, depleted, predicted.reserve), log_evidence, diagnostics

    def _redrawn(
        self, model: Simulator, reserve: State, action: Array, observation: Any
    ) -> tuple[State, Array]:
        """Start states [P, ...] with weights of sum 1 by the observation; all 0 where none explains it."""
        place = jnp.arange(self.count, dtype=jnp.int32) % -(-self.count // RESERVE)
        even = jnp.full(-(-self.count // RESERVE), 1 / self.count, self._even(model).dtype)
        weights = _weighed(model, reserve, even, action, observation)[0][place]
        total = jnp.sum(weights)
        states = jax.tree.map(lambda leaf: leaf[place], reserve)
        return states, jax.lax.stop_gradient(weights / jnp.where(total > 0, total, 1))

    def expectation(self, belief: ParticleBelief, values: Array) -> Array:
        """sum_i w_i values(..., x_i), where states are numbers."""
        return values @ self.dense(belief, values.shape[-1])

    def mode(self, belief: ParticleBelief) -> State:
        """The heaviest particle."""
        best = jnp.argmax(belief.weights)
        return jax.tree.map(lambda leaf: leaf[best], belief.states)

    def sample(self, key: Array, belief: ParticleBelief) -> State:
        place = jax.random.categorical(key, jnp.log(belief.weights))
        return jax.tree.map(lambda leaf: leaf[place], belief.states)

    def dense(self, belief: ParticleBelief, num_states: int) -> Array:
        empty = jnp.zeros(num_states, belief.weights.dtype)
        return empty.at[belief.states].add(belief.weights)


def effective_size(weights: Array) -> Array:
    """1 / sum_i w_i^2 for weights [P] of sum 1: []."""
    return 1 / jnp.maximum(jnp.sum(weights**2), jnp.finfo(weights.dtype).tiny)


def systematic(key: Array, weights: Array, rates: Array, count: int) -> tuple[Array, Array]:
    """`count` places of candidates [M] that are taken `rates` [M] times on average, and the weights of the copies.

    One uniform number places `count` marks at distance 1 along the cumulated rates. Where the rates sum to less than
    `count`, the last places are not used: weight 0.
    """
    rates = jax.lax.stop_gradient(rates)
    reach = jnp.cumsum(rates)
    marks = jnp.arange(count, dtype=rates.dtype) + jax.random.uniform(key, (), rates.dtype)
    used = marks < reach[-1]
    chosen = jnp.minimum(jnp.searchsorted(reach, marks, side="right"), rates.shape[0] - 1)
    rate = rates[chosen]
    used = used & (rate > 0)
    return chosen, jnp.where(used, weights[chosen] / jnp.where(used, rate, 1), 0)


def _proportional(weights: Array, count: int) -> Array:
    """Rates [M] in proportion to the weights, of sum `count`."""
    total = jnp.sum(weights)
    exact = weights / jnp.where(total > 0, total, 1) * count
    return jax.lax.stop_gradient(exact)


def _threshold(weights: Array, count: int) -> Array:
    """min(1, w / c) [M], with c such that they sum to `count`; 1 for all positive weights if there are not so many."""
    weights = jax.lax.stop_gradient(weights)
    positive = weights > 0
    fits = jnp.sum(positive) <= count

    def lower(_: int, limit: Array) -> Array:
        light = weights < limit
        heavy = jnp.sum(~light)
        rest = jnp.sum(jnp.where(light, weights, 0))
        return jnp.where(heavy < count, rest / jnp.maximum(count - heavy, 1).astype(weights.dtype), limit)

    limit = jax.lax.fori_loop(0, ROUNDS, lower, jnp.sum(weights) / count)
    shared = jnp.minimum(1, weights / jnp.where(limit > 0, limit, 1))
    return jnp.where(fits, positive.astype(weights.dtype), jnp.where(positive, shared, 0))


def merged_states(model: Simulator, states: State, weights: Array) -> tuple[State, Array]:
    """The same states [M, ...] sorted by code, each with all of its weight in its first place."""
    codes = jax.vmap(model.code)(states)
    codes = jnp.where(weights > 0, codes, jnp.iinfo(codes.dtype).max)
    order = jnp.argsort(codes)
    codes, weights = codes[order], weights[order]
    first = jnp.concatenate([jnp.ones(1, bool), codes[1:] != codes[:-1]])
    place = jnp.cumsum(first, dtype=jnp.int32) - 1
    sums = jax.ops.segment_sum(weights, place, weights.shape[0], indices_are_sorted=True)
    states = jax.tree.map(lambda leaf: leaf[order], states)
    return states, jnp.where(first, sums[place], 0)


def _weighed(
    model: Simulator, states: State, weights: Array, action: Array, observation: Any
) -> tuple[Array, Array]:
    """Weights [M] times the likelihood of the observation, 0 in final states, and their sum []."""

    def of_state(state: State) -> Array:
        log_likelihood = model.log_observation(state, action, observation)
        return jnp.where(model.final(state), -jnp.inf, log_likelihood)

    logs = jax.vmap(of_state)(states)
    possible = (logs > -jnp.inf) & (weights > 0)
    product = jnp.where(possible, weights * jnp.exp(jnp.where(possible, logs, 0)).astype(weights.dtype), 0)
    return product, jnp.sum(product)
