"""Particle beliefs: weighted states of a simulator, with an unbiased estimate of the evidence.

    bootstrap   resample ancestors where few carry the weight, move each by itself, weigh by O(z | y, a)
    adapted     list the successors y of every particle, weigh them by w P(y | x, a) O(z | y, a), keep `count` of them
    merged      as adapted, with equal states added up before the choice

The last two need `successors`, the last one `code` as well. Candidate i with weight q_i is kept r_i times on average,
and each copy has the weight q_i / r_i, so every weight keeps its expectation and the product of the evidences is an
unbiased estimate of the probability of all observations (Del Moral, 2004). Bootstrap particles have r_i in proportion
to q_i, the others r_i = min(1, q_i / c) with c such that the r_i sum to `count` (Fearnhead and Clifford, 2003): heavy
candidates are kept as they are.

The first observation is answered by `opening` times as many candidates: start states, moved by the first action and
weighed, of which `count` are kept. Adapted and merged particles take all start states where these are listed (`starts`)
and not more than that. Otherwise they are drawn: by `guided_start` where it is written, else from the list, else by
`initial`. Without noise in the moves, nothing after that step can make up for a start state that is missing. With all
start states listed and no more than `count` states with weight, merged particles are the exact filter.

When no particle explains an observation, the model is depleted. Its particles are drawn anew as for a first
observation, from `count` candidates only: under `vmap` all trials pay where one has to draw anew, and models that are
false die often. The log evidence is then that of the new particles plus the log of `floor`: a stated number instead of
a zero that sampling has made. Where the new ones explain nothing either, they stay as predicted and the log evidence is
log `floor`. After a depletion the evidence is no longer unbiased; `dropped` is 1 in that step, and the belief counts
it.

Gradients: rates r_i are constants, weights q_i are not, so that the gradient of the evidence Z is an unbiased estimate
of that of the probability (Ścibior and Wood, 2021) for parameters that act through `log_observation`, and with
opening=0 and adapted or merged particles through the probabilities of `successors`. log Z and its gradient have a bias
of order 1 / count. Bootstrap moves have no gradient in the parameters of `step`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.beliefs import Diagnostics, Representation
from jatpo.errors import JatpoError, unknown
from jatpo.pytree import pytree
from jatpo.simulators.particle_choice import (
    effective_size,
    merged_states,
    proportional,
    systematic,
    threshold,
    weighed,
)
from jatpo.simulators.simulator_protocol import Simulator, State

PROPOSALS = ("bootstrap", "adapted", "merged")


@pytree
@dataclass(frozen=True)
class ParticleBelief:
    """States with weights; a weight of 0 marks a place that is not used."""

    states: State  # [P, ...]
    weights: Array  # [P], of sum 1
    depleted: Array  # [] int32, how often all particles died
    unseen: Array  # [] bool, whether nothing has been observed yet


@pytree
@dataclass(frozen=True)
class Proposed:
    """Candidates before the observation; M is P, or P·S where successors are listed."""

    states: State  # [M, ...]
    weights: Array  # [M]
    depleted: Array
    unseen: Array


@dataclass(frozen=True)
class Particles(Representation):
    """`count` particles. `resample_below`: the share of effective particles below which bootstrap resamples."""

    count: int
    proposal: str = "bootstrap"
    resample_below: float = 0.5
    floor: float = 1e-6
    opening: int = (
        16  # candidates for each particle at the first observation; 0: none but the particles themselves
    )

    of_tables = False

    def __post_init__(self) -> None:
        if self.proposal not in PROPOSALS:
            raise unknown("proposal", self.proposal, PROPOSALS)
        for name, least in (("count", 1), ("opening", 0)):
            if getattr(self, name) < least:
                raise JatpoError(f"{name} of Particles must be at least {least}, got {getattr(self, name)}")

    def start(self, key: Array | None, model: Simulator) -> ParticleBelief:
        assert key is not None
        nothing = jnp.zeros((), jnp.int32), jnp.ones((), bool)
        if self.proposal != "bootstrap" and model.lists_starts:
            states, weights = model.starts()
            chosen, weights = systematic(key, weights, threshold(weights, self.count), self.count)
            return ParticleBelief(jax.tree.map(lambda leaf: leaf[chosen], states), weights, *nothing)
        return ParticleBelief(*self._drawn_starts(key, model, self.count), *nothing)

    def predict(self, key: Array | None, model: Simulator, belief: ParticleBelief, action: Array) -> Proposed:
        assert key is not None
        if self.proposal == "bootstrap":
            choose, move = jax.random.split(key)
            states, weights = self._resampled(choose, belief)
            states = _moved(move, model, states, action)
            return Proposed(states, weights, belief.depleted, belief.unseen)
        states, weights = _listed(model, belief.states, belief.weights, action)
        if self.proposal == "merged":
            states, weights = merged_states(model, states, weights)
        return Proposed(states, weights, belief.depleted, belief.unseen)

    def _resampled(self, key: Array, belief: ParticleBelief) -> tuple[State, Array]:
        """The particles as they are, or ancestors drawn from them with even weights where few are effective."""
        weights = belief.weights
        few = effective_size(weights) < self.resample_below * self.count
        chosen, drawn = systematic(key, weights, proportional(weights, self.count), self.count)
        own = jnp.arange(self.count, dtype=chosen.dtype)
        place = jnp.where(few, chosen, own)
        return jax.tree.map(lambda leaf: leaf[place], belief.states), jnp.where(few, drawn, weights)

    def weigh(
        self, key: Array | None, model: Simulator, predicted: Proposed, action: Array, observation: Any
    ) -> tuple[ParticleBelief, Array, Diagnostics]:
        assert key is not None
        choose, first, again = jax.random.split(key, 3)
        if self.opening:
            seen = predicted.unseen, action, observation
            predicted = self._opened(first, model, predicted, *seen, before=True)[0]
        weights, log_evidence = weighed(model, predicted.states, predicted.weights, action, observation)
        alive = log_evidence > -jnp.inf
        kept = jnp.where(alive, weights, predicted.weights)
        states = predicted.states
        if self.proposal != "bootstrap":
            chosen, kept = systematic(choose, kept, threshold(kept, self.count), self.count)
            states = jax.tree.map(lambda leaf: leaf[chosen], states)
            kept = kept / jax.lax.stop_gradient(jnp.sum(kept))
        depleted = predicted.depleted + (~alive).astype(jnp.int32)
        belief = ParticleBelief(states, kept, depleted, jnp.zeros((), bool))
        belief, anew = self._opened(again, model, belief, ~alive, action, observation, before=False)
        floor = jnp.log(jnp.asarray(self.floor, anew.dtype))
        log_evidence = jnp.where(alive, log_evidence, floor + jnp.where(anew > -jnp.inf, anew, 0))
        dropped = (~alive).astype(kept.dtype)
        unknown_error = jnp.full((), jnp.finfo(kept.dtype).max / 4, kept.dtype)
        return belief, log_evidence, Diagnostics(dropped, unknown_error, effective_size(belief.weights))

    def _opened(
        self,
        key: Array,
        model: Simulator,
        now: Any,
        wanted: Array,
        action: Array,
        observation: Any,
        *,
        before: bool,
    ) -> tuple[Any, Array]:
        """`now` with new particles where it is `wanted` [] and these explain the observation; their log evidence [].

        Their weights are those before the observation, or after it. A loop of no or one turn: under `vmap`,
        unlike `cond`, it costs nothing in steps in which no trial wants it.
        """
        given = jax.lax.stop_gradient((model, now.states, now.weights, action, observation))

        def turn(carry: tuple[Array, State, Array, Array]) -> tuple[Array, State, Array, Array]:
            _, old, old_weights, _ = carry
            most = max(self.opening, 1) * self.count if before else self.count
            states, prior, after, log_evidence = self._anew(key, given[0], given[3], given[4], most)
            unused = old_weights.shape[0] - self.count
            weights = jnp.pad(prior if before else after, (0, unused))
            states = jax.tree.map(lambda new, all: all.at[: self.count].set(new), states, old)
            found = log_evidence > -jnp.inf
            keep = jax.tree.map(
                lambda new, all: jnp.where(found, new, all), (states, weights), (old, old_weights)
            )
            return (jnp.zeros((), bool), *keep, log_evidence)

        nothing = jnp.full((), -jnp.inf, now.weights.dtype)
        _, states, weights, log_evidence = jax.lax.while_loop(
            lambda carry: carry[0], turn, (wanted, given[1], given[2], nothing)
        )
        chosen = jax.tree.map(
            lambda new, old: jnp.where(wanted, new, old), (states, weights), (now.states, now.weights)
        )
        return replace(now, states=chosen[0], weights=chosen[1]), log_evidence

    def _anew(
        self, key: Array, model: Simulator, action: Array, observation: Any, most: int
    ) -> tuple[State, Array, Array, Array]:
        """Particles [P, ...] after a first step, their weights before and after what is seen, the log evidence []."""
        draw, move, choose = jax.random.split(key, 3)
        states, weights, all_of_them = self._starts(draw, model, action, observation, most)
        states = jax.lax.optimization_barrier(
            states
        )  # what all start states share is not folded for every candidate
        if all_of_them:
            states, weights = _listed(model, states, weights, action)
        else:
            states = _moved(move, model, states, action)
        if self.proposal == "merged":
            states, weights = merged_states(model, states, weights)
        after, log_evidence = weighed(model, states, weights, action, observation)
        rates = (
            proportional(after, self.count) if self.proposal == "bootstrap" else threshold(after, self.count)
        )
        chosen, kept = systematic(choose, after, rates, self.count)
        prior = jnp.where(kept > 0, weights[chosen] / jnp.where(kept > 0, rates[chosen], 1), 0)
        return jax.tree.map(lambda leaf: leaf[chosen], states), prior, kept / jnp.sum(kept), log_evidence

    def _starts(
        self, key: Array, model: Simulator, action: Array, observation: Any, most: int
    ) -> tuple[State, Array, bool]:
        """At most `most` start states for a first observation, their weights, and whether these are all."""
        if self.proposal != "bootstrap" and model.lists_starts:
            states, weights = model.starts()
            if weights.shape[0] <= most:
                return states, weights, True
        if not model.guides_starts:
            return *self._drawn_starts(key, model, most), False
        keys = jax.random.split(key, most)
        even = jnp.full(most, 1 / most, _dtype(model))
        guided = jax.vmap(model.guided_start, in_axes=(0, None, None))
        states, logs = guided(keys, action, observation)
        return states, even * jnp.exp(logs).astype(even.dtype), False

    def _drawn_starts(self, key: Array, model: Simulator, count: int) -> tuple[State, Array]:
        """`count` start states with even weights: by systematic sampling where they are listed, else one by one."""
        even = jnp.full(count, 1 / count, _dtype(model))
        if not model.lists_starts:
            return jax.vmap(model.initial)(jax.random.split(key, count)), even
        states, weights = model.starts()
        chosen, _ = systematic(key, weights, proportional(weights, count), count)
        return jax.tree.map(lambda leaf: leaf[chosen], states), even

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


def _dtype(model: Simulator) -> Any:
    return jnp.result_type(model.discount, jnp.float32)


def _moved(key: Array, model: Simulator, states: State, action: Array) -> State:
    """One step of every state [M, ...]."""
    count = jax.tree.leaves(states)[0].shape[0]
    return jax.vmap(model.step, in_axes=(0, 0, None))(jax.random.split(key, count), states, action)[0]


def _listed(model: Simulator, states: State, weights: Array, action: Array) -> tuple[State, Array]:
    """All successors [M·S, ...] of states [M, ...], with weights."""
    following, probability = jax.vmap(model.successors, in_axes=(0, None))(states, action)
    weights = (weights[:, None] * probability.astype(weights.dtype)).reshape(-1)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), following), weights
