"""What a storage of P and O can do: the products, draws and constructions that everything else is made of.

Index order: P[a, x, y], O[a, y, z]. A storage is a frozen pytree dataclass. A new one needs `predict`, `expect`,
`coordinates` and `build` for P, and `likelihood`, `coordinates` and `build` for O; the rest has a default that is
right and may be slow. `jatpo.storage.register` gives it a name.

The gradient of P arrives in whatever array fields the storage has; ours keep them in `probability`.

Shapes: A actions, X states, Z observations, D = A or 1 (O does not depend on the action), V vectors, B beliefs,
K models, N trials. Batched products have the batch last ([X, B]): a gather then moves whole rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.pytree import pytree
from jatpo.validate import Coordinates

Sizes = tuple[int, int, int]  # A, X, Z


def pick(uniform: Array, weights: Array) -> Array:
    """The index at which the cumulated `weights` [n] pass `uniform` [] in [0, 1); never one of weight 0."""
    cumulated = jnp.cumsum(weights)
    possible = weights > 0  # asked for apart: a parallel cumsum may move by rounding where the weight is 0
    passed = possible & (cumulated > uniform * cumulated[-1])
    last = weights.shape[0] - 1 - jnp.argmax(possible[::-1])
    return jnp.where(jnp.any(passed), jnp.argmax(passed), last).astype(jnp.int32)


def select(columns: Array, actions: Array) -> Array:
    """Column b of `columns[actions[b]]` [X, B], for `columns` [A, X, B]."""
    chosen = columns[0]
    for a in range(1, columns.shape[0]):
        chosen = jnp.where((actions == a)[None, :], columns[a], chosen)
    return chosen


class Stored:
    """What storages of P and of O have in common."""

    @classmethod
    def build(cls, coordinates: Coordinates, sizes: Sizes, dtype: np.dtype) -> Self:
        """The storage of sorted, checked coordinates (a, row, column, p); runs on the host."""
        raise NotImplementedError(f"{cls.__name__} is not built from coordinates")

    @classmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        """`parts` padded to a common shape, along a new first axis; padding never adds to a sum."""
        return jax.tree.map(stack_padded, *parts)

    def with_probability(self, entries: Array) -> Self:
        """The storage with other entries where its own are positive; what is impossible stays so."""
        own: Any = self
        return dataclasses.replace(own, probability=jnp.where(own.probability > 0, entries, 0))


class Transition(Stored):
    """P(y | x, a)."""

    @property
    def num_actions(self) -> int:
        raise NotImplementedError

    @property
    def num_states(self) -> int:
        raise NotImplementedError

    def predict(self, belief: Array, action: Array) -> Array:
        """sum_x b(x) P(y | x, a) [X]."""
        raise NotImplementedError

    def expect(self, values: Array) -> Array:
        """sum_y P(y | x, a) v(y) [X, A]."""
        raise NotImplementedError

    def coordinates(self) -> Coordinates:
        """(a, x, y, p) of the positive entries, sorted, in NumPy float64."""
        raise NotImplementedError(f"{type(self).__name__} gives no coordinates")

    def predict_columns(self, beliefs: Array, actions: Array) -> Array:
        """`predict` of every column of `beliefs` [X, N] under its own action [N]: [X, N]."""
        return jax.vmap(self.predict, in_axes=(1, 0), out_axes=1)(beliefs, actions)

    def predict_all(self, beliefs: Array) -> Array:
        """`predict` of every column of `beliefs` [X, B] under every action [A, X, B]."""
        of_action = jax.vmap(self.predict, in_axes=(1, None), out_axes=1)
        actions = jnp.arange(self.num_actions, dtype=jnp.int32)
        return jax.vmap(of_action, in_axes=(None, 0))(beliefs, actions)

    def expect_columns(self, values: Array, actions: Array) -> Array:
        """`expect` of every column of `values` [X, B] under its action [B]: [X, B]."""
        return jax.vmap(lambda own, action: self.expect(own)[:, action], (1, 0), 1)(values, actions)

    def row(self, state: Array, action: Array) -> Array:
        """P(y | x, a) for every y [X]."""
        some = jnp.result_type(
            *(leaf for leaf in jax.tree.leaves(self) if jnp.issubdtype(leaf.dtype, jnp.floating))
        )
        return self.predict(jax.nn.one_hot(state, self.num_states, dtype=some), action)

    def probability_of(self, state: Array, action: Array, arrived: Array) -> Array:
        """P(arrived | state, action) []."""
        return self.row(state, action)[arrived]

    def successors(self, states: Array, action: Array) -> tuple[Array, Array]:
        """States y that may follow each of `states` [C], and P(y | x, a): two arrays [C, S], padded with weight 0."""
        rows = jax.vmap(self.row, (0, None))(states, action)
        return jnp.broadcast_to(jnp.arange(self.num_states, dtype=jnp.int32), rows.shape), rows

    @property
    def lists_successors(self) -> bool:
        """Whether `successors` names the states that may follow, and not all states."""
        return False

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        """A successor of `state` []."""
        return pick(uniform, self.row(state, action))

    def informed_sums(self, rows: Array, action: Array, vectors: Array) -> Array:
        """sum_z max_v sum_y P(y | x, a) O(z | y, a) v(y) [X], for `rows` of O [X, Z] and vectors [V, X]."""

        def of_state(x: Array) -> Array:
            joint = self.row(x, action)[:, None] * rows  # [Y, Z]
            return jnp.sum(jnp.max(vectors @ joint, axis=0))

        return jax.lax.map(of_state, jnp.arange(self.num_states, dtype=jnp.int32), batch_size=256)

    def joined(self) -> Transition:
        """Stacked models [K, ...] as one with K·A actions; action k·A + a is action a of model k."""
        return JoinedTransition(self)


class Observation(Stored):
    """O(z | y, a)."""

    @property
    def num_observations(self) -> int:
        raise NotImplementedError

    def likelihood(self, action: Array, observation: Array) -> Array:
        """O(z | y, a) for every y [X]."""
        raise NotImplementedError

    def coordinates(self, num_actions: int) -> Coordinates:
        """(a, y, z, p) of the positive entries, sorted, in NumPy float64."""
        raise NotImplementedError(f"{type(self).__name__} gives no coordinates")

    @property
    def zeros_are_padding(self) -> bool:
        """Whether every possible entry is listed, so that a likelihood of 0 has no gradient."""
        return False

    @property
    def num_classes(self) -> int | None:
        """The number of distinct rows that are stored, if the storage looks for them."""
        return None

    def groups(self, num_actions: int) -> int:
        """D: 1 if the storage knows that O does not depend on the action, else A."""
        return num_actions

    def likelihood_columns(self, actions: Array, observations: Array) -> Array:
        """`likelihood` for every pair of `actions` and `observations` [N], as columns [X, N]."""
        return jax.vmap(self.likelihood, out_axes=1)(actions, observations)

    def likelihood_at(self, states: Array, action: Array, observation: Array) -> Array:
        """O(z | y, a) for each of `states` [C] only."""
        return self.likelihood(action, observation)[states]

    def rows_at(self, states: Array, action: Array) -> Array:
        """O(z | y, a) of each of `states` [C] only: [C, Z]."""
        return self.rows(action)[states]

    def mixed(self, vectors: Array, choice: Array, action: Array) -> Array:
        """sum_z O(z | y, a) v(y) [X], v being row `choice[z]` of `vectors` [V, X]."""
        rows = self.rows(action)

        def add(z: Array, total: Array) -> Array:
            return total + rows[:, z] * vectors[choice[z]]

        return jax.lax.fori_loop(0, self.num_observations, add, jnp.zeros(vectors.shape[1], vectors.dtype))

    def highest_likelihood(self, action: Array, observation: Array) -> Array:
        """An upper bound of O(z | y, a) over all y []."""
        return jnp.max(self.likelihood(action, observation))

    def likelihood_gradient(self, given: Array, actions: Array, observations: Array) -> Self:
        """The cotangent of the storage for that of `likelihood_columns`, `given` [X, N]."""
        return jax.vjp(lambda own: own.likelihood_columns(actions, observations), self)[1](given)[0]

    def rows(self, action: Array) -> Array:
        """O(z | y, a) [X, Z]."""
        symbols = jnp.arange(self.num_observations, dtype=jnp.int32)
        return jax.vmap(self.likelihood, (None, 0), 1)(action, symbols)

    def table(self, num_actions: int) -> Array:
        """O(z | y, a) [D, X, Z]."""
        return jax.vmap(self.rows)(jnp.arange(self.groups(num_actions), dtype=jnp.int32))

    def evidence(self, predicted: Array, action: Array) -> Array:
        """The probability of every observation [Z] for a predicted belief [X]."""
        return predicted @ self.rows(action)

    def expected(self, weights: Array, action: Array) -> Array:
        """sum_z O(z | y, a) weights(z) [X], of `weights` [Z]."""
        return self.rows(action) @ weights

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        """An observation on arriving in `state` []."""
        return pick(uniform, self.rows(action)[state])

    def joined(self, num_actions: int) -> Observation:
        """Stacked models [K, ...] as one with K·A actions."""
        return JoinedObservation(self, num_actions)


def member(stacked: Any, k: Array) -> Any:
    """Part k of a stacked storage."""
    return jax.tree.map(lambda leaf: leaf[k], stacked)


@pytree
@dataclasses.dataclass(frozen=True)
class JoinedTransition(Transition):
    """Stacked models with K·A actions, for any storage. It reads all of a model to use one of its rows."""

    parts: Transition  # every array with a leading K

    @property
    def num_actions(self) -> int:
        return jax.tree.leaves(self.parts)[0].shape[0] * self.parts.num_actions

    @property
    def num_states(self) -> int:
        return self.parts.num_states

    def predict(self, belief: Array, action: Array) -> Array:
        k, own = jnp.divmod(action, self.parts.num_actions)
        return member(self.parts, k).predict(belief, own)

    def expect(self, values: Array) -> Array:
        each = jax.vmap(lambda part: part.expect(values))(self.parts)  # [K, X, A]
        return jnp.moveaxis(each, 0, 1).reshape(self.num_states, -1)

    def row(self, state: Array, action: Array) -> Array:
        k, own = jnp.divmod(action, self.parts.num_actions)
        return member(self.parts, k).row(state, own)


@pytree
@dataclasses.dataclass(frozen=True)
class JoinedObservation(Observation):
    """Stacked models with K·A actions, for any storage."""

    parts: Observation  # every array with a leading K
    actions: int = dataclasses.field(metadata={"static": True})  # A

    @property
    def num_observations(self) -> int:
        return self.parts.num_observations

    def likelihood(self, action: Array, observation: Array) -> Array:
        k, own = jnp.divmod(action, self.actions)
        return member(self.parts, k).likelihood(own, observation)

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        k, own = jnp.divmod(action, self.actions)
        return member(self.parts, k).sample(uniform, state, own)


def stack_padded(*leaves: Array, fill: int = 0) -> Array:
    """`leaves` padded with `fill` to a common shape, along a new first axis; on the host."""
    shape = tuple(max(sizes) for sizes in zip(*(leaf.shape for leaf in leaves), strict=True))
    stacked = np.full((len(leaves), *shape), fill, leaves[0].dtype)
    for k, leaf in enumerate(leaves):
        stacked[(k, *(slice(size) for size in leaf.shape))] = leaf
    return jax.device_put(stacked)


def merged(leaf: Array) -> Array:
    """[K, A, ...] as [K·A, ...]."""
    return leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:])


def device_array(part: np.ndarray, dtype: np.dtype) -> Array:
    """Indices as int32, numbers as `dtype`. Not by jnp.asarray, which compiles a program for each shape."""
    wanted = np.dtype(np.int32) if np.issubdtype(part.dtype, np.integer) else dtype
    return jax.device_put(part.astype(wanted, copy=False))


def nonzeros(array: Any) -> Coordinates:
    """The non-zero entries of an array with three axes, in float64."""
    array = np.asarray(array, np.float64)
    first, second, third = np.nonzero(array)
    return first, second, third, array[first, second, third]
