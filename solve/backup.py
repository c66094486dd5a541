"""The point-based backup, for a batch of beliefs at once (Spaan & Vlassis 2005, eq. 12-15).

For a belief b and vectors v, with predicted_a = b P_a:

    q(b, a)  = R(b, a) + γ sum_z max_v sum_y O(z | y, a) predicted_a(y) v(y)
    alpha(x) = R(x, a) + γ sum_y P(y | x, a) sum_z O(z | y, a) v_z(y)    for the best action and its best v_z

How the scores are computed is laid down in a plan, which `jatpo.solve.scoring` makes. All actions are scored for
their value alone; the best vectors are then sought for the best action only.

Beliefs are columns [X, B], vectors rows [V, X] of a buffer with a count; padding is `NEVER`. The vectors are
scored in tiles, so the cost follows the count and not the capacity, and no shape follows the count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.model import POMDP
from jatpo.pytree import pytree
from jatpo.solve.compiling import jit
from jatpo.solve.policy import NEVER
from jatpo.storage import select

TILE = 128  # vectors scored at once
FIRST_ROOM = 2048  # for vectors; more is made when it runs out


class Vectors(NamedTuple):
    """A buffer of alpha vectors: the first `count` rows are in use, the others hold `NEVER`."""

    alpha: Array  # [V, X]
    action: Array  # [V] int32
    count: Array  # [] int32


def fill(alpha: np.ndarray, action: np.ndarray, num_states: int, room: int = FIRST_ROOM) -> Vectors:
    """A buffer that holds alpha [n, X or 1] with `action` [n]; runs on the host."""
    count = len(alpha)
    room = -(-max(count, room) // TILE) * TILE
    buffer = np.full((room, num_states), NEVER, np.asarray(alpha).dtype)
    buffer[:count] = alpha
    actions = np.zeros(room, np.int32)
    actions[:count] = action
    return Vectors(*jax.device_put((buffer, actions, np.int32(count))))


def grow(vectors: Vectors, capacity: int) -> Vectors:
    """The same vectors with twice the room, or room for `capacity`; runs on the host."""
    count = int(vectors.count)
    alpha, action = np.asarray(vectors.alpha[:count]), np.asarray(vectors.action[:count])
    return fill(alpha, action, alpha.shape[1], min(2 * vectors.alpha.shape[0], capacity))


def pack(vectors: Vectors) -> dict[str, np.ndarray]:
    """The vectors in use and the room there is, as arrays for a file."""
    count = int(vectors.count)
    room = np.asarray(vectors.alpha.shape[0])
    alpha, action = (np.asarray(part)[:count] for part in vectors[:2])
    return {"alpha": alpha, "action": action, "room": room}


def unpack(arrays: dict[str, np.ndarray]) -> Vectors:
    """The buffer that was packed into `arrays`."""
    alpha = np.asarray(arrays["alpha"])
    return fill(alpha, np.asarray(arrays["action"]), alpha.shape[1], int(arrays["room"]))


class Plan(Protocol):
    """How to back up the vectors of one model."""

    reveals: ClassVar[bool]  # whether every observation reveals the state

    def backup(self, model: POMDP, beliefs: Array, vectors: Vectors) -> tuple[Array, Array, Array]:
        """The backed-up vectors at `beliefs` [X, B]: alpha [B, X], action [B], value [B]."""
        ...

    def observation_table(self, model: POMDP) -> Array:
        """O(z | y, a) [D, Z, X], in the plan's order of observations."""
        ...


@pytree
@dataclass(frozen=True)
class BlockPlan:
    """Blocks of states and how observations are made of them. D is A, or 1 where O does not depend on the action.

    Observations are reordered: first the M that several blocks can give, then the F that one block gives, then the L
    that one state alone gives.
    """

    order: Array  # [D, G, n] int32, the states of each block; X stands for padding
    entry: Array  # [D, G, n], a weight for each of them
    spread: Array  # [D, G, M], how much of a block's sum goes to each of the first M observations
    block: Array  # [D, F] int32, the block of each of the next F
    share: Array  # [D, F], how much of its sum
    state: Array  # [D, L] int32, the state of each of the last L
    table: Array  # [D, Z, X], O(z | y, a) in the new order
    listed: Array  # [D, X, L] int32, the observations of a state, where they are few; otherwise L = 0
    reveals: ClassVar[bool] = False

    def backup(self, model: POMDP, beliefs: Array, vectors: Vectors) -> tuple[Array, Array, Array]:
        """The backed-up vectors at `beliefs` [X, B]: alpha [B, X], action [B], value [B]."""
        predicted = model.transition.predict_all(beliefs)  # [A, X, B]
        scores = best_by_observation(self, grouped(self, predicted), vectors)  # [D, Z, A B / D]
        q = model.reward.T @ beliefs + model.discount * jnp.sum(scores, axis=1).reshape(-1, beliefs.shape[1])
        action = jnp.argmax(q, axis=0).astype(jnp.int32)
        choice = _best_vectors(self, predicted, action, vectors)  # [Z, B]
        alpha = _assemble(model, self, action, choice, vectors)
        return alpha, action, jnp.max(q, axis=0)

    def observation_table(self, model: POMDP) -> Array:
        """O(z | y, a) [D, Z, X], in the plan's order of observations."""
        del model
        return self.table


