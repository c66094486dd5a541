"""The point-based backup, for a batch of beliefs at once (Spaan & Vlassis 2005, eq. 12-15).

For a belief b and vectors v, with predicted_a = b P_a:

    q(b, a)  = R(b, a) + γ sum_z max_v sum_y O(z | y, a) predicted_a(y) v(y)
    alpha(x) = R(x, a) + γ sum_y P(y | x, a) sum_z O(z | y, a) v_z(y)    for the best action and its best v_z

Scoring all vectors for all observations goes through the classes of O: states with equal rows of O are summed
up first, X V multiply-adds, and only the sums are spread over observations, Z C V instead of Z X V. Classes
are cut into blocks of equal length so that the sums are one batched matrix product.

Where every observation betrays the state, the best vector depends on the state alone and no belief is needed.

Beliefs are columns [X, B], vectors rows [V, X] of a buffer with a count; padding is `NEVER`. The vectors are
scored in tiles, so the cost follows the count and not the capacity, and no shape follows the count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import blocks
from jatpo.model import POMDP
from jatpo.solve.policy import NEVER

TILE = 128  # vectors scored at once
WIDTHS = (1, 2, 4, 8, 16, 32, 64)  # lengths of a block of states


class Vectors(NamedTuple):
    """A buffer of alpha vectors: the first `count` rows are in use, the others hold `NEVER`."""

    alpha: Array  # [V, X]
    action: Array  # [V] int32
    count: Array  # [] int32


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ClassPlan:
    """How to score through observation classes. D is A, or 1 where O does not depend on the action."""

    order: Array  # [D, G, n] int32, states by class, in blocks; X stands for padding
    spread: Array  # [D, G, Z + 1], O(z | class of the block); the last column is 1
    table: Array  # [D, Z, X], O(z | y, a)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RevealingPlan:
    """Every observation is possible in one state only: there is nothing to plan."""


Plan = ClassPlan | RevealingPlan


def make_plan(model: POMDP) -> Plan:
    """The scoring plan of `model`; runs on the host."""
    sparse = model.to_sparse()
    num_actions, num_states, num_observations = model.num_actions, model.num_states, model.num_observations
    a, y, z, _ = sparse.observation
    if len(np.unique(a * num_observations + z)) == len(z):
        return RevealingPlan()
    rows = blocks.observation_blocks(sparse.observation, num_actions, num_states, np.dtype(model.dtype))
    dense = np.zeros((len(rows["symbol"]), num_observations + 1))
    np.add.at(dense, (np.arange(len(dense))[:, None], rows["symbol"]), rows["probability"])
    dense[:, -1] = 1
    options = [[_cut(kind, width) for kind in rows["kind"]] for width in WIDTHS]
    cost = [max(len(order) for order, _ in cuts) * (n + num_observations) for cuts, n in zip(options, WIDTHS, strict=True)]
    cuts = options[int(np.argmin(cost))]
    count = -(-max(len(order) for order, _ in cuts) // 8) * 8  # models of one domain share a shape
    order = np.full((len(cuts), count, cuts[0][0].shape[1]), num_states, np.int32)
    spread = np.zeros((len(cuts), count, num_observations + 1))
    for d, (states, kinds) in enumerate(cuts):
        order[d, : len(states)] = states
        spread[d, : len(states)] = dense[kinds]
    table = np.moveaxis(dense[rows["kind"]][..., :-1], 2, 1)
    return ClassPlan(jnp.asarray(order), jnp.asarray(spread, model.dtype), jnp.asarray(table, model.dtype))


def _cut(kind: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """States [G, width] in blocks of one class, padded with X, and the class of each block [G]."""
    order = np.argsort(kind, kind="stable")
    ranked = kind[order]
    place = np.arange(len(kind)) - np.searchsorted(ranked, ranked)
    starts = place % width == 0
    block = np.cumsum(starts) - 1
    states = np.full((int(starts.sum()), width), len(kind), np.int32)
    states[block, place % width] = order
    return states, ranked[starts]


def empty(capacity: int, num_states: int, dtype: np.dtype) -> Vectors:
    """A buffer for `capacity` vectors, rounded up to whole tiles."""
    capacity = -(-capacity // TILE) * TILE
    alpha = jnp.full((capacity, num_states), NEVER, dtype)
    return Vectors(alpha, jnp.zeros(capacity, jnp.int32), jnp.int32(0))


def backup(model: POMDP, plan: Plan, beliefs: Array, vectors: Vectors) -> tuple[Array, Array, Array]:
    """The backed-up vectors at `beliefs` [X, B]: alpha [B, X], action [B], value [B]."""
    if isinstance(plan, RevealingPlan):
        return _backup_revealing(model, beliefs, vectors)
    predicted = model.transition.push_all(beliefs)  # [A, X, B]
    best = _best_scores(plan, predicted, vectors)  # [A, Z + 1, B]
    q = model.reward.T @ beliefs + model.discount * jnp.sum(best[:, :-1], axis=1)  # [A, B]
    action = jnp.argmax(q, axis=0).astype(jnp.int32)
    choice = _best_vectors(plan, predicted, action, vectors)  # [Z, B]
    alpha = _assemble(model, plan, action, choice, vectors)
    return alpha, action, jnp.max(q, axis=0)


def _grouped(plan: ClassPlan, predicted: Array) -> Array:
    """`predicted` [A, X, B] as [D, X, A B / D], a row of zeros added for padding."""
    num_actions, num_states, size = predicted.shape
    groups = plan.order.shape[0]
    if groups == 1:
        predicted = jnp.swapaxes(predicted, 0, 1).reshape(1, num_states, num_actions * size)
    return jnp.pad(predicted, ((0, 0), (0, 1), (0, 0)))


def _tile(vectors: Vectors, start: Array) -> Array:
    """A tile of vectors as columns [X + 1, TILE], the last row 0."""
    rows = jax.lax.dynamic_slice_in_dim(vectors.alpha, start, TILE)
    return jnp.pad(rows.T, ((0, 1), (0, 0)))


def _tile_scores(order: Array, spread: Array, weights: Array, tile: Array) -> Array:
    """sum_y O(z | y) weights(y, m) v(y) for a tile of vectors: [Z + 1, TILE, M]."""
    sums = jnp.einsum("gnt,gnm->gtm", tile[order], weights[order])
    size, columns = tile.shape[1], weights.shape[1]
    return (spread.T @ sums.reshape(order.shape[0], -1)).reshape(-1, size, columns)


def _number_of_tiles(vectors: Vectors) -> Array:
    return (vectors.count + TILE - 1) // TILE


def _best_scores(plan: ClassPlan, predicted: Array, vectors: Vectors) -> Array:
    """max_v sum_y O(z | y, a) predicted_a(y) v(y) for every action and observation [A, Z + 1, B]."""
    num_actions, _, size = predicted.shape
    weights = _grouped(plan, predicted)

    def improve(t: Array, best: Array) -> Array:
        tile = _tile(vectors, t * TILE)
        scores = jax.vmap(_tile_scores, in_axes=(0, 0, 0, None))(plan.order, plan.spread, weights, tile)
        return jnp.maximum(best, jnp.max(scores, axis=2))

    groups, _, columns = weights.shape
    start = jnp.full((groups, plan.spread.shape[2], columns), -jnp.inf, predicted.dtype)
    best = jax.lax.fori_loop(0, _number_of_tiles(vectors), improve, start)
    if groups == 1:
        best = jnp.swapaxes(best.reshape(-1, num_actions, size), 0, 1)
    return best


def _best_vectors(plan: ClassPlan, predicted: Array, action: Array, vectors: Vectors) -> Array:
    """The vector that scores best for each observation under the chosen action [Z, B].

    An observation that cannot follow takes the vector that is best for the whole prediction.
    """
    chosen = jnp.take_along_axis(predicted, action[None, None, :], axis=0)[0]  # [X, B]
    weights = jnp.pad(chosen, ((0, 1), (0, 0)))

    def improve(t: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        best, index = carry
        tile = _tile(vectors, t * TILE)
        scores = _chosen_scores(plan, weights, tile, action)
        top = jnp.max(scores, axis=1)
        place = _first(scores == top[:, None, :]) + t * TILE
        return jnp.maximum(best, top), jnp.where(top > best, place, index)

    shape = (plan.spread.shape[2], action.shape[0])
    start = (jnp.full(shape, -jnp.inf, chosen.dtype), jnp.zeros(shape, jnp.int32))
    _, index = jax.lax.fori_loop(0, _number_of_tiles(vectors), improve, start)
    rows = _rows_of(plan, action)
    seen = rows[0] @ chosen if rows.shape[0] == 1 else jnp.einsum("bzx,xb->zb", rows, chosen)
    return jnp.where(seen > 0, index[:-1], index[-1:])


def _first(holds: Array) -> Array:
    """The first index along axis 1 at which `holds` [Z, TILE, B]; a plain argmax does not vectorise on a CPU."""
    index = jnp.arange(holds.shape[1], dtype=jnp.int32)[None, :, None]
    return jnp.min(jnp.where(holds, index, holds.shape[1]), axis=1)


def _chosen_scores(plan: ClassPlan, weights: Array, tile: Array, action: Array) -> Array:
    """`_tile_scores` with each column's own action [Z + 1, TILE, B]."""
    if plan.order.shape[0] == 1:
        return _tile_scores(plan.order[0], plan.spread[0], weights, tile)
    scores = jax.vmap(_tile_scores, in_axes=(0, 0, None, None))(plan.order, plan.spread, weights, tile)
    return jnp.take_along_axis(scores, action[None, None, None, :], axis=0)[0]


