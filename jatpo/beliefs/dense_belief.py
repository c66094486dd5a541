"""A belief as the probability of every state [X]: exact, and the filter of `jatpo.filter`."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from jatpo import filter
from jatpo.beliefs.belief_protocol import Diagnostics, Representation, first_largest
from jatpo.model import POMDP
from jatpo.storage import pick


@dataclass(frozen=True)
class Dense(Representation):
    """The probability of every state."""

    plain = True

    def start(self, key: Array | None, model: POMDP) -> Array:
        del key
        return model.initial

    def predict(self, key: Array | None, model: POMDP, belief: Array, action: Array) -> Array:
        del key
        return model.transition.predict(belief, action)

    def weigh(
        self, key: Array | None, model: POMDP, predicted: Array, action: Array, observation: Array
    ) -> tuple[Array, Array, Diagnostics]:
        del key
        weights = model.observation.likelihood(action, observation)
        beliefs, log_evidence = filter.condition(predicted[:, None], weights[:, None])[:2]
        nothing = jnp.zeros((), predicted.dtype)
        return beliefs[:, 0], log_evidence[0], Diagnostics(nothing, nothing, self.size(beliefs[:, 0]))

    def expectation(self, belief: Array, values: Array) -> Array:
        return values @ belief

    def mode(self, belief: Array) -> Array:
        return first_largest(belief)

    def sample(self, key: Array, belief: Array) -> Array:
        return pick(jax.random.uniform(key, (), belief.dtype), belief)

    def size(self, belief: Array) -> Array:
        return jnp.sum(belief > 0).astype(belief.dtype)

    def dense(self, belief: Array, num_states: int) -> Array:
        del num_states
        return belief

    def update_columns(
        self, keys: Array | None, model: POMDP, beliefs: Array, actions: Array, observations: Array
    ) -> tuple[Array, Array, Diagnostics]:
        del keys
        after, log_evidence = filter.update_columns(model, beliefs, actions, observations)
        nothing = jnp.zeros_like(log_evidence)
        size = jnp.sum(after > 0, axis=0).astype(after.dtype)
        return after, log_evidence, Diagnostics(nothing, nothing, size)

    def expectation_columns(self, beliefs: Array, values: Array) -> Array:
        return values @ beliefs

    def dense_columns(self, beliefs: Array, num_states: int) -> Array:
        del num_states
        return beliefs