@pytree
@dataclass(frozen=True)
class RevealingPlan:
    """Every observation reveals the state: one vector for each action serves all beliefs."""

    reveals: ClassVar[bool] = True

    def backup(self, model: POMDP, beliefs: Array, vectors: Vectors) -> tuple[Array, Array, Array]:
        """The backed-up vectors at `beliefs` [X, B]: alpha [B, X], action [B], value [B]."""
        after = jnp.max(vectors.alpha, axis=0)
        alpha = (model.reward + model.discount * model.transition.expect(after)).T  # [A, X]
        q = alpha @ beliefs
        action = jnp.argmax(q, axis=0).astype(jnp.int32)
        return alpha[action], action, jnp.max(q, axis=0)

    def observation_table(self, model: POMDP) -> Array:
        """O(z | y, a) [D, Z, X]."""
        return jnp.swapaxes(model.observation.table(model.num_actions), 1, 2)


def backup(model: POMDP, plan: Plan, beliefs: Array, vectors: Vectors) -> tuple[Array, Array, Array]:
    """The backed-up vectors at `beliefs` [X, B]: alpha [B, X], action [B], value [B]."""
    return plan.backup(model, beliefs, vectors)


def grouped(plan: BlockPlan, predicted: Array) -> Array:
    """`predicted` [A, X, B] as [D, X, A B / D], a row of zeros added for padding."""
    num_actions, num_states, size = predicted.shape
    if plan.order.shape[0] == 1:
        predicted = jnp.swapaxes(predicted, 0, 1).reshape(1, num_states, num_actions * size)
    return jnp.pad(predicted, ((0, 0), (0, 1), (0, 0)))


def _tile(vectors: Vectors, start: Array) -> Array:
    """A tile of vectors as columns [X + 1, TILE], the last row 0."""
    rows = jax.lax.dynamic_slice_in_dim(vectors.alpha, start, TILE)
    return jnp.pad(rows.T, ((0, 1), (0, 0)))


def _sums(order: Array, entry: Array, weights: Array, tile: Array) -> Array:
    """sum_y entry(y) weights(y, m) v(y) within each block, for a tile of vectors: [G, TILE, m]."""
    return jnp.einsum("gnt,gnm->gtm", tile[order], weights[order] * entry[:, :, None])


def _combined(sums: Array, spread: Array) -> Array:
    """The scores of the observations that several blocks can give [M, TILE, m]."""
    return (spread.T @ sums.reshape(sums.shape[0], -1)).reshape(-1, *sums.shape[1:])


def _number_of_tiles(vectors: Vectors) -> Array:
    return (vectors.count + TILE - 1) // TILE


