"""Dense storage: P[a, x, y] and O[a, y, z] as they stand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import memory
from jatpo.pytree import pytree
from jatpo.storage.kernel_protocol import (
    Observation,
    Sizes,
    Transition,
    device_array,
    merged,
    nonzeros,
    pick,
    select,
)
from jatpo.validate import Coordinates


@pytree
@dataclass(frozen=True)
class DenseTransition(Transition):
    """P[a, x, y]."""

    probability: Array  # [A, X, X]

    @classmethod
    def build(cls, coordinates: Coordinates, sizes: Sizes, dtype: np.dtype) -> DenseTransition:
        actions, states, symbols = sizes
        what = f"dense storage of {states} states, {actions} actions and {symbols} observations"
        size = memory.dense_bytes(states, actions, symbols, dtype.itemsize)
        memory.require(size, what, "use storage='blocked'")
        return cls(_filled(coordinates, (actions, states, states), dtype))

    @property
    def num_actions(self) -> int:
        return self.probability.shape[-3]

    @property
    def num_states(self) -> int:
        return self.probability.shape[-1]

    def predict(self, belief: Array, action: Array) -> Array:
        return belief @ self.probability[action]

    def predict_columns(self, beliefs: Array, actions: Array) -> Array:
        """Every action for all columns, of which each keeps its own: whole matrix products.

        The loop over actions is one of XLA, which compiles faster than as many copies of its body.
        """

        def of_action(action: Array, arriving: Array) -> Array:
            predicted = jnp.einsum("xy,xb->yb", self.probability[action], beliefs)
            return arriving + jnp.where((actions == action)[None, :], predicted, 0)

        return jax.lax.fori_loop(0, self.num_actions, of_action, jnp.zeros_like(beliefs))

    def predict_all(self, beliefs: Array) -> Array:
        return jnp.einsum("axy,xb->ayb", self.probability, beliefs)

    def expect(self, values: Array) -> Array:
        return jnp.einsum("axy,y->xa", self.probability, values)

    def expect_columns(self, values: Array, actions: Array) -> Array:
        return select(self.probability @ values, actions)

    def row(self, state: Array, action: Array) -> Array:
        return self.probability[action, state]

    def probability_of(self, state: Array, action: Array, arrived: Array) -> Array:
        return self.probability[action, state, arrived]

    def informed_sums(self, rows: Array, action: Array, vectors: Array) -> Array:
        after = jnp.einsum("xy,yz,vy->xzv", self.probability[action], rows, vectors)
        return jnp.sum(jnp.max(after, axis=2), axis=1)

    def coordinates(self) -> Coordinates:
        return nonzeros(self.probability)

    def joined(self) -> DenseTransition:
        return DenseTransition(merged(self.probability))


@pytree
@dataclass(frozen=True)
class DenseObservation(Observation):
    """O[a, y, z]."""

    probability: Array  # [A, X, Z]

    @classmethod
    def build(cls, coordinates: Coordinates, sizes: Sizes, dtype: np.dtype) -> DenseObservation:
        return cls(_filled(coordinates, sizes, dtype))

    @property
    def num_observations(self) -> int:
        return self.probability.shape[-1]

    def likelihood(self, action: Array, observation: Array) -> Array:
        return self.probability[action, :, observation]

    def likelihood_columns(self, actions: Array, observations: Array) -> Array:
        return self.probability[actions, :, observations].T

    def likelihood_gradient(self, given: Array, actions: Array, observations: Array) -> DenseObservation:
        nothing = jnp.zeros_like(self.probability)
        return replace(self, probability=nothing.at[actions, :, observations].add(given.T))

    def rows(self, action: Array) -> Array:
        return self.probability[action]

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        return pick(uniform, self.probability[action, state])

    def coordinates(self, num_actions: int) -> Coordinates:
        del num_actions
        return nonzeros(self.probability)

    def joined(self, num_actions: int) -> DenseObservation:
        del num_actions
        return DenseObservation(merged(self.probability))


def _filled(coordinates: Coordinates, shape: Sizes, dtype: np.dtype) -> Array:
    array = np.zeros(shape, dtype)
    array[coordinates[:3]] = coordinates[3]
    return device_array(array, dtype)
