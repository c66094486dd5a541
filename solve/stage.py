"""One stage of Perseus: a new set of vectors that improves the value of every belief point.

Points not yet improved are drawn at random, in batches; each is backed up, and its vector joins the new set. A
point whose backup is no better than its old value takes its old vector along instead. When no point is left,
vectors that are best nowhere are dropped. Values on the points never fall, and every value stays a lower bound.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.model import POMDP
from jatpo.solve.backup import Plan, Vectors, backup
from jatpo.solve.policy import NEVER


class Points(NamedTuple):
    """Belief points with their value and the index of the vector that gives it."""

    beliefs: Array  # [X, B]
    value: Array  # [B]
    vector: Array  # [B] int32


class StageInfo(NamedTuple):
    """What a stage did; `full` says that the buffer ran over and some points were not improved."""

    change: Array  # [] largest rise of a value
    backups: Array  # [] int32
    full: Array  # [] bool


class _Loop(NamedTuple):
    vectors: Vectors
    value: Array  # [B], -inf before anything covers the point
    vector: Array  # [B]
    backups: Array
    full: Array


def evaluate(vectors: Vectors, beliefs: Array) -> Points:
    """The points `beliefs` [X, B] valued by `vectors`."""
    scores = vectors.alpha @ beliefs
    return Points(beliefs, jnp.max(scores, axis=0), jnp.argmax(scores, axis=0).astype(jnp.int32))


def stage(
    key: Array, model: POMDP, plan: Plan, points: Points, vectors: Vectors, batch: int, slack: float | Array
) -> tuple[Vectors, Points, StageInfo]:
    """Improve `vectors` until every point has at least its old value, up to `slack` for rounding."""
    old = points
    turn = jax.random.uniform(key, old.value.shape)  # the order in which points are drawn
    batch = min(batch, old.value.shape[0])

    def waiting(loop: _Loop) -> Array:
        return loop.value < old.value - slack

    def unfinished(loop: _Loop) -> Array:
        return jnp.any(waiting(loop)) & ~loop.full

    def improve(loop: _Loop) -> _Loop:
        drawn, chosen = jax.lax.top_k(jnp.where(waiting(loop), turn, -1), batch)
        alpha, action, value = backup(model, plan, old.beliefs[:, chosen], vectors)
        keep = value < old.value[chosen]
        alpha = jnp.where(keep[:, None], vectors.alpha[old.vector[chosen]], alpha)
        action = jnp.where(keep, vectors.action[old.vector[chosen]], action)
        real = drawn >= 0
        alpha = jnp.where(real[:, None], alpha, NEVER)
        loop = _join(loop, alpha, action, old.beliefs)
        return loop._replace(backups=loop.backups + jnp.sum(real.astype(jnp.int32)))

    start = _Loop(
        Vectors(jnp.full_like(vectors.alpha, NEVER), jnp.zeros_like(vectors.action), jnp.int32(0)),
        jnp.full_like(old.value, -jnp.inf),
        jnp.zeros_like(old.vector),
        jnp.int32(0),
        jnp.array(False),
    )
    loop = jax.lax.while_loop(unfinished, improve, start)
    new, index = prune(loop.vectors, loop.vector)
    info = StageInfo(jnp.max(loop.value - old.value), loop.backups, loop.full)
    return new, Points(old.beliefs, loop.value, index), info


def _join(loop: _Loop, alpha: Array, action: Array, beliefs: Array) -> _Loop:
    """Add those of the vectors alpha [b, X] that are the best so far for some point."""
    scores = alpha @ beliefs  # [b, B]
    top = jnp.max(scores, axis=0)
    winner = jnp.argmax(scores, axis=0)
    raised = top > loop.value
    useful = jnp.zeros(alpha.shape[0], bool).at[winner].max(raised)
    before = jnp.tril(jnp.broadcast_to(useful, (useful.shape[0],) * 2), -1)
    capacity = loop.vectors.alpha.shape[0]
    place = jnp.where(useful, loop.vectors.count + jnp.sum(before, axis=1, dtype=jnp.int32), capacity)
    count = loop.vectors.count + jnp.sum(useful, dtype=jnp.int32)
    vectors = Vectors(
        loop.vectors.alpha.at[place].set(alpha, mode="drop"),
        loop.vectors.action.at[place].set(action, mode="drop"),
        jnp.minimum(count, capacity),
    )
    raised = raised & (place[winner] < capacity)
    value = jnp.where(raised, top, loop.value)
    return _Loop(vectors, value, jnp.where(raised, place[winner], loop.vector), loop.backups, count > capacity)


def prune(vectors: Vectors, index: Array) -> tuple[Vectors, Array]:
    """Only the vectors that `index` [B] names, and the index into them."""
    capacity = vectors.alpha.shape[0]
    used = jnp.zeros(capacity, bool).at[index].set(True)
    source = jnp.argsort(~used, stable=True).astype(jnp.int32)  # the used ones first
    place = jnp.zeros(capacity, jnp.int32).at[source].set(jnp.arange(capacity, dtype=jnp.int32))
    alpha = jnp.where(used[source][:, None], vectors.alpha[source], NEVER)
    return Vectors(alpha, vectors.action[source], jnp.sum(used, dtype=jnp.int32)), place[index]
