"""A dense belief until all but `epsilon` of it fits a list of states, then the list; dense again when it overflows.

A step drops at most `epsilon`: a list whose next step would drop more is written out as a dense belief first. The two
forms are branches of `jax.lax.cond`, of which one belief at a time runs one; under `vmap` both would run, so K models
and N trials take turns (`branches`).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.beliefs.belief_protocol import Diagnostics, Representation, after_dropping, after_weighing
from jatpo.beliefs.dense_belief import Dense
from jatpo.beliefs.support_belief import Support, SupportBelief, lists_needed
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.pytree import pytree

THRESHOLDS = 8  # weights below which states are tried to be dropped, each four times the one before


@pytree
@dataclass(frozen=True)
class CompactingBelief:
    """Both forms, of which `listed` says which one counts; the other is empty."""

    full: Array  # [X]
    support: SupportBelief
    listed: Array  # [] bool


@dataclass(frozen=True)
class Compacting(Representation):
    """Lists of up to `capacity` states as soon as they hold all but `epsilon` of the probability."""

    capacity: int
    epsilon: float = 1e-6

    branches = True

    @property
    def _listed(self) -> Support:
        return Support(self.capacity)

    def start(self, key: Array | None, model: POMDP) -> CompactingBelief:
        del key
        nothing = jnp.zeros((), model.initial.dtype)
        return self._settled(model.initial, nothing)[0]

    def predict(
        self, key: Array | None, model: POMDP, belief: CompactingBelief, action: Array
    ) -> CompactingBelief:
        del key
        wide = jax.eval_shape(lambda own: self._listed.predict(None, model, own, action), belief.support)

        def by_list() -> CompactingBelief:
            moved = self._listed.predict(None, model, belief.support, action)
            return CompactingBelief(belief.full, moved, belief.listed)

        def by_state() -> CompactingBelief:
            moved = Dense().predict(None, model, belief.full, action)
            unused = _empty(wide.states.shape[0], model.num_states, belief.support.missing)
            return CompactingBelief(moved, unused, belief.listed)

        return jax.lax.cond(belief.listed, by_list, by_state)

    def weigh(
        self, key: Array | None, model: POMDP, predicted: CompactingBelief, action: Array, observation: Array
    ) -> tuple[CompactingBelief, Array, Diagnostics]:
        del key

        def by_list() -> tuple[CompactingBelief, Array, Array]:
            whole, log_evidence = self._listed.weigh_all(model, predicted.support, action, observation)
            kept, dropped = self._listed.shortened(whole, model.num_states)

            def written_out() -> tuple[CompactingBelief, Array]:
                full = self._listed.dense(whole, model.num_states)
                unused = _empty(self.capacity, model.num_states, whole.missing)
                return CompactingBelief(full, unused, jnp.zeros((), bool)), jnp.zeros_like(dropped)

            def listed() -> tuple[CompactingBelief, Array]:
                return CompactingBelief(jnp.zeros_like(predicted.full), kept, jnp.ones((), bool)), dropped

            belief, lost = jax.lax.cond(dropped > self.epsilon, written_out, listed)
            return belief, log_evidence, lost

        def by_state() -> tuple[CompactingBelief, Array, Array]:
            full, log_evidence, _ = Dense().weigh(None, model, predicted.full, action, observation)
            evidence = jnp.where(log_evidence > -jnp.inf, jnp.exp(log_evidence), 0)
            highest = model.observation.highest_likelihood(action, observation)
            missing = after_weighing(predicted.support.missing, evidence, highest)
            belief, dropped = self._settled(full, missing)
            return belief, log_evidence, dropped

        belief, log_evidence, dropped = jax.lax.cond(predicted.listed, by_list, by_state)
        found = Diagnostics(dropped, belief.support.missing, self.size(belief))
        return belief, log_evidence + jnp.log1p(-dropped), found

    def missing(self, belief: CompactingBelief) -> Array:
        return belief.support.missing

    def refuses(self, library: Library) -> str | None:
        return lists_needed(self, library)

    def size(self, belief: CompactingBelief) -> Array:
        dtype = belief.full.dtype
        return jax.lax.cond(
            belief.listed,
            lambda: belief.support.count.astype(dtype),
            lambda: jnp.sum(belief.full > 0).astype(dtype),
        )

    def _settled(self, full: Array, missing: Array) -> tuple[CompactingBelief, Array]:
        """A dense belief [X], as a list if that fits, and the share that is dropped."""
        num_states = full.shape[0]
        limits = self.epsilon / num_states * 4.0 ** jnp.arange(THRESHOLDS, dtype=full.dtype)
        limits = jnp.concatenate([jnp.zeros(1, full.dtype), limits])

        def tried(limit: Array) -> tuple[Array, Array]:
            heavy = full > limit
            return jnp.sum(heavy, dtype=jnp.int32), jnp.sum(jnp.where(heavy, 0, full))

        counts, lost = jax.lax.map(tried, limits)
        fits = (counts <= self.capacity) & (lost <= self.epsilon)
        limit = limits[jnp.argmax(fits)]  # the lowest that fits drops least

        def as_list() -> tuple[CompactingBelief, Array]:
            own, dropped = self._gathered(full, full > limit, missing)
            return CompactingBelief(jnp.zeros_like(full), own, jnp.ones((), bool)), dropped

        def as_it_is() -> tuple[CompactingBelief, Array]:
            unused = _empty(self.capacity, num_states, missing)
            return CompactingBelief(full, unused, jnp.zeros((), bool)), jnp.zeros_like(missing)

        return jax.lax.cond(jnp.any(fits), as_list, as_it_is)

    def _gathered(self, full: Array, heavy: Array, missing: Array) -> tuple[SupportBelief, Array]:
        """The `heavy` states [X], of which there are no more than the capacity, as a list."""
        num_states = full.shape[0]
        states = jnp.nonzero(heavy, size=self.capacity, fill_value=num_states)[0].astype(jnp.int32)
        weights = jnp.take(full, states, mode="fill", fill_value=0)
        dropped = jnp.sum(jnp.where(heavy, 0, full)) / jnp.sum(full)
        weights = jnp.where(dropped > 0, weights / jnp.sum(weights), weights)
        count = jnp.sum(heavy, dtype=jnp.int32)
        return SupportBelief(states, weights, count, after_dropping(missing, dropped)), dropped

    def expectation(self, belief: CompactingBelief, values: Array) -> Array:
        return jax.lax.cond(
            belief.listed,
            lambda: self._listed.expectation(belief.support, values),
            lambda: values @ belief.full,
        )

    def mode(self, belief: CompactingBelief) -> Array:
        return jnp.where(belief.listed, self._listed.mode(belief.support), Dense().mode(belief.full))

    def sample(self, key: Array, belief: CompactingBelief) -> Array:
        return jax.lax.cond(
            belief.listed,
            lambda: self._listed.sample(key, belief.support),
            lambda: Dense().sample(key, belief.full),
        )

    def dense(self, belief: CompactingBelief, num_states: int) -> Array:
        return jnp.where(belief.listed, self._listed.dense(belief.support, num_states), belief.full)


def _empty(places: int, num_states: int, missing: Array) -> SupportBelief:
    """A list of nothing that carries `missing` along."""
    weights = jnp.zeros(places, missing.dtype)
    return SupportBelief(jnp.full(places, num_states, jnp.int32), weights, jnp.zeros((), jnp.int32), missing)
