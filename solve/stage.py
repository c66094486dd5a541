"""One stage of Perseus: a new set of vectors that improves the value of every belief point.

Points not yet improved are drawn at random, in batches; each is backed up, and its vector joins the new set. A
point whose backup is no better than its old value takes its old vector along instead. When no point is left,
vectors that are best nowhere are dropped. Values on the points never fall, beyond rounding, and every value
stays a lower bound.

A stage may end before it has drawn the points that could rise: if all values are equal, one useless backup
"improves" them all. A thorough stage draws every point, and its change is the true residual on the points.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    """What a stage did; `full` means that the buffer was too small and some points were not improved."""

    change: Array  # [] largest rise of a value
    backups: Array  # [] int32
    full: Array  # [] bool
    initial: Array  # [] what the new vectors are worth at the initial belief


class Loop(NamedTuple):
    """The new vectors so far and their values at the points."""

    vectors: Vectors
    value: Array  # [B], -inf before anything covers the point
    vector: Array  # [B]
    drawn: Array  # [B] bool
    backups: Array
    full: Array


def evaluate(vectors: Vectors, beliefs: Array) -> Points:
    """The points `beliefs` [X, B] valued by `vectors`."""
    scores = vectors.alpha @ beliefs
    return Points(beliefs, jnp.max(scores, axis=0), jnp.argmax(scores, axis=0).astype(jnp.int32))


def rounding(values: Any) -> Any:
    """The size of differences between `values` that mean nothing []; also on the host."""
    return 8 * jnp.finfo(values.dtype).eps * abs(values).max()


def stage(
    turn: Array, model: POMDP, plan: Plan, points: Points, vectors: Vectors, thorough: Array, batch: int
) -> tuple[Vectors, Points, StageInfo]:
    """New vectors under which every point has at least its old value; all points are drawn if `thorough`.

    Points are drawn in the order of their random numbers `turn` [B], largest first.
    """
    old = points
    batch = min(batch, old.value.shape[0])
    slack = rounding(old.value)

    def waiting(loop: Loop) -> Array:
        return ~loop.drawn & (thorough | (loop.value < old.value - slack))

    def unfinished(loop: Loop) -> Array:
        return jnp.any(waiting(loop)) & ~loop.full

    def improve(loop: Loop) -> Loop:
        drawn, chosen = jax.lax.top_k(jnp.where(waiting(loop), turn, -1), batch)
        real = drawn >= 0
        beliefs = old.beliefs[:, chosen]
        alpha, action, _ = backup(model, plan, beliefs, vectors)
        keep = jnp.sum(alpha.T * beliefs, axis=0) < old.value[chosen]
        alpha = jnp.where(keep[:, None], vectors.alpha[old.vector[chosen]], alpha)
        action = jnp.where(keep, vectors.action[old.vector[chosen]], action)
        loop = join(loop, jnp.where(real[:, None], alpha, NEVER), action, old.beliefs)
        return loop._replace(
            drawn=loop.drawn.at[chosen].max(real), backups=loop.backups + jnp.sum(real, dtype=jnp.int32)
        )

    none = Vectors(jnp.full_like(vectors.alpha, NEVER), jnp.zeros_like(vectors.action), jnp.int32(0))
    start = loop_from(none, old._replace(value=jnp.full_like(old.value, -jnp.inf)))
    loop = jax.lax.while_loop(unfinished, improve, start)
    new, index = prune(loop.vectors, loop.vector)
    initial = jnp.max(new.alpha @ model.initial)
    info = StageInfo(jnp.max(loop.value - old.value), loop.backups, loop.full, initial)
    return new, Points(old.beliefs, loop.value, index), info


def loop_from(vectors: Vectors, points: Points) -> Loop:
    """The state before anything is joined."""
    drawn = jnp.zeros(points.value.shape, bool)
    return Loop(vectors, points.value, points.vector, drawn, jnp.int32(0), jnp.array(False))


def join(loop: Loop, alpha: Array, action: Array, beliefs: Array) -> Loop:
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
    vector = jnp.where(raised, place[winner], loop.vector)
    return loop._replace(vectors=vectors, value=value, vector=vector, full=loop.full | (count > capacity))


def prune(vectors: Vectors, index: Array) -> tuple[Vectors, Array]:
    """Only the vectors that `index` [B] names, and the index into them."""
    capacity = vectors.alpha.shape[0]
    used = jnp.zeros(capacity, bool).at[index].set(True)
    source = jnp.argsort(~used, stable=True).astype(jnp.int32)  # the used ones first
    place = jnp.zeros(capacity, jnp.int32).at[source].set(jnp.arange(capacity, dtype=jnp.int32))
    alpha = jnp.where(used[source][:, None], vectors.alpha[source], NEVER)
    return Vectors(alpha, vectors.action[source], jnp.sum(used, dtype=jnp.int32)), place[index]
