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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import blocks
from jatpo.model import POMDP
from jatpo.solve.policy import NEVER
from jatpo.storage import select

TILE = 128  # vectors scored at once
FIRST_ROOM = 1024  # for vectors; more is made when it runs out
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
    spread: Array  # [D, G, M + 1], O(z | block) of the observations that many blocks can give; the last is 1
    single: Array  # [D, Z - M] int32, the block of each observation that one block alone can give
    weight: Array  # [D, Z - M], and its probability there
    table: Array  # [D, Z, X], O(z | y, a), in this order of observations: first the M, then the others


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RevealingPlan:
    """Every observation is possible in one state only: there is nothing to plan."""


Plan = ClassPlan | RevealingPlan


def make_plans(models: Sequence[POMDP]) -> list[Plan]:
    """The scoring plans of `models`, of one shape where the models have one; runs on the host."""
    drafts = [_draft(model) for model in models]
    most = max((len(states) for cuts, _ in filter(None, drafts) for states, _ in cuts), default=0)
    widest = max((states.shape[1] for cuts, _ in filter(None, drafts) for states, _ in cuts), default=0)
    groups = max((len(cuts) for cuts, _ in filter(None, drafts)), default=0)
    return [
        RevealingPlan() if draft is None else _lay_out(model, *draft, (groups, most, widest))
        for model, draft in zip(models, drafts, strict=True)
    ]


def make_plan(model: POMDP) -> Plan:
    """The scoring plan of one model."""
    return make_plans([model])[0]


Cut = tuple[np.ndarray, np.ndarray]


def _draft(model: POMDP) -> tuple[list[Cut], np.ndarray] | None:
    """States cut into blocks of one class, for each action or once, and O[d, y, z]; None if O betrays the state."""
    a, _, z, _ = coordinates = model.to_sparse().observation
    if len(np.unique(a * model.num_observations + z)) == len(z):
        return None
    rows = blocks.observation_blocks(coordinates, model.num_actions, model.num_states, np.dtype(model.dtype))
    options = [[_cut(kind, width) for kind in rows["kind"]] for width in WIDTHS]
    cost = [max(len(states) for states, _ in cuts) * (n + model.num_observations) for cuts, n in zip(options, WIDTHS, strict=True)]
    dense = np.zeros((len(rows["symbol"]), model.num_observations))
    np.add.at(dense, (np.arange(len(dense))[:, None], rows["symbol"]), rows["probability"])
    return options[int(np.argmin(cost))], dense[rows["kind"]]


def _lay_out(model: POMDP, cuts: list[Cut], rows: np.ndarray, sizes: tuple[int, int, int]) -> ClassPlan:
    """The plan with its arrays padded to `sizes`: groups, blocks, states in a block."""
    num_states, num_observations = rows.shape[1:]
    order = np.full(sizes, num_states, np.int32)
    spread = np.zeros((*sizes[:2], num_observations))
    for d in range(sizes[0]):
        states, _ = cuts[min(d, len(cuts) - 1)]
        order[d, : len(states), : states.shape[1]] = states
        spread[d, : len(states)] = rows[min(d, len(rows) - 1), states[:, 0]]
    givers = (spread > 0).sum(axis=1).max(axis=0)  # [Z]
    many, few = np.flatnonzero(givers > 1), np.flatnonzero(givers <= 1)
    single = spread[:, :, few].argmax(axis=1)
    weight = np.take_along_axis(spread[:, :, few], single[:, None], axis=1)[:, 0]
    ones = (order[:, :, :1] < num_states).astype(float)
    table = np.broadcast_to(np.swapaxes(rows, 1, 2), (sizes[0], num_observations, num_states))
    return ClassPlan(
        jnp.asarray(order),
        jnp.asarray(np.concatenate([spread[:, :, many], ones], axis=2), model.dtype),
        jnp.asarray(single, jnp.int32),
        jnp.asarray(weight, model.dtype),
        jnp.asarray(table[:, np.concatenate([many, few])], model.dtype),
    )


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


