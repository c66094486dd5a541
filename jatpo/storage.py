"""Two storages for P and O behind one set of kernels.

Dense: P[a, x, y] and O[a, y, z] as they stand.

Blocked: P as padded successor lists, for values, and as padded predecessor lists, for beliefs. Both turn a
product with P into gathers, which vectorise over a batch; a scatter would not. A state with very many
predecessors (an absorbing one) would widen every list, so such states keep dense rows of their own
(`hub_inflow`). O as the distinct rows it has (its classes), each a padded list of possible observations.

Padding has probability 0 and index 0, so it never adds to a sum. The batched kernels put the batch last
([X, B]): a gather then moves whole rows.

Shapes: A actions, X states, Z observations, S successors, Q predecessors, H hubs, C classes, L listed
observations, B beliefs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array


def pick(uniform: Array, weights: Array) -> Array:
    """The index at which the cumulated `weights` [n] pass `uniform` [] in [0, 1); never one of weight 0."""
    cumulated = jnp.cumsum(weights)
    possible = weights > 0  # asked for apart: a parallel cumsum may move by rounding where the weight is 0
    passed = possible & (cumulated > uniform * cumulated[-1])
    last = weights.shape[0] - 1 - jnp.argmax(possible[::-1])
    return jnp.where(jnp.any(passed), jnp.argmax(passed), last).astype(jnp.int32)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DenseTransition:
    """P[a, x, y]."""

    probability: Array  # [A, X, X]

    @property
    def num_actions(self) -> int:
        return self.probability.shape[-3]

    @property
    def num_states(self) -> int:
        return self.probability.shape[-1]

    def push(self, belief: Array, action: Array) -> Array:
        """sum_x b(x) P(y | x, a) [X]."""
        return belief @ self.probability[action]

    def push_all(self, beliefs: Array) -> Array:
        """`push` of every column of `beliefs` [X, B] under every action [A, X, B]."""
        return jnp.einsum("axy,xb->ayb", self.probability, beliefs)

    def pull(self, values: Array) -> Array:
        """sum_y P(y | x, a) v(y) [X, A]."""
        return jnp.einsum("axy,y->xa", self.probability, values)

    def pull_columns(self, values: Array, actions: Array) -> Array:
        """sum_y P(y | x, a) v(y) of every column of `values` [X, B] under its action [B]: [X, B]."""
        return select(self.probability @ values, actions)

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        """A successor of `state` []."""
        return pick(uniform, self.probability[action, state])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BlockedTransition:
    """Padded successor and predecessor lists."""

    successor: Array  # [A, X, S] int32
    probability: Array  # [A, X, S]
    predecessor: Array  # [A, X, Q] int32
    inflow: Array  # [A, X, Q], P(this state | predecessor, a)
    hub: Array  # [H] int32, states kept out of the predecessor lists
    hub_inflow: Array  # [A, H, X], P(hub | x, a)

    @property
    def num_actions(self) -> int:
        return self.successor.shape[-3]

    @property
    def num_states(self) -> int:
        return self.successor.shape[-2]

    def push(self, belief: Array, action: Array) -> Array:
        """sum_x b(x) P(y | x, a) [X]."""
        arriving = jnp.sum(belief[self.predecessor[action]] * self.inflow[action], axis=-1)
        return arriving.at[self.hub].add(self.hub_inflow[action] @ belief)

    def push_all(self, beliefs: Array) -> Array:
        """`push` of every column of `beliefs` [X, B] under every action [A, X, B]."""
        arriving = _weighted_rows(beliefs, self.predecessor, self.inflow)
        return arriving.at[:, self.hub].add(self.hub_inflow @ beliefs)

    def pull(self, values: Array) -> Array:
        """sum_y P(y | x, a) v(y) [X, A]."""
        return jnp.sum(values[self.successor] * self.probability, axis=-1).T

    def pull_columns(self, values: Array, actions: Array) -> Array:
        """sum_y P(y | x, a) v(y) of every column of `values` [X, B] under its action [B]: [X, B]."""
        return select(_weighted_rows(values, self.successor, self.probability), actions)

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        """A successor of `state` []."""
        return self.successor[action, state, pick(uniform, self.probability[action, state])]


def select(columns: Array, actions: Array) -> Array:
    """Column b of `columns[actions[b]]` [X, B], for `columns` [A, X, B]."""
    chosen = columns[0]
    for a in range(1, columns.shape[0]):
        chosen = jnp.where((actions == a)[None, :], columns[a], chosen)
    return chosen


def _weighted_rows(rows: Array, index: Array, weight: Array) -> Array:
    """sum_s weight[a, x, s] rows[index[a, x, s]], for rows [X, B], index and weight [A, X, S]: [A, X, B]."""
    terms = (rows[index[:, :, s]] * weight[:, :, s, None] for s in range(index.shape[2]))
    return sum(terms, jnp.zeros((*index.shape[:2], rows.shape[1]), rows.dtype))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DenseObservation:
    """O[a, y, z]."""

    probability: Array  # [A, X, Z]

    @property
    def num_observations(self) -> int:
        return self.probability.shape[-1]

    def likelihood(self, action: Array, observation: Array) -> Array:
        """O(z | y, a) for every y [X]."""
        return self.probability[action, :, observation]

    def likelihood_all(self, actions: Array, observations: Array) -> Array:
        """`likelihood` for every pair of `actions` and `observations` [B], as columns [X, B]."""
        return self.probability[actions, :, observations].T

    def rows(self, action: Array) -> Array:
        """O(z | y, a) [X, Z]."""
        return self.probability[action]

    def expected(self, weights: Array, action: Array) -> Array:
        """sum_z O(z | y, a) weights(z) [X], of `weights` [Z]."""
        return self.probability[action] @ weights

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        """What is seen on arriving in `state` []."""
        return pick(uniform, self.probability[action, state])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BlockedObservation:
    """The distinct rows of O, each a padded list; `kind` says which row a state has.

    `kind` has one row for each action, or a single one where O does not depend on the action.
    """

    kind: Array  # [A or 1, X] int32
    symbol: Array  # [C, L] int32
    probability: Array  # [C, L]
    num_observations: int = field(metadata={"static": True})

    def kind_of(self, action: Array | int) -> Array:
        """The class of every state [X]."""
        return self.kind[jnp.minimum(action, self.kind.shape[0] - 1)]

    def class_rows(self) -> Array:
        """The distinct rows, dense [C, Z]."""
        classes = jnp.arange(self.symbol.shape[0])[:, None]
        empty = jnp.zeros((self.symbol.shape[0], self.num_observations), self.probability.dtype)
        return empty.at[classes, self.symbol].add(self.probability)

    def likelihood(self, action: Array, observation: Array) -> Array:
        """O(z | y, a) for every y [X]."""
        return self._class_likelihood(observation)[self.kind_of(action)]

    def likelihood_all(self, actions: Array, observations: Array) -> Array:
        """`likelihood` for every pair of `actions` and `observations` [B], as columns [X, B]."""
        of_class = jax.vmap(self._class_likelihood, out_axes=1)(observations)  # [C, B]
        if self.kind.shape[0] == 1:
            return of_class[self.kind[0]]
        columns = jnp.arange(actions.shape[0])
        return of_class[self.kind[actions].T, columns[None, :]]

    def rows(self, action: Array) -> Array:
        """O(z | y, a) [X, Z]."""
        return self.class_rows()[self.kind_of(action)]

    def expected(self, weights: Array, action: Array) -> Array:
        """sum_z O(z | y, a) weights(z) [X], of `weights` [Z]."""
        return jnp.sum(self.probability * weights[self.symbol], axis=1)[self.kind_of(action)]

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        """What is seen on arriving in `state` []."""
        row = self.kind[jnp.minimum(action, self.kind.shape[0] - 1), state]
        return self.symbol[row, pick(uniform, self.probability[row])]

    def _class_likelihood(self, observation: Array) -> Array:
        return jnp.sum(jnp.where(self.symbol == observation, self.probability, 0), axis=-1)


Transition = DenseTransition | BlockedTransition
Observation = DenseObservation | BlockedObservation