def _rows_of(plan: ClassPlan, action: Array) -> Array:
    """O(z | y, a) under each column's action [B or 1, Z, X]."""
    return plan.table[action] if plan.table.shape[0] > 1 else plan.table


def _assemble(model: POMDP, plan: ClassPlan, action: Array, choice: Array, vectors: Vectors) -> Array:
    """The vector of each column's action and choice of vectors [B, X]."""
    table = _rows_of(plan, action)

    def add(z: Array, after: Array) -> Array:
        return after + table[:, z] * vectors.alpha[choice[z]]

    after = jnp.zeros((action.shape[0], model.num_states), model.dtype)
    after = jax.lax.fori_loop(0, choice.shape[0], add, after)  # [B, X]
    pulled = model.transition.pull_columns(after.T, action)  # [X, B]
    return (model.reward[:, action] + model.discount * pulled).T


def _backup_revealing(model: POMDP, beliefs: Array, vectors: Vectors) -> tuple[Array, Array, Array]:
    """`backup` where the observation betrays the state: one vector for each action serves all beliefs."""
    after = jnp.max(vectors.alpha, axis=0)
    alpha = (model.reward + model.discount * model.transition.pull(after)).T  # [A, X]
    q = alpha @ beliefs
    action = jnp.argmax(q, axis=0).astype(jnp.int32)
    return alpha[action], action, jnp.max(q, axis=0)
