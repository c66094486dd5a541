"""A table of upper bounds, tightened at the beliefs that walks visit.

    U(b) = max_a R(b, a) + γ sum_z P(z | b, a) U(b after a, z)

U of a visited belief comes from the table, that of any other from the fast informed bound. The beliefs of a walk are
updated in reverse order, so that a bound found at its end reaches its start, and again while bounds fall. Where few
beliefs are visited repeatedly, in a nearly deterministic model, the bounds close; elsewhere they close near the start,
where it counts most.

Beliefs are identified by `MARKS` random projections, which are linear: the projections of all successors cost no more
than some rows of scores. Two beliefs count as equal if none of their projections differs by more than `CLOSE`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.model import POMDP
from jatpo.solve.backup import BlockPlan, Vectors, best_by_observation, by_observation, grouped
from jatpo.solve.compiling import jit
from jatpo.solve.problem import Problem

MARKS = 6
CLOSE = 1e-5
BATCH = 64  # beliefs whose successors are computed together
SWEEPS = 20  # over the beliefs of a walk at most: where they are each other's successors, one is not enough
NEIGHBOURS = 3  # entries of the table that are compared
CAPACITY = 1 << 14  # of the table


class Table(NamedTuple):
    """Visited beliefs, in the order of their first mark; unused entries have infinite marks and values."""

    marks: Any  # [M, N]
    value: Any  # [N]
    action: Any  # [N] int32, the one that may attain it


class Successors(NamedTuple):
    """The successors of n beliefs: branches of positive probability, each of an action and a belief; on the host."""

    reward: np.ndarray  # [A, n]
    action: np.ndarray  # [m]
    belief: np.ndarray  # [m], its column, in order
    evidence: np.ndarray  # [m], the probability of the observation
    marks: np.ndarray  # [M, m]
    upper: np.ndarray  # [m], the fast informed bound there, times the evidence


def empty(dtype: np.dtype, capacity: int = CAPACITY) -> Table:
    """A table without entries; the last of its places is never used."""
    marks = np.full((MARKS, capacity), np.inf, dtype)
    return Table(marks, np.full(capacity, np.inf, dtype), np.zeros(capacity, np.int32))


def projections(problem: Problem) -> np.ndarray:
    """Fixed random rows [M, X], in which different beliefs do not coincide; 0 for states that only pad the model."""
    real, model = len(problem.reachable), problem.model
    rows = np.random.default_rng(0).normal(size=(MARKS, real)).astype(model.dtype)
    return np.pad(rows, ((0, 0), (0, model.num_states - real)))


def find(table: Table, marks: Any, xp: ModuleType = jnp) -> Any:
    """Where the beliefs with `marks` [M, ...] are in the table; N - 1, an unused place, for those not there."""
    last = table.value.shape[0] - 1
    first = xp.searchsorted(table.marks[0], marks[0] - CLOSE)
    place = xp.full_like(first, last)
    for k in range(NEIGHBOURS):
        at = xp.minimum(first + k, last)
        same = xp.all(xp.abs(table.marks[:, at] - marks) <= CLOSE, axis=0)
        place = xp.where(same & (place == last), at, place)
    return place


def gap_by_observation(
    plan: BlockPlan,
    upper: Array,
    vectors: Vectors,
    table: Table,
    marking: Array,
    predicted: Array,
    actions: Array,
) -> Array:
    """The gap of the bounds after each observation, times its probability [Z, W], in the plan's order.

    For predicted beliefs [X, W] under `actions` [W].
    """
    groups = jnp.arange(plan.order.shape[0], dtype=jnp.int32)[:, None, None]
    own = jnp.minimum(actions, groups.shape[0] - 1)[None, None, :] == groups
    weights = jnp.pad(jnp.where(own, predicted[None], 0), ((0, 0), (0, 1), (0, 0)))
    rows = jnp.concatenate([jnp.ones_like(upper[:1]), marking, upper])
    evidence, marks, bound = _split(jnp.moveaxis(jnp.sum(by_observation(plan, weights, rows), axis=0), 1, 0))
    bound = jnp.minimum(bound, evidence * table.value[find(table, marks)])
    lower = jnp.sum(best_by_observation(plan, weights, vectors), axis=0)
    return jnp.where(evidence > 0, jnp.maximum(bound - lower, 0), 0)


def _split(seen: Array) -> tuple[Array, Array, Array]:
    """Evidence, marks [M, ...] and the best of the upper vectors, from the scores [1 + M + A, ...] of such rows."""
    evidence = seen[0]
    marks = seen[1 : 1 + MARKS] / jnp.where(evidence > 0, evidence, 1)[None]
    return evidence, marks, jnp.max(seen[1 + MARKS :], axis=0)


def _successors(
    model: POMDP, plan: BlockPlan, upper: Array, marking: Array, beliefs: Array, columns: Array
) -> tuple[Array, Array, Array, Array]:
    """R(b, a) [A, W], and evidence, marks and bound of the successors: [A, Z, W], [M, A, Z, W], [A, Z, W]."""
    beliefs = beliefs[:, columns]
    weights = grouped(plan, model.transition.predict_all(beliefs))
    rows = jnp.concatenate([jnp.ones_like(upper[:1]), marking, upper])
    seen = jnp.moveaxis(by_observation(plan, weights, rows), 2, 0)  # [n, D, Z, A W / D]
    seen = seen.reshape(*seen.shape[:3], -1, beliefs.shape[1])  # [n, D, Z, A / D, W]
    seen = jnp.swapaxes(seen, 2, 3).reshape(rows.shape[0], model.num_actions, -1, beliefs.shape[1])
    return model.reward.T @ beliefs, *_split(seen)


jit_successors = jit(_successors)


def successors(
    problem: Problem, upper: Array | np.ndarray, marking: np.ndarray, beliefs: Array, columns: np.ndarray
) -> Successors:
    """The successors of the `columns` of `beliefs` [X, B]."""
    parts = []
    for first in range(0, len(columns), BATCH):
        chosen = np.resize(columns[first : first + BATCH], BATCH).astype(np.int32)
        found = jit_successors(problem.model, problem.plan, upper, marking, beliefs, chosen)
        reward, evidence, marks, upper_at = (np.asarray(part) for part in found)
        real = len(columns[first : first + BATCH])
        belief, action, z = np.nonzero(np.moveaxis(evidence, 2, 0)[:real] > 0)
        at = (action, z, belief)
        parts.append((reward[:, :real], action, belief + first, evidence[at], marks[:, *at], upper_at[at]))
    return Successors(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))


def tighten(
    problem: Problem, upper: Array, table: Table, visited: Array, lower: np.ndarray, slack: float
) -> tuple[Table, np.ndarray]:
    """The table after a walk, and U of the beliefs [T, W] that its first W walkers, the guided ones, visited.

    `visited` [T, X, W + N] are the beliefs of all walkers, and `lower` [T, W] are the values of those of the first W.

    `slack` is added at each step, for rounding. Beliefs at which the bounds meet are skipped.
    """
    marking = projections(problem)
    beliefs, marks, bound = jit_marks(marking, upper, visited, lower.shape[1])  # [X, T W], [M, T W], [T W]
    marks, bound = np.asarray(marks), np.asarray(bound)
    known = np.minimum(bound, table.value[find(table, marks, np)])
    first = _distinct(marks, np.flatnonzero(known - lower.ravel() > slack))
    if not len(first):
        return table, known.reshape(lower.shape)
    ahead = successors(problem, upper, marking, beliefs, first)
    table = _with_new(table, marks[:, first], bound[first])
    place, after = find(table, marks[:, first], np), find(table, ahead.marks, np)
    step = first // lower.shape[1]
    groups = [slice(*np.searchsorted(step, [t, t + 1])) for t in np.unique(step)[::-1]]
    value, action, discount = table.value.copy(), table.action.copy(), float(problem.model.discount)
    for _ in range(SWEEPS):
        before = value.copy()
        for now in groups:
            q = _look_ahead(ahead, now, after, value, discount)
            kept = place[now] < len(value) - 1
            found = (q.max(axis=0) + slack).astype(value.dtype)
            np.minimum.at(value, place[now][kept], found[kept])
            action[place[now][kept]] = q.argmax(axis=0)[kept]
        if not np.any(value < before - slack):
            break
    table = Table(table.marks, value, action)
    return table, np.minimum(known, value[find(table, marks, np)]).reshape(lower.shape)


def _look_ahead(
    ahead: Successors, columns: slice, after: np.ndarray, value: np.ndarray, discount: float
) -> np.ndarray:
    """The upper bound on q of the beliefs `columns` [A, n]; `after` [m] is where each branch is in `value` [N]."""
    branches = slice(*np.searchsorted(ahead.belief, [columns.start, columns.stop]))
    bound = np.minimum(ahead.upper[branches], ahead.evidence[branches] * value[after[branches]])
    reward = ahead.reward[:, columns]
    cell = ahead.action[branches] * reward.shape[1] + ahead.belief[branches] - columns.start
    total = np.bincount(cell, weights=bound, minlength=reward.size)
    return reward + discount * total.reshape(reward.shape)


def _marks(marking: Array, upper: Array, visited: Array, walkers: int) -> tuple[Array, Array, Array]:
    """Beliefs of the first W walkers as columns [X, T W], their marks [M, T W] and fast informed bound [T W]."""
    beliefs = jnp.moveaxis(visited[:, :, :walkers], 0, 1).reshape(visited.shape[1], -1)
    return beliefs, marking @ beliefs, jnp.max(upper @ beliefs, axis=0)


jit_marks = jit(_marks, static_argnames="walkers")


def _distinct(marks: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Those of `columns` of marks [M, n] that are the first with their marks, in order."""
    _, first = np.unique(np.round(marks[:, columns] / CLOSE), axis=1, return_index=True)
    return columns[np.sort(first)]


def _with_new(table: Table, marks: np.ndarray, bound: np.ndarray) -> Table:
    """The table with those beliefs of `marks` [M, n] and `bound` [n] that it lacks, as many as it has room for."""
    last = len(table.value) - 1
    lacking = np.flatnonzero(find(table, marks, np) == last)
    used = int(np.sum(np.isfinite(table.value)))
    chosen = lacking[: last - used]
    filled = slice(used, used + len(chosen))
    every, value, action = (part.copy() for part in table)
    every[:, filled], value[filled] = marks[:, chosen], bound[chosen]
    order = np.argsort(every[0], kind="stable")
    return Table(every[:, order], value[order], action[order])