def fill(alpha: np.ndarray, action: np.ndarray, num_states: int, room: int = FIRST_ROOM) -> Vectors:
    """A buffer that holds alpha [n, X or 1] with `action` [n]; runs on the host."""
    count = len(alpha)
    room = -(-max(count, room) // TILE) * TILE
    buffer = np.full((room, num_states), NEVER, np.asarray(alpha).dtype)
    buffer[:count] = alpha
    actions = np.zeros(room, np.int32)
    actions[:count] = action
    return Vectors(jnp.asarray(buffer), jnp.asarray(actions), jnp.asarray(count, jnp.int32))


def grow(vectors: Vectors) -> Vectors:
    """The same vectors with twice the room; runs on the host."""
    count = int(vectors.count)
    alpha, action = np.asarray(vectors.alpha[:count]), np.asarray(vectors.action[:count])
    return fill(alpha, action, alpha.shape[1], room=2 * vectors.alpha.shape[0])


def backup(model: POMDP, plan: Plan, beliefs: Array, vectors: Vectors) -> tuple[Array, Array, Array]:
    """The backed-up vectors at `beliefs` [X, B]: alpha [B, X], action [B], value [B]."""
    if isinstance(plan, RevealingPlan):
        return _backup_revealing(model, beliefs, vectors)
    predicted = model.transition.push_all(beliefs)  # [A, X, B]
    q = model.reward.T @ beliefs + model.discount * _best_scores(plan, predicted, vectors)  # [A, B]
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


def _tile_sums(order: Array, weights: Array, tile: Array) -> Array:
    """sum_y weights(y, m) v(y) within each block of states: [G, TILE, M]."""
    return jnp.einsum("gnt,gnm->gtm", tile[order], weights[order])


def _tile_scores(sums: Array, spread: Array) -> Array:
    """sum_y O(z | y) weights(y, m) v(y) for the observations that many blocks can give: [M + 1, TILE, M]."""
    return (spread.T @ sums.reshape(sums.shape[0], -1)).reshape(-1, *sums.shape[1:])


def _number_of_tiles(vectors: Vectors) -> Array:
    return (vectors.count + TILE - 1) // TILE


def _best_scores(plan: ClassPlan, predicted: Array, vectors: Vectors) -> Array:
    """max_v sum_y O(z | y, a) predicted_a(y) v(y), summed over observations: [A, B]."""
    num_actions, _, size = predicted.shape
    weights = _grouped(plan, predicted)

    def of_group(order: Array, spread: Array, weights: Array, tile: Array) -> tuple[Array, Array]:
        sums = _tile_sums(order, weights, tile)
        return jnp.max(_tile_scores(sums, spread), axis=1), jnp.max(sums, axis=1)

    def improve(t: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        tile = _tile(vectors, t * TILE)
        found = jax.vmap(of_group, in_axes=(0, 0, 0, None))(plan.order, plan.spread, weights, tile)
        return jax.tree.map(jnp.maximum, best, found)

    groups, _, columns = weights.shape
    shapes = ((groups, plan.spread.shape[2], columns), (groups, plan.order.shape[1], columns))
    start = tuple(jnp.full(shape, -jnp.inf, predicted.dtype) for shape in shapes)
    many, blocks_best = jax.lax.fori_loop(0, _number_of_tiles(vectors), improve, start)
    few = jnp.take_along_axis(blocks_best, plan.single[:, :, None], axis=1)
    total = jnp.sum(many[:, :-1], axis=1) + jnp.sum(few * plan.weight[:, :, None], axis=1)  # [D, columns]
    return total.reshape(num_actions, size)


def _best_vectors(plan: ClassPlan, predicted: Array, action: Array, vectors: Vectors) -> Array:
    """The vector that scores best for each observation, in the plan's order, under the chosen action [Z, B].

    An observation that cannot follow takes the vector that is best for the whole prediction.
    """
    chosen = select(predicted, action)  # [X, B]
    weights = jnp.pad(chosen, ((0, 1), (0, 0)))
    groups, num_blocks = plan.order.shape[:2]

    def of_group(order: Array, spread: Array, tile: Array) -> Array:
        sums = _tile_sums(order, weights, tile)
        return jnp.concatenate([_tile_scores(sums, spread), sums])  # [M + 1 + G, TILE, B]

    def improve(t: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        best, index = carry
        tile = _tile(vectors, t * TILE)
        scores = jax.vmap(of_group, in_axes=(0, 0, None))(plan.order, plan.spread, tile)
        top = jnp.max(scores, axis=2)
        place = _first(scores == top[:, :, None, :]) + t * TILE
        return jnp.maximum(best, top), jnp.where(top > best, place, index)

    shape = (groups, plan.spread.shape[2] + num_blocks, action.shape[0])
    start = (jnp.full(shape, -jnp.inf, chosen.dtype), jnp.zeros(shape, jnp.int32))
    _, index = jax.lax.fori_loop(0, _number_of_tiles(vectors), improve, start)
    few = jnp.take_along_axis(index[:, -num_blocks:], plan.single[:, :, None], axis=1)
    index = jnp.concatenate([index[:, : -num_blocks - 1], few, index[:, -num_blocks - 1 : -num_blocks]], axis=1)
    index = select(index, jnp.minimum(action, groups - 1))  # [Z + 1, B]
    rows = _rows_of(plan, action)
    seen = rows[0] @ chosen if rows.shape[0] == 1 else jnp.einsum("bzx,xb->zb", rows, chosen)
    return jnp.where(seen > 0, index[:-1], index[-1:])


def _first(holds: Array) -> Array:
    """The first index along axis 2 at which `holds`; a plain argmax does not vectorise on a CPU."""
    index = jnp.arange(holds.shape[2], dtype=jnp.int32)[None, None, :, None]
    return jnp.min(jnp.where(holds, index, holds.shape[2]), axis=2)


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


jit_backup = jax.jit(backup)