def best_by_observation(plan: BlockPlan, weights: Array, vectors: Vectors) -> Array:
    """max_v sum_y O(z | y) weights(y) v(y) for every observation, in the plan's order, and column [D, Z, m].

    `weights` [D, X + 1, m] end in a row of zeros.
    """

    def of_group(
        order: Array, entry: Array, spread: Array, weights: Array, tile: Array
    ) -> tuple[Array, Array]:
        sums = _sums(order, entry, weights, tile)
        return jnp.max(_combined(sums, spread), axis=1), jnp.max(sums, axis=1)

    def improve(t: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        lift = jax.vmap(of_group, in_axes=(0, 0, 0, 0, None))
        found = lift(plan.order, plan.entry, plan.spread, weights, _tile(vectors, t * TILE))
        return jnp.maximum(best[0], found[0]), jnp.maximum(best[1], found[1])

    groups, _, columns = weights.shape
    sizes = (plan.spread.shape[2], plan.order.shape[1])
    start = tuple(jnp.full((groups, rows, columns), -jnp.inf, weights.dtype) for rows in sizes)
    many, in_block = jax.lax.fori_loop(0, _number_of_tiles(vectors), improve, start)
    few = jnp.take_along_axis(in_block, plan.block[:, :, None], axis=1) * plan.share[:, :, None]
    top = jnp.max(vectors.alpha[:, plan.state], axis=0)  # [D, L]
    return jnp.concatenate([many, few, _lone(plan, weights) * top[:, :, None]], axis=1)


def by_observation(plan: BlockPlan, weights: Array, rows: Array) -> Array:
    """sum_y O(z | y) weights(y) row(y) for each of `rows` [n, X], every observation and column [D, Z, n, m]."""
    tile = jnp.pad(rows.T, ((0, 1), (0, 0)))

    def of_group(order: Array, entry: Array, spread: Array, block: Array, weights: Array) -> Array:
        sums = _sums(order, entry, weights, tile)
        return jnp.concatenate([_combined(sums, spread), sums[block]])

    whole = jax.vmap(of_group)(plan.order, plan.entry, plan.spread, plan.block, weights)
    share = jnp.pad(plan.share, ((0, 0), (plan.spread.shape[2], 0)), constant_values=1)
    at_states = jnp.moveaxis(rows[:, plan.state], 0, -1)  # [D, L, n]
    lone = _lone(plan, weights)[:, :, None, :] * at_states[:, :, :, None]
    return jnp.concatenate([whole * share[:, :, None, None], lone], axis=1)


def _lone(plan: BlockPlan, weights: Array) -> Array:
    """O(z | y) weights(y) for the observations that one state y alone can give [D, L, m]."""
    rows = plan.table[:, plan.table.shape[1] - plan.state.shape[1] :]
    probability = jnp.take_along_axis(rows, plan.state[:, :, None], axis=2)
    return jnp.take_along_axis(weights, plan.state[:, :, None], axis=1) * probability


def _best_vectors(plan: BlockPlan, predicted: Array, action: Array, vectors: Vectors) -> Array:
    """The vector that scores best for each observation, in the plan's order, under the chosen action [Z, B].

    An observation that cannot follow takes the vector of the most likely one.
    """
    chosen = select(predicted, action)  # [X, B]
    weights = jnp.pad(chosen, ((0, 1), (0, 0)))
    groups, num_blocks = plan.order.shape[:2]

    def of_group(order: Array, entry: Array, spread: Array, tile: Array) -> Array:
        sums = _sums(order, entry, weights, tile)
        return jnp.concatenate([_combined(sums, spread), sums])  # [M + G, TILE, B]

    def improve(t: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        best, index = carry
        tile = _tile(vectors, t * TILE)
        scores = jax.vmap(of_group, in_axes=(0, 0, 0, None))(plan.order, plan.entry, plan.spread, tile)
        top = jnp.max(scores, axis=2)
        place = _first(scores == top[:, :, None, :]) + t * TILE
        return jnp.maximum(best, top), jnp.where(top > best, place, index)

    shape = (groups, plan.spread.shape[2] + num_blocks, action.shape[0])
    start = (jnp.full(shape, -jnp.inf, chosen.dtype), jnp.zeros(shape, jnp.int32))
    _, index = jax.lax.fori_loop(0, _number_of_tiles(vectors), improve, start)
    many, in_block = jnp.split(index, [plan.spread.shape[2]], axis=1)
    few = jnp.take_along_axis(in_block, plan.block[:, :, None], axis=1)
    in_state = jnp.argmax(vectors.alpha[:, plan.state], axis=0).astype(jnp.int32)  # [D, L]
    lone = jnp.broadcast_to(in_state[:, :, None], (*in_state.shape, action.shape[0]))
    index = select(jnp.concatenate([many, few, lone], axis=1), jnp.minimum(action, groups - 1))  # [Z, B]
    rows = _rows_of(plan, action)
    evidence = rows[0] @ chosen if rows.shape[0] == 1 else jnp.einsum("bzx,xb->zb", rows, chosen)
    likely = jnp.take_along_axis(index, jnp.argmax(evidence, axis=0)[None, :], axis=0)
    return jnp.where(evidence > 0, index, likely)


def _first(holds: Array) -> Array:
    """The first index along axis 2 at which `holds`; a plain argmax does not vectorise on a CPU."""
    index = jnp.arange(holds.shape[2], dtype=jnp.int32)[None, None, :, None]
    return jnp.min(jnp.where(holds, index, holds.shape[2]), axis=2)


def _rows_of(plan: BlockPlan, action: Array) -> Array:
    """O(z | y, a) under each column's action [B or 1, Z, X]."""
    return plan.table[action] if plan.table.shape[0] > 1 else plan.table


def _assemble(model: POMDP, plan: BlockPlan, action: Array, choice: Array, vectors: Vectors) -> Array:
    """The vector of each column's action and choice of vectors [B, X]."""
    listing = plan.listed.shape[2] > 0
    after = (_after_listed if listing else _after)(plan, action, choice, vectors)  # [B, X]
    pulled = model.transition.expect_columns(after.T, action)  # [X, B]
    return (model.reward[:, action] + model.discount * pulled).T


def _after(plan: BlockPlan, action: Array, choice: Array, vectors: Vectors) -> Array:
    """sum_z O(z | y, a) v_z(y) for each column's action and choice of vectors [B, X]."""
    table = _rows_of(plan, action)

    def add(z: Array, after: Array) -> Array:
        return after + table[:, z] * vectors.alpha[choice[z]]

    nothing = jnp.zeros((action.shape[0], plan.table.shape[2]), vectors.alpha.dtype)
    return jax.lax.fori_loop(0, choice.shape[0], add, nothing)


def _after_listed(plan: BlockPlan, action: Array, choice: Array, vectors: Vectors) -> Array:
    """`_after` where each state has few possible observations: only these are added up."""

    def of_column(action: Array, choice: Array) -> Array:
        group = jnp.minimum(action, plan.listed.shape[0] - 1)
        states = jnp.arange(plan.listed.shape[1], dtype=jnp.int32)[:, None]
        seen = plan.listed[group]  # [X, L]
        return jnp.sum(plan.table[group][seen, states] * vectors.alpha[choice[seen], states], axis=1)

    return jax.vmap(of_column, in_axes=(0, 1))(action, choice)


jit_backup = jit(backup)
