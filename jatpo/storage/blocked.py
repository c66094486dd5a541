"""Blocked storage: P as padded lists of successors, O as the distinct rows it has (its classes).

The successor lists hold the numbers of P. For beliefs there are predecessor lists besides, which say where in the
successor lists a number stands: both turn a product with P into gathers, which vectorise over a batch; a scatter would
not. A state with very many predecessors (an absorbing one) would widen every list, so such states have dense rows of
their own (`hub`). Since each number is stored once, the gradient of P arrives in `probability` and a model whose
`probability` is replaced is a model with another P.

Reverse mode would turn every gather into a scatter, one element at a time. The backward pass of `predict_columns` is an
`expect` along the successor lists instead, which is a gather again.

Padding has probability 0 and index 0, or slot -1, so it never adds to a sum.

Shapes: S successors, Q predecessors, H hubs, C classes, L listed observations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.pytree import pytree
from jatpo.storage import lists
from jatpo.storage.kernel_protocol import (
    Observation,
    Sizes,
    Transition,
    device_array,
    merged,
    nonzeros,
    pick,
    select,
    stack_padded,
)
from jatpo.validate import Coordinates

PIECES = 16  # that sums over columns are cut into; with fewer, XLA's loops do not vectorise
SMALL = 1 << 16  # a table of class by observation of this many entries is made anew at every step


@pytree
@dataclass(frozen=True)
class SuccessorLists(Transition):
    """Padded successor lists alone: what worlds need, which are acted in, and beliefs that are lists of states.

    A prediction of all states scatters. Models with very many states have no room for predecessor lists besides.
    """

    successor: Array  # [A, X, S] int32
    probability: Array  # [A, X, S]

    @classmethod
    def build(cls, coordinates: Coordinates, sizes: Sizes, dtype: np.dtype) -> SuccessorLists:
        parts = lists.successor_lists(coordinates, *sizes[:2])
        return cls(**{name: device_array(part, dtype) for name, part in parts.items()})

    @property
    def num_actions(self) -> int:
        return self.successor.shape[-3]

    @property
    def num_states(self) -> int:
        return self.successor.shape[-2]

    def predict(self, belief: Array, action: Array) -> Array:
        moved = belief[:, None] * self.probability[action]
        return jnp.zeros_like(belief).at[self.successor[action]].add(moved)

    def expect(self, values: Array) -> Array:
        return jnp.sum(values[self.successor] * self.probability, axis=-1).T

    def expect_columns(self, values: Array, actions: Array) -> Array:
        if values.shape[1] == 1:  # a lone column: only its own action's lists are read
            own = actions[0]
            terms = _rows(values[:, 0], self.successor[own]) * self.probability[own]
            return jnp.sum(terms, axis=-1)[:, None]
        return select(_weighted_rows(values, self.successor, self.probability), actions)

    def row(self, state: Array, action: Array) -> Array:
        empty = jnp.zeros(self.num_states, self.probability.dtype)
        return empty.at[self.successor[action, state]].add(self.probability[action, state])

    def probability_of(self, state: Array, action: Array, arrived: Array) -> Array:
        there = self.successor[action, state] == arrived
        return jnp.sum(jnp.where(there, self.probability[action, state], 0))

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        return self.successor[action, state, pick(uniform, self.probability[action, state])]

    @property
    def lists_successors(self) -> bool:
        return True

    def successors(self, states: Array, action: Array) -> tuple[Array, Array]:
        return self.successor[action, states], self.probability[action, states]

    def informed_sums(self, rows: Array, action: Array, vectors: Array) -> Array:
        successor, probability = self.successor[action], self.probability[action]

        def of_state(x: Array) -> Array:
            seen = rows[successor[x]] * probability[x][:, None]  # [S, Z]
            return jnp.sum(jnp.max(vectors[:, successor[x]] @ seen, axis=0))

        return jax.lax.map(of_state, jnp.arange(self.num_states, dtype=jnp.int32), batch_size=256)

    def coordinates(self) -> Coordinates:
        a, x, place, p = nonzeros(self.probability)
        return a, x, np.asarray(self.successor)[a, x, place].astype(np.int64), p

    @property
    def lists_predecessors(self) -> bool:
        """Whether `predecessors` has all that lead to a state."""
        return False

    def predecessors(self) -> tuple[Array, Array]:
        """Predecessors [A, X, Q], and P(this state | predecessor, a)."""
        raise NotImplementedError("these lists have no predecessors")

    def joined(self) -> SuccessorLists:
        return SuccessorLists(merged(self.successor), merged(self.probability))


@pytree
@dataclass(frozen=True)
class BlockedTransition(SuccessorLists):
    """Padded successor lists, and where predecessors stand in them."""

    predecessor: Array  # [A, X, Q] int32
    slot: Array  # [A, X, Q] int32, the place of this state in its predecessor's list; -1 pads
    hub: Array  # [H] int32, states kept out of the predecessor lists
    hub_slot: Array  # [A, H, X] int32, the place of the hub in the list of x, or -1

    @classmethod
    def build(cls, coordinates: Coordinates, sizes: Sizes, dtype: np.dtype) -> BlockedTransition:
        parts = lists.transition_lists(coordinates, *sizes[:2])
        return cls(**{name: device_array(part, dtype) for name, part in parts.items()})

    @classmethod
    def stack(cls, parts: Sequence[BlockedTransition]) -> BlockedTransition:
        fills = {"slot": -1, "hub_slot": -1}
        names = [part.name for part in dataclasses.fields(cls)]
        columns = {name: [getattr(part, name) for part in parts] for name in names}
        return cls(**{name: stack_padded(*own, fill=fills.get(name, 0)) for name, own in columns.items()})

    def predict(self, belief: Array, action: Array) -> Array:
        lists = (part[action] for part in (self.probability, self.predecessor, self.slot, self.hub_slot))
        probability, predecessor, slot, hub_slot = lists
        arriving = jnp.sum(belief[predecessor] * _entries(probability, predecessor, slot), axis=-1)
        states = jnp.arange(self.num_states, dtype=jnp.int32)
        return arriving.at[self.hub].add(_entries(probability, states[None, :], hub_slot) @ belief)

    def predict_columns(self, beliefs: Array, actions: Array) -> Array:
        return _predict_columns(self, beliefs, actions)

    def predict_all(self, beliefs: Array) -> Array:
        inflow, hub_inflow = self.inflow()
        arriving = _weighted_rows(beliefs, self.predecessor, inflow)
        return arriving.at[:, self.hub].add(hub_inflow @ beliefs)

    @property
    def lists_predecessors(self) -> bool:
        return self.hub.shape[-1] == 0

    def predecessors(self) -> tuple[Array, Array]:
        return self.predecessor, self.inflow()[0]

    def inflow(self) -> tuple[Array, Array]:
        """P(this state | predecessor, a) [A, X, Q] and P(hub | x, a) [A, H, X], from the successor lists."""
        states = jnp.arange(self.num_states, dtype=jnp.int32)
        listed = jax.vmap(_entries)(self.probability, self.predecessor, self.slot)
        into_hubs = jax.vmap(lambda entries, slot: _entries(entries, states[None, :], slot))
        return listed, into_hubs(self.probability, self.hub_slot)


def _entries(probability: Array, state: Array, slot: Array) -> Array:
    """probability[state, slot], 0 where the slot is -1."""
    return jnp.where(slot >= 0, probability[state, jnp.maximum(slot, 0)], 0)


def _weighted_rows(rows: Array, index: Array, weight: Array) -> Array:
    """sum_s weight[a, x, s] rows[index[a, x, s]], for rows [X, B], index and weight [A, X, S]: [A, X, B]."""
    terms = (rows[index[:, :, s]] * weight[:, :, s, None] for s in range(index.shape[2]))
    return sum(terms, jnp.zeros((*index.shape[:2], rows.shape[1]), rows.dtype))


def _predicted(transition: BlockedTransition, beliefs: Array, actions: Array) -> Array:
    """Every action for all columns, of which each keeps its own: whole rows move.

    The loop over actions is one of XLA, which compiles faster than as many copies of its body.
    """
    numbers = jnp.arange(beliefs.shape[0], dtype=jnp.int32)
    place = (numbers[:, None] == transition.hub[None, :]).astype(beliefs.dtype)  # [X, H]
    inflow, hub_inflow = transition.inflow()

    def of_action(action: Array, arriving: Array) -> Array:
        index, weight = transition.predecessor[action], inflow[action]  # [X, Q]
        terms = (_rows(beliefs, index[:, q]) * weight[:, q, None] for q in range(index.shape[1]))
        predicted = sum(terms, place @ (hub_inflow[action] @ beliefs))
        return arriving + jnp.where((actions == action)[None, :], predicted, 0)

    return jax.lax.fori_loop(0, transition.num_actions, of_action, jnp.zeros_like(beliefs))


_predict_columns = jax.custom_vjp(_predicted)


def _predict_forward(transition: BlockedTransition, beliefs: Array, actions: Array) -> tuple[Array, tuple]:
    return _predicted(transition, beliefs, actions), (transition, beliefs, actions)


def _predict_backward(kept: tuple, given: Array) -> tuple:
    """By the belief: P expected along the successors; by P(y | x, a): sum over columns of b(x) given(y)."""
    transition, beliefs, actions = kept
    numbers = jnp.arange(transition.num_actions, dtype=actions.dtype)
    chosen = (numbers[:, None] == actions[None, :]).astype(beliefs.dtype)  # [A, N]
    beliefs, given, chosen = (_even(part) for part in (beliefs, given, chosen))

    def of_action(expected: Array, own_lists: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        index, weight, own = own_lists  # [X, S], [X, S], [N]
        terms = (_rows(given, index[:, s]) * weight[:, s, None] for s in range(index.shape[1]))
        return expected + jnp.where(own[None, :] > 0, sum(terms), 0), _products(beliefs, given, own, index)

    own_lists = (transition.successor, transition.probability, chosen)
    expected, by_entry = jax.lax.scan(of_action, jnp.zeros_like(beliefs), own_lists)
    return _only(transition, by_entry), expected[:, : actions.shape[0]], None


_predict_columns.defvjp(_predict_forward, _predict_backward)


def _even(columns: Array) -> Array:
    """[X, N] with columns of 0 at the end, so that it can be cut into `PIECES`."""
    return jnp.pad(columns, ((0, 0), (0, -columns.shape[1] % PIECES)))


def _products(beliefs: Array, given: Array, own: Array, index: Array) -> Array:
    """sum_n own[n] beliefs[x, n] given[index[x, s], n] [X, S].

    The columns are cut into pieces that are added up first, which vectorises as a sum over n does not; the rest is
    a matrix product, since XLA would fuse a sum with what comes before it and undo that.
    """

    def of_piece(own: Array, beliefs: Array, given: Array) -> Array:
        following = _rows(given, index.reshape(-1)).reshape(*index.shape, given.shape[1])
        return (own * beliefs)[:, None, :] * following

    cut = (jnp.split(part, PIECES, axis=1) for part in (own[None, :], beliefs, given))
    partial_sums = sum(map(of_piece, *cut))  # [X, S, N / PIECES]
    return partial_sums @ jnp.ones(given.shape[1] // PIECES, given.dtype)


def _rows(array: Array, index: Array) -> Array:
    """`array[index]` for an index that is known to be within bounds, which saves checks in inner loops."""
    return array.at[index].get(mode="promise_in_bounds")


def _only(storage: Any, by_entry: Array) -> Any:
    """The cotangent of a storage: `by_entry` for its probabilities and nothing for the rest."""
    return dataclasses.replace(jax.tree.map(lambda _: None, storage), probability=by_entry)


@pytree
@dataclass(frozen=True)
class BlockedObservation(Observation):
    """The distinct rows of O, each a padded list of possible observations; `kind` says which row a state has.

    `kind` has one row for each action, or a single one where O does not depend on the action.
    """

    kind: Array  # [A or 1, X] int32
    symbol: Array  # [C, L] int32
    probability: Array  # [C, L]
    num_symbols: int = field(metadata={"static": True})  # Z

    @classmethod
    def build(cls, coordinates: Coordinates, sizes: Sizes, dtype: np.dtype) -> BlockedObservation:
        parts = lists.observation_lists(coordinates, *sizes[:2], dtype)
        arrays = {name: device_array(part, dtype) for name, part in parts.items()}
        return cls(**arrays, num_symbols=sizes[2])

    @classmethod
    def stack(cls, parts: Sequence[BlockedObservation]) -> BlockedObservation:
        """All with one row of classes for each action if some part needs that."""
        most = max(part.kind.shape[0] for part in parts)
        parts = [
            dataclasses.replace(
                part, kind=np.repeat(np.asarray(part.kind), most // part.kind.shape[0], axis=0)
            )
            for part in parts
        ]
        return jax.tree.map(stack_padded, *parts)

    @property
    def num_observations(self) -> int:
        return self.num_symbols

    @property
    def zeros_are_padding(self) -> bool:
        return True

    @property
    def num_classes(self) -> int:
        return self.symbol.shape[-2]

    def groups(self, num_actions: int) -> int:
        return num_actions if self.kind.shape[0] > 1 else 1

    def kind_of(self, action: Array | int) -> Array:
        """The class of every state [X]."""
        return self.kind[jnp.minimum(action, self.kind.shape[0] - 1)]

    def class_rows(self) -> Array:
        """The distinct rows, dense [C, Z]."""
        classes = jnp.arange(self.symbol.shape[0])[:, None]
        empty = jnp.zeros((self.symbol.shape[0], self.num_observations), self.probability.dtype)
        return empty.at[classes, self.symbol].add(self.probability)

    def likelihood(self, action: Array, observation: Array) -> Array:
        return _rows(self._class_likelihood(observation), self.kind_of(action))

    def likelihood_columns(self, actions: Array, observations: Array) -> Array:
        classes, listed = self.symbol.shape
        if self.kind.shape[0] > 1:
            of_class = jax.vmap(self._class_likelihood, out_axes=1)(observations)  # [C, N]
            columns = jnp.arange(actions.shape[0])
            return of_class[self.kind[actions].T, columns[None, :]]
        if listed > 1 and classes * self.num_observations <= SMALL:
            of_class = self.class_rows().T[observations].T  # [C, N]
        else:
            of_class = jax.vmap(self._class_likelihood, out_axes=1)(observations)
        return _rows(of_class, self.kind[0])

    def likelihood_at(self, states: Array, action: Array, observation: Array) -> Array:
        kind = self.kind[jnp.minimum(action, self.kind.shape[0] - 1), states]
        return self._class_likelihood(observation)[kind]

    def rows_at(self, states: Array, action: Array) -> Array:
        return self.class_rows()[self.kind[jnp.minimum(action, self.kind.shape[0] - 1), states]]

    def mixed(self, vectors: Array, choice: Array, action: Array) -> Array:
        """By vector: how much of a class chooses it. Each is read once, and one that nothing chooses not at all."""
        same = choice[:, None] == choice[None, :]  # [Z, Z]
        share = self.class_rows() @ same.astype(vectors.dtype)  # [C, Z]
        first = jnp.argmax(same, axis=0) == jnp.arange(choice.shape[0])
        kind = self.kind_of(action)

        def add(z: Array, total: Array) -> Array:
            return jax.lax.cond(first[z], lambda: total + share[kind, z] * vectors[choice[z]], lambda: total)

        return jax.lax.fori_loop(0, choice.shape[0], add, jnp.zeros(vectors.shape[1], vectors.dtype))

    def highest_likelihood(self, action: Array, observation: Array) -> Array:
        del action
        return jnp.max(self._class_likelihood(observation))

    def likelihood_gradient(self, given: Array, actions: Array, observations: Array) -> BlockedObservation:
        """By O(z | class): `given` summed over the states of the class and the columns in which z was seen."""
        by_class = self._class_sums(actions, given)  # [C, N]
        symbols = jnp.arange(self.num_observations, dtype=observations.dtype)
        seen = (observations[:, None] == symbols[None, :]).astype(given.dtype)  # [N, Z]
        total = jnp.take_along_axis(by_class @ seen, self.symbol, axis=1)
        return _only(self, jnp.where(self.probability > 0, total, 0))

    def rows(self, action: Array) -> Array:
        return self.class_rows()[self.kind_of(action)]

    def expected(self, weights: Array, action: Array) -> Array:
        return jnp.sum(self.probability * weights[self.symbol], axis=1)[self.kind_of(action)]

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        row = self.kind[jnp.minimum(action, self.kind.shape[0] - 1), state]
        return self.symbol[row, pick(uniform, self.probability[row])]

    def coordinates(self, num_actions: int) -> Coordinates:
        kind = np.broadcast_to(np.asarray(self.kind), (num_actions, self.kind.shape[1]))
        a, y, place, p = nonzeros(np.asarray(self.probability, np.float64)[kind])  # of [A, X, L]
        return a, y, np.asarray(self.symbol)[kind[a, y], place].astype(np.int64), p

    def joined(self, num_actions: int) -> BlockedObservation:
        num_models, num_classes = self.symbol.shape[:2]
        first = num_classes * jnp.arange(num_models, dtype=jnp.int32)
        kind = jnp.broadcast_to(self.kind, (num_models, num_actions, self.kind.shape[2]))
        return BlockedObservation(
            merged(kind + first[:, None, None]),
            merged(self.symbol),
            merged(self.probability),
            self.num_observations,
        )

    def _class_likelihood(self, observation: Array) -> Array:
        """O(z | class) [C]; a product, since XLA would do a sum anew for every state that looks it up."""
        seen = jnp.where(self.symbol == observation, self.probability, 0)
        return seen @ jnp.ones(seen.shape[-1], seen.dtype)

    def _class_sums(self, actions: Array, given: Array) -> Array:
        """Sums of the rows of `given` [X, N] over the states of each class: [C, N]. Whole rows are scattered."""
        classes = self.symbol.shape[0]
        if self.kind.shape[0] == 1:
            return jax.ops.segment_sum(given, self.kind[0], classes)

        def of_action(action: Array, total: Array) -> Array:
            own = jnp.where((actions == action)[None, :], given, 0)
            return total + jax.ops.segment_sum(own, self.kind[action], classes)

        nothing = jnp.zeros((classes, given.shape[1]), given.dtype)
        return jax.lax.fori_loop(0, self.kind.shape[0], of_action, nothing)
