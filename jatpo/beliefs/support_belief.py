"""A belief as the sorted numbers of the states that have weight: a capacity, a count, and what did not fit.

A prediction follows the successor lists of the C listed states, S each, sorts the C·S arrivals by state and adds up
those that are equal. After the observation the C heaviest stay. Nothing of the size of the state space is made.

Unused places have the number X, which is no state, and weight 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import Array

from jatpo import filter
from jatpo.beliefs.belief_protocol import (
    Diagnostics,
    Representation,
    after_dropping,
    after_weighing,
    systematic,
)
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.pytree import pytree
from jatpo.storage import pick

GATHERED = 1 << 22  # numbers that are gathered at once for expectations


@pytree
@dataclass(frozen=True)
class SupportBelief:
    """States in ascending order and their weights, which sum to 1."""

    states: Array  # [C] int32, X where there is none
    weights: Array  # [C]
    count: Array  # [] int32, places in use
    missing: Array  # [], see `jatpo.beliefs.belief_protocol`


@dataclass(frozen=True)
class Support(Representation):
    """Up to `capacity` states. With fewer reachable states than that it is exact."""

    capacity: int

    def start(self, key: Array | None, model: POMDP) -> SupportBelief:
        del key
        nothing = jnp.zeros((), model.initial.dtype)
        return self.compact(model.initial, nothing)[0]

    def compact(self, weights: Array, missing: Array) -> tuple[SupportBelief, Array]:
        """The heaviest states of a distribution [X] and the share that is dropped."""
        num_states = weights.shape[0]
        every = jnp.arange(num_states, dtype=jnp.int32)
        return self._heaviest(every, weights, missing, num_states)

    def predict(self, key: Array | None, model: POMDP, belief: SupportBelief, action: Array) -> SupportBelief:
        del key
        known = jnp.minimum(belief.states, model.num_states - 1)
        states, probability = model.transition.successors(known, action)  # [C, S]
        weights = (belief.weights[:, None] * probability).reshape(-1)
        states = jnp.where(weights > 0, states.reshape(-1), model.num_states)
        states, weights, count = merge(states, weights, model.num_states)
        return replace(belief, states=states, weights=weights, count=count)

    def weigh(
        self, key: Array | None, model: POMDP, predicted: SupportBelief, action: Array, observation: Array
    ) -> tuple[SupportBelief, Array, Diagnostics]:
        del key
        whole, log_evidence = self.weigh_all(model, predicted, action, observation)
        belief, dropped = self.shortened(whole, model.num_states)
        found = Diagnostics(dropped, belief.missing, self.size(belief))
        return belief, log_evidence + jnp.log1p(-dropped), found

    def weigh_all(
        self, model: POMDP, predicted: SupportBelief, action: Array, observation: Array
    ) -> tuple[SupportBelief, Array]:
        """`weigh` without dropping anything: as many places as `predicted` has."""
        states = jnp.minimum(predicted.states, model.num_states - 1)
        weights = model.observation.likelihood_at(states, action, observation)
        beliefs, log_evidence = filter.condition(predicted.weights[:, None], weights[:, None])[:2]
        evidence = jnp.where(log_evidence[0] > -jnp.inf, jnp.exp(log_evidence[0]), 0)
        highest = model.observation.highest_likelihood(action, observation)
        missing = after_weighing(predicted.missing, evidence, highest)
        return replace(predicted, weights=beliefs[:, 0], missing=missing), log_evidence[0]

    def shortened(self, belief: SupportBelief, num_states: int) -> tuple[SupportBelief, Array]:
        """A belief of any number of places in `capacity` of them, and the share that is dropped."""
        return self._heaviest(belief.states, belief.weights, belief.missing, num_states)

    def _heaviest(
        self, states: Array, weights: Array, missing: Array, num_states: int
    ) -> tuple[SupportBelief, Array]:
        """The `capacity` heaviest of sorted states, sorted, with weights that sum to 1; and the dropped share."""
        places = min(self.capacity, states.shape[0])
        kept = jnp.sort(jax.lax.top_k(weights, places)[1])
        states, chosen = states[kept], weights[kept]
        total, everything = jnp.sum(chosen), jnp.sum(weights)
        lost = jnp.sum(
            weights.at[kept].set(0)
        )  # 0 if nothing is left over, which a difference of sums is not
        chosen = jnp.where(lost > 0, chosen * (everything / total), chosen)
        states = jnp.where(chosen > 0, states, num_states)
        order = jnp.argsort(states)  # states without weight go to the end
        states, chosen = (
            jnp.pad(part[order], (0, self.capacity - places), constant_values=fill)
            for part, fill in ((states, num_states), (chosen, 0))
        )
        dropped = lost / everything
        count = jnp.sum(chosen > 0, dtype=jnp.int32)
        return SupportBelief(states, chosen, count, after_dropping(missing, dropped)), dropped

    def expectation(self, belief: SupportBelief, values: Array) -> Array:
        own = jnp.take(values, belief.states, axis=-1, mode="clip")
        return jnp.where(belief.weights > 0, own, 0) @ belief.weights

    def mode(self, belief: SupportBelief) -> Array:
        return belief.states[jnp.argmax(belief.weights)]

    def likeliest(self, belief: SupportBelief, among: Array) -> Array:
        counts = jnp.take(among, belief.states, mode="clip") & (belief.weights > 0)
        place = jnp.argmax(jnp.where(counts, belief.weights, -1))
        return jnp.where(jnp.any(counts), belief.states[place], 0)

    def sample(self, key: Array, belief: SupportBelief) -> Array:
        return belief.states[pick(jax.random.uniform(key, (), belief.weights.dtype), belief.weights)]

    def dense(self, belief: SupportBelief, num_states: int) -> Array:
        empty = jnp.zeros(num_states, belief.weights.dtype)
        return empty.at[belief.states].add(belief.weights, mode="drop")

    def listed(
        self, uniform: Array, belief: SupportBelief, num_states: int, count: int
    ) -> tuple[Array, Array]:
        drawn, weights = systematic(uniform, belief.weights, count)
        return jnp.minimum(belief.states[drawn], num_states - 1), weights

    def expectation_columns(self, beliefs: SupportBelief, values: Array) -> Array:
        """A few trials at a time: each gathers C columns of `values`."""
        together = max(GATHERED // max(values.size // values.shape[-1] * self.capacity, 1), 1)
        rows = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), beliefs)
        found = jax.lax.map(lambda own: self.expectation(own, values), rows, batch_size=together)
        return jnp.moveaxis(found, 0, -1)

    def size(self, belief: SupportBelief) -> Array:
        return belief.count.astype(belief.weights.dtype)

    def missing(self, belief: SupportBelief) -> Array:
        return belief.missing

    def refuses(self, library: Library) -> str | None:
        return lists_needed(self, library)


def lists_needed(representation: Representation, library: Library) -> str | None:
    """Why a list of states cannot be moved in a library, or None."""
    if library.models.transition.lists_successors:
        return None
    kept = f"{library.name} has storage '{library.models.storage}'"
    return f"belief={representation!r} needs lists of successors, and {kept}: build it with storage='blocked'"


def merge(states: Array, weights: Array, num_states: int) -> tuple[Array, Array, Array]:
    """Sorted states [M], each once with the sum of its weights, and how many there are; `num_states` is no state."""
    states, weights = jax.lax.sort((states, weights), num_keys=1)
    before = jnp.concatenate([jnp.full(1, -1, states.dtype), states[:-1]])
    place = jnp.cumsum(states != before, dtype=jnp.int32) - 1
    sums = jax.ops.segment_sum(weights, place, states.shape[0], indices_are_sorted=True)
    empty = jnp.full(states.shape, num_states, states.dtype)
    return empty.at[place].set(states), sums, jnp.sum(sums > 0, dtype=jnp.int32)
