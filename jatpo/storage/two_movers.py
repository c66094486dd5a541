"""P of two movers on N cells each, kept as what each of them does: the agent by its action, the teammate by its cell.

    P(c', m' | c, m, a) = agent(c' | c, a) teammate(m' | m)

State c N + m stands for the cells (c, m); one more state, the last, is absorbing, and `solved` states lead to it. A
belief is an N x N array: a prediction moves its rows, then its columns, so that it costs S N² for each mover instead of
S² N², and the model has lists of N cells in the place of lists of N² states.

Shapes: N cells, X = N² + 1 states, S successors, D teammates (one for each model of a joined world, else 1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.pytree import pytree
from jatpo.storage.blocked import BlockedTransition, SuccessorLists
from jatpo.storage.kernel_protocol import Transition, merged, pick
from jatpo.validate import Coordinates

TOGETHER = 1 << 16  # numbers of a belief, or of several, that are moved at once


@pytree
@dataclass(frozen=True)
class MoversTransition(Transition):
    """Two movers that do not see each other; where a pair is solved, both leave for good."""

    agent: SuccessorLists  # of N cells, A actions
    teammate: SuccessorLists  # of N cells, D "actions"
    solved: Array  # [D, N, N] bool

    @classmethod
    def of_lists(
        cls, agent: Coordinates, teammate: Coordinates, solved: np.ndarray, actions: int, dtype: np.dtype
    ) -> MoversTransition:
        """From coordinates (a, c, c', p) and (0, m, m', p), and whether each pair [N, N] is solved; on the host."""
        cells = solved.shape[0]
        return cls(
            BlockedTransition.build(agent, (actions, cells, 0), dtype),
            BlockedTransition.build(teammate, (1, cells, 0), dtype),
            jax.device_put(np.asarray(solved, bool)[None]),
        )

    @classmethod
    def stack(cls, parts: Sequence[MoversTransition]) -> Transition:
        """As movers where all have as many cells; else as successor lists."""
        if len({part.num_cells for part in parts}) > 1:
            return BlockedTransition.stack([part.blocked() for part in parts])
        return cls(
            type(parts[0].agent).stack([part.agent for part in parts]),
            type(parts[0].teammate).stack([part.teammate for part in parts]),
            jax.device_put(np.stack([np.asarray(part.solved) for part in parts])),
        )

    @property
    def num_actions(self) -> int:
        return self.agent.num_actions

    @property
    def num_cells(self) -> int:
        """N."""
        return self.agent.num_states

    @property
    def num_states(self) -> int:
        return self.num_cells**2 + 1

    def _team(self, action: Array) -> Array:
        """Which teammate goes with an action."""
        return action // (self.num_actions // self.teammate.num_actions)

    def predict(self, belief: Array, action: Array) -> Array:
        if not self._lists_predecessors:
            return self._predict(belief, action)
        own = _chosen(self.agent, action)
        return self._moved(belief[:, None], jnp.zeros(1, jnp.int32), own, self._team(action))[:, 0]

    def predict_columns(self, beliefs: Array, actions: Array) -> Array:
        alike = self.teammate.num_actions == 1  # else columns have teammates of their own
        if not (alike and self._lists_predecessors):
            return super().predict_columns(beliefs, actions)
        return self._moved(beliefs, actions, self.agent, jnp.int32(0))

    @property
    def _lists_predecessors(self) -> bool:
        return self.agent.lists_predecessors and self.teammate.lists_predecessors

    def _predict(self, belief: Array, action: Array) -> Array:
        """`predict` for any lists."""
        team = self._team(action)
        pairs = belief[:-1].reshape(self.num_cells, self.num_cells)
        leaving = jnp.where(self.solved[team], pairs, 0)
        moved = _chosen(self.agent, action).predict_all(pairs - leaving)[0]
        moved = _chosen(self.teammate, team).predict_all(moved.T)[0].T
        return jnp.append(moved.reshape(-1), belief[-1] + jnp.sum(leaving))

    def _moved(self, beliefs: Array, actions: Array, agent: SuccessorLists, team: Array) -> Array:
        """Beliefs [X, B] under actions [B]: some rows of pairs [N, N, B] at a time, which stay in the cache."""
        beliefs = jnp.asarray(beliefs)
        pairs = beliefs[:-1].reshape(self.num_cells, self.num_cells, -1)
        going = ~self.solved[team]
        mate = _chosen(self.teammate, team).predecessors()
        together = max(1, TOGETHER // (self.num_cells * beliefs.shape[1]))

        def of_cell(own: tuple[Array, Array]) -> Array:
            return _columns_moved(_row_moved(pairs, going, actions, *own), *(part[0] for part in mate))

        own = tuple(jnp.swapaxes(part, 0, 1) for part in agent.predecessors())  # [N, A, Q]
        moved = jax.lax.map(of_cell, own, batch_size=together).reshape(-1, beliefs.shape[1])
        left = (~going).reshape(-1).astype(beliefs.dtype) @ beliefs[:-1]
        return jnp.concatenate([moved, (beliefs[-1] + left)[None]])

    def expect(self, values: Array) -> Array:
        actions = jnp.arange(self.num_actions, dtype=jnp.int32)
        return jax.lax.map(lambda action: self._expect(values, action), actions).T

    def expect_columns(self, values: Array, actions: Array) -> Array:
        return jax.vmap(self._expect, (1, 0), 1)(values, actions)

    def _expect(self, values: Array, action: Array) -> Array:
        """sum_y P(y | x, a) v(y) [X]."""
        team = self._team(action)
        pairs = values[:-1].reshape(self.num_cells, self.num_cells)
        zero = jnp.zeros(self.num_cells, jnp.int32)
        pairs = _chosen(self.teammate, team).expect_columns(pairs.T, zero).T
        pairs = _chosen(self.agent, action).expect_columns(pairs, zero)
        pairs = jnp.where(self.solved[team], values[-1], pairs)
        return jnp.append(pairs.reshape(-1), values[-1])

    @property
    def lists_successors(self) -> bool:
        return True

    def successors(self, states: Array, action: Array) -> tuple[Array, Array]:
        team, last = self._team(action), self.num_states - 1
        cell, place = jnp.divmod(jnp.minimum(states, last - 1), self.num_cells)
        to, p = self.agent.successors(cell, action)  # [C, S]
        mate_to, mate_p = self.teammate.successors(place, team)
        arrived = (to[:, :, None] * self.num_cells + mate_to[:, None, :]).reshape(states.shape[0], -1)
        weight = (p[:, :, None] * mate_p[:, None, :]).reshape(states.shape[0], -1)
        leaves = ((states == last) | self.solved[team, cell, place])[:, None]
        certain = (jnp.arange(weight.shape[1]) == 0).astype(weight.dtype)[None, :]
        arrived = jnp.where(leaves | (weight == 0), last, arrived)
        return arrived, jnp.where(leaves, certain, weight)

    def row(self, state: Array, action: Array) -> Array:
        arrived, weight = self._one(state, action)
        return jnp.zeros(self.num_states, weight.dtype).at[arrived].add(weight)

    def probability_of(self, state: Array, action: Array, arrived: Array) -> Array:
        following, weight = self._one(state, action)
        return jnp.sum(jnp.where(following == arrived, weight, 0))

    def sample(self, uniform: Array, state: Array, action: Array) -> Array:
        arrived, weight = self._one(state, action)
        order = jnp.argsort(arrived)  # as every storage: by the number of the state
        return arrived[order][pick(uniform, weight[order])]

    def _one(self, state: Array, action: Array) -> tuple[Array, Array]:
        arrived, weight = self.successors(state[None], action)
        return arrived[0], weight[0]

    def informed_sums(self, rows: Array, action: Array, vectors: Array) -> Array:
        def of_state(x: Array) -> Array:
            arrived, weight = self._one(x, action)
            return jnp.sum(jnp.max(vectors[:, arrived] @ (rows[arrived] * weight[:, None]), axis=0))

        return jax.lax.map(of_state, jnp.arange(self.num_states, dtype=jnp.int32), batch_size=256)

    def coordinates(self) -> Coordinates:
        following = jax.jit(lambda own, action: own.successors(jnp.arange(own.num_states), action))
        parts = []
        for action in range(self.num_actions):
            arrived, weight = (np.asarray(part) for part in following(self, np.int32(action)))
            parts.append((action, *_rows_merged(arrived, weight.astype(np.float64))))
        a = np.concatenate([np.full(len(x), action) for action, x, _, _ in parts])
        x, y, p = (np.concatenate([part[place] for part in parts]) for place in (1, 2, 3))
        return a, x, y, p

    def blocked(self) -> BlockedTransition:
        """The same P as successor lists."""
        dtype = np.dtype(self.agent.probability.dtype)
        return BlockedTransition.build(
            self.coordinates(), (self.num_actions, self.num_states, self.num_states), dtype
        )

    def joined(self) -> MoversTransition:
        return MoversTransition(self.agent.joined(), self.teammate.joined(), merged(self.solved))


def _row_moved(pairs: Array, going: Array, actions: Array, index: Array, weight: Array) -> Array:
    """Where the agent arrives in one cell [N, B], by the rows `index` [A, Q] of `pairs` [N, N, B] that are `going`."""
    total = jnp.zeros(pairs.shape[1:], pairs.dtype)
    for a in range(index.shape[0]):
        own = (actions == a).astype(pairs.dtype)
        for q in range(index.shape[1]):
            place, share = index[a, q], weight[a, q]
            total += jnp.where(going[place][:, None], pairs[place], 0) * (own * share)[None, :]
    return total


def _columns_moved(rows: Array, index: Array, weight: Array) -> Array:
    """sum_q weight[m, q] rows[index[m, q]] for rows [N, B]; a loop, or XLA would make `rows` anew in every term."""

    def add(q: Array, total: Array) -> Array:
        return total + rows.at[index[:, q]].get(mode="promise_in_bounds") * weight[:, q, None]

    return jax.lax.fori_loop(0, index.shape[1], add, jnp.zeros_like(rows))


def _chosen(lists: SuccessorLists, action: Array) -> SuccessorLists:
    """The lists of one action, as those of a model with one action."""
    names = [part.name for part in dataclasses.fields(lists) if part.name != "hub"]
    return dataclasses.replace(lists, **{name: getattr(lists, name)[action][None] for name in names})


def _rows_merged(arrived: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of successors [X, S] as sorted coordinates (x, y, p), each entry once."""
    order = np.argsort(arrived, axis=1, kind="stable")
    arrived, weight = np.take_along_axis(arrived, order, 1), np.take_along_axis(weight, order, 1)
    for place in range(1, arrived.shape[1]):  # what arrives at one state adds up in its last entry
        same = arrived[:, place] == arrived[:, place - 1]
        weight[:, place] += np.where(same, weight[:, place - 1], 0)
        weight[:, place - 1] = np.where(same, 0, weight[:, place - 1])
    x, place = np.nonzero(weight)
    return x, arrived[x, place].astype(np.int64), weight[x, place]
