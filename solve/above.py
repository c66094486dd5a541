"""An upper bound that tightens at the beliefs that walkers meet.

    U(b) = max_a R(b, a) + γ sum_z P(z | b, a) U(b after a, z)

U of a belief that was met before comes from a table, that of any other from the fast informed bound. A walk is gone
over in reverse, so that what was found at its end tells at its start. Where few beliefs are met again and again, in
a nearly deterministic model, the bounds close; elsewhere they close near the start, where it counts most.

Beliefs are told apart by `MARKS` random projections, which are linear: the projections of all the beliefs that may
follow cost no more than some rows of scores. Two beliefs pass for one if none of their projections differs by more
than `CLOSE`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.model import POMDP
from jatpo.solve.backup import Vectors, best_by_observation, by_observation, grouped
from jatpo.solve.compiling import jit
from jatpo.solve.plan import BlockPlan
from jatpo.solve.problem import Problem

MARKS = 6
CLOSE = 1e-5
NEIGHBOURS = 3  # entries of the table that are compared
CAPACITY = 1 << 14  # of the table; the last entry is never used


class Table(NamedTuple):
    """Beliefs met, in the order of their first mark; unused entries have infinite marks and values."""

    marks: Any  # [M, N]
    value: Any  # [N]
    action: Any  # [N] int32, the one that may attain it


class Outlook(NamedTuple):
    """What may follow W beliefs: n branches with positive chance, each of an action and a belief; on the host."""

    reward: np.ndarray  # [A, W]
    branch: np.ndarray  # [n], action · W + belief
    chance: np.ndarray  # [n]
    marks: np.ndarray  # [M, n]
    above: np.ndarray  # [n], the fast informed bound there, times the chance


def empty(dtype: np.dtype) -> Table:
    """A table with nothing in it."""
    marks = np.full((MARKS, CAPACITY), np.inf, dtype)
    return Table(marks, np.full(CAPACITY, np.inf, dtype), np.zeros(CAPACITY, np.int32))


def projections(model: POMDP) -> np.ndarray:
    """Fixed random rows [M, X], in which different beliefs do not coincide."""
    return np.random.default_rng(0).normal(size=(MARKS, model.num_states)).astype(model.dtype)


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


def promise(
    plan: BlockPlan,
    upper: Array,
    vectors: Vectors,
    table: Table,
    marking: Array,
    predicted: Array,
    actions: Array,
) -> Array:
    """How far apart the bounds are after each observation, times its chance [Z, W], in the plan's order.

    For predicted beliefs [X, W] under `actions` [W].
    """
    groups = jnp.arange(plan.order.shape[0], dtype=jnp.int32)[:, None, None]
    own = jnp.minimum(actions, groups.shape[0] - 1)[None, None, :] == groups
    weights = jnp.pad(jnp.where(own, predicted[None], 0), ((0, 0), (0, 1), (0, 0)))
    rows = jnp.concatenate([jnp.ones_like(upper[:1]), marking, upper])
    chance, marks, above = _split(jnp.moveaxis(jnp.sum(by_observation(plan, weights, rows), axis=0), 1, 0))
    above = jnp.minimum(above, chance * table.value[find(table, marks)])
    below = jnp.sum(best_by_observation(plan, weights, vectors), axis=0)
    return jnp.where(chance > 0, jnp.maximum(above - below, 0), 0)


def _split(seen: Array) -> tuple[Array, Array, Array]:
    """Chance, marks [M, ...] and the best of the upper vectors, from the scores [1 + M + A, ...] of such rows."""
    chance = seen[0]
    marks = seen[1 : 1 + MARKS] / jnp.where(chance > 0, chance, 1)[None]
    return chance, marks, jnp.max(seen[1 + MARKS :], axis=0)


def _outlook(
    model: POMDP, plan: BlockPlan, upper: Array, marking: Array, beliefs: Array
) -> tuple[Array, Array, Array, Array]:
    """R(b, a) [A, W], and chance, marks and bound of what may follow: [A, Z, W], [M, A, Z, W], [A, Z, W]."""
    weights = grouped(plan, model.transition.push_all(beliefs))
    rows = jnp.concatenate([jnp.ones_like(upper[:1]), marking, upper])
    seen = jnp.moveaxis(by_observation(plan, weights, rows), 2, 0)  # [n, D, Z, A W / D]
    seen = seen.reshape(*seen.shape[:3], -1, beliefs.shape[1])  # [n, D, Z, A / D, W]
    seen = jnp.swapaxes(seen, 2, 3).reshape(rows.shape[0], model.num_actions, -1, beliefs.shape[1])
    return model.reward.T @ beliefs, *_split(seen)


jit_outlook = jit(_outlook)


def look(problem: Problem, upper: Array, marking: np.ndarray, beliefs: Array) -> Outlook:
    """What may follow `beliefs` [X, W]."""
    found = jit_outlook(problem.model, problem.plan, upper, marking, beliefs)
    reward, chance, marks, above = (np.asarray(part) for part in found)
    action, _, walker = there = np.nonzero(chance > 0)
    return Outlook(reward, action * reward.shape[1] + walker, chance[there], marks[:, *there], above[there])


def tighten(
    problem: Problem,
    upper: Array,
    table: Table,
    met: Array,
    below: np.ndarray,
    slack: float,
) -> tuple[Table, np.ndarray]:
    """The table after a walk that met beliefs [T, X, W] of values `below` [T, W], and U of those [T, W].

    `slack` is added at each step, for rounding.
    """
    steps, _, walkers = met.shape
    marking = projections(problem.model)
    marks, bound = (np.asarray(part) for part in jit_marks(marking, upper, met))  # [M, T, W], [T, W]
    ahead = [look(problem, upper, marking, met[t]) for t in range(steps)]
    known = table.value[find(table, marks, np)]
    table = _with_new(table, marks, bound, (known == np.inf) & (bound - below > slack))
    place = find(table, marks, np)  # [T, W]
    value, action = table.value.copy(), table.action.copy()
    discount = float(problem.model.discount)
    for t in reversed(range(steps)):
        now = ahead[t]
        after = np.minimum(now.above, now.chance * value[find(table, now.marks, np)])
        total = np.bincount(now.branch, weights=after, minlength=now.reward.size).reshape(now.reward.shape)
        q = now.reward + discount * total  # [A, W]
        found = (q.max(axis=0) + slack).astype(value.dtype)
        kept = place[t] < CAPACITY - 1
        np.minimum.at(value, place[t][kept], found[kept])
        action[place[t][kept]] = q.argmax(axis=0)[kept]
    return Table(table.marks, value, action), np.minimum(bound, value[place])


def _marks(marking: Array, upper: Array, met: Array) -> tuple[Array, Array]:
    """The marks [M, T, W] of beliefs [T, X, W], and their fast informed bound [T, W]."""
    return jnp.einsum("mx,txw->mtw", marking, met), jnp.max(jnp.einsum("ax,txw->atw", upper, met), axis=0)


jit_marks = jit(_marks)


def _with_new(table: Table, marks: np.ndarray, bound: np.ndarray, wanted: np.ndarray) -> Table:
    """The table with the beliefs of `marks` [M, T, W] and `bound` [T, W] that are `wanted`, each once, early ones first."""
    order = np.flatnonzero(wanted)
    _, first = np.unique(np.round(marks.reshape(MARKS, -1)[:, order] / CLOSE), axis=1, return_index=True)
    used = int(np.sum(np.isfinite(table.value)))
    chosen = order[np.sort(first)][: CAPACITY - 1 - used]
    filled = slice(used, used + len(chosen))
    every, value, action = (part.copy() for part in table)
    every[:, filled] = marks.reshape(MARKS, -1)[:, chosen]
    value[filled] = bound.ravel()[chosen]
    action[filled] = 0
    by_mark = np.argsort(every[0], kind="stable")
    return Table(every[:, by_mark], value[by_mark], action[by_mark])
