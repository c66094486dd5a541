"""Which weighted candidates are kept: effective sizes, rates, systematic sampling, merging, weighing.

All choose by one rule: candidate i with weight q_i is kept r_i times on average, by systematic sampling, and each copy
has the weight q_i / r_i, so every weight keeps its expectation.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.simulators.simulator_protocol import Simulator, State

ROUNDS = 16  # at most, of the search for the threshold c; it approaches from above, and any that is reached will do
LANES = 32  # sums that are added up side by side, which takes a third of the time of one after the other


def effective_size(weights: Array) -> Array:
    """1 / sum_i w_i^2 for weights [P] of sum 1: []."""
    return 1 / jnp.maximum(jnp.sum(weights**2), jnp.finfo(weights.dtype).tiny)


def systematic(key: Array, weights: Array, rates: Array, count: int) -> tuple[Array, Array]:
    """`count` places of candidates [M] that are taken `rates` [M] times on average, and the weights of the copies.

    One uniform number places `count` marks at distance 1 along the cumulated rates. Where the rates sum to less than
    `count`, the last places are not used: weight 0.
    """
    rates = jax.lax.stop_gradient(rates)
    reach = jnp.cumsum(rates)
    marks = jnp.arange(count, dtype=rates.dtype) + jax.random.uniform(key, (), rates.dtype)
    used = marks < reach[-1]
    chosen = jnp.minimum(_passed(reach, marks), rates.shape[0] - 1)
    rate = rates[chosen]
    used = used & (rate > 0)
    return chosen, jnp.where(used, weights[chosen] / jnp.where(used, rate, 1), 0)


def _passed(reach: Array, marks: Array) -> Array:
    """How many of ascending `reach` [M] are at most as large as each of `marks` [P]: [P] int32.

    First the blocks that end before a mark are counted, then what lies before it in its block: two comparisons with
    sqrt(M) numbers each run through the vector units, and take half the time of a binary search.
    """
    block = math.isqrt(reach.shape[0] - 1) + 1
    rows = jnp.pad(reach, (0, -reach.shape[0] % block), constant_values=jnp.inf).reshape(-1, block)
    full = jnp.sum(rows[None, :, -1] <= marks[:, None], axis=1, dtype=jnp.int32)
    inside = rows[jnp.minimum(full, rows.shape[0] - 1)] <= marks[:, None]
    return jnp.minimum(full * block + jnp.sum(inside, axis=1, dtype=jnp.int32), reach.shape[0])


def draw_rows(key: Array, weights: Array) -> tuple[Array, Array]:
    """A place of every row of weights [M, C], drawn by them, [M] int32; and the log of its probability [M]."""
    reach = jnp.cumsum(weights, axis=1)
    marks = jax.random.uniform(key, reach.shape[:1], reach.dtype) * reach[:, -1]
    found = jax.vmap(lambda own, mark: jnp.searchsorted(own, mark, side="right"))(reach, marks)
    places = jnp.minimum(found, reach.shape[1] - 1).astype(jnp.int32)
    share = jnp.take_along_axis(weights, places[:, None], axis=1)[:, 0] / reach[:, -1]
    return places, jnp.log(share)


def proportional(weights: Array, count: int) -> Array:
    """Rates [M] in proportion to the weights, of sum `count`."""
    total = jnp.sum(weights)
    exact = weights / jnp.where(total > 0, total, 1) * count
    return jax.lax.stop_gradient(exact)


def threshold(weights: Array, count: int) -> Array:
    """min(1, w / c) [M], with c such that they sum to `count`; 1 for all positive weights if there are not so many."""
    weights = jax.lax.stop_gradient(weights)
    positive = weights > 0
    rows = jnp.pad(weights, (0, -weights.shape[0] % LANES)).reshape(-1, LANES)
    fits = _total((rows > 0).astype(weights.dtype)) <= count

    def lower(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        turn, limit, _ = carry
        light = rows < limit
        heavy = rows.size - _total(light.astype(weights.dtype))
        rest = _total(jnp.where(light, rows, 0))
        after = jnp.where(heavy < count, rest / jnp.maximum(count - heavy, 1), limit)
        return turn + 1, after, after < limit

    def goes_on(carry: tuple[Array, Array, Array]) -> Array:
        return (carry[0] < ROUNDS) & carry[2]

    limit = jax.lax.while_loop(goes_on, lower, (jnp.int32(0), _total(rows) / count, ~fits))[1]
    shared = jnp.minimum(1, weights / jnp.where(limit > 0, limit, 1))
    return jnp.where(fits, positive.astype(weights.dtype), jnp.where(positive, shared, 0))


def _total(rows: Array) -> Array:
    """The sum of all numbers in rows [R, LANES]."""
    return jnp.sum(jnp.sum(rows, axis=0))


def merged_states(model: Simulator, states: State, weights: Array) -> tuple[State, Array]:
    """The same states [M, ...] sorted by code, each with all of its weight in its first place."""
    codes = jax.vmap(model.code)(states)
    codes = jnp.where(weights > 0, codes, jnp.iinfo(codes.dtype).max)
    order = jnp.argsort(codes)
    codes, weights = codes[order], weights[order]
    first = jnp.concatenate([jnp.ones(1, bool), codes[1:] != codes[:-1]])
    place = jnp.cumsum(first, dtype=jnp.int32) - 1
    sums = jax.ops.segment_sum(weights, place, weights.shape[0], indices_are_sorted=True)
    states = jax.tree.map(lambda leaf: leaf[order], states)
    return states, jnp.where(first, sums[place], 0)


def weighed(
    model: Simulator, states: State, weights: Array, action: Array, observation: Any
) -> tuple[Array, Array]:
    """Weights [M] times the likelihood of the observation, 0 in final states, of sum 1; and the log of their sum [].

    Where nothing explains the observation, all weights are 0 and the logarithm is -inf.
    """

    def of_state(state: State) -> Array:
        log_likelihood = model.log_observation(state, action, observation)
        return jnp.where(model.final(state), -jnp.inf, log_likelihood)

    logs = jax.vmap(of_state)(states)
    possible = (logs > -jnp.inf) & (weights > 0)
    peak = jax.lax.stop_gradient(jnp.max(jnp.where(possible, logs, -jnp.inf)))
    some = peak > -jnp.inf
    peak = jnp.where(some, peak, 0)
    product = jnp.where(
        possible, weights * jnp.exp(jnp.where(possible, logs - peak, 0)).astype(weights.dtype), 0
    )
    total = jnp.where(some, jnp.sum(product), 1)
    return product / total, jnp.where(some, jnp.log(total) + peak.astype(weights.dtype), -jnp.inf)
