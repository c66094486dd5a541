"""One round of the anytime solver: walks through the model, then backups of what was met, last step first.

The beliefs met are backed up where it may pay: where the bounds are still apart, and each belief once, at the
earliest step at which it was met. Vectors that are best at no point are dropped on the way, so that backups stay
cheap.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.model import POMDP
from jatpo.solve import above as above_table
from jatpo.solve import points, stage
from jatpo.solve.above import Table, promise
from jatpo.solve.backup import TILE, Vectors, grow, jit_backup
from jatpo.solve.compiling import jit
from jatpo.solve.plan import BlockPlan, Plan
from jatpo.solve.policy import NEVER
from jatpo.solve.problem import BATCH, Problem
from jatpo.storage import pick

ANYWHERE = 1e-3  # walkers go where the bounds are apart, and a little everywhere
MARKS = 1e-5  # projections of beliefs that differ by less are the same


class Chance(NamedTuple):
    """All the random numbers of a round with W guided and N other walkers."""

    uniform: Array  # [T, 2, W]
    noise: Array  # [T, Z, W], Gumbel
    astray: Array  # [T, 3, N]
    luck: float


class Way(NamedTuple):
    """How the guided walkers go: how many of them follow the upper bound, the share of actions that stray."""

    optimists: Array  # [] int32
    stray: Array  # []


class Met(NamedTuple):
    """The beliefs met at T steps by W walkers: how far apart the bounds are, and a number that tells them apart."""

    gap: np.ndarray  # [T, W]
    mark: np.ndarray  # [T, W]


def best(vectors: Vectors, beliefs: Array) -> tuple[Array, Array]:
    """The value of `beliefs` [X, B] and the vector that gives it: [B], [B]; the cost follows the count of vectors."""
    size = min(TILE, vectors.alpha.shape[0])

    def improve(t: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        value, index = carry
        scores = jax.lax.dynamic_slice_in_dim(vectors.alpha, t * size, size) @ beliefs
        top = jnp.max(scores, axis=0)
        place = jnp.argmax(scores, axis=0).astype(jnp.int32) + t * size
        return jnp.maximum(value, top), jnp.where(top > value, place, index)

    shape = beliefs.shape[1]
    start = (jnp.full(shape, -jnp.inf, beliefs.dtype), jnp.zeros(shape, jnp.int32))
    return jax.lax.fori_loop(0, (vectors.count + size - 1) // size, improve, start)


def choose(upper: Array, vectors: Vectors, way: Way, table: Table, marking: Array) -> points.Choose:
    """The first `optimists` walkers take the best action of the upper bound, the others that of the policy.

    A walker strays from it to an action that may yet turn out best, its upper bound being no less than what the policy
    has already.
    """

    def actions(uniform: Array, beliefs: Array) -> Array:
        above = upper @ beliefs  # [A, W]
        below, vector = best(vectors, beliefs)
        place = above_table.find(table, marking @ beliefs)
        known = table.value[place] < jnp.inf
        hoped = jnp.where(known, table.action[place], jnp.argmax(above, axis=0).astype(jnp.int32))
        optimistic = jnp.arange(beliefs.shape[1], dtype=jnp.int32) < way.optimists
        guided = jnp.where(optimistic, hoped, vectors.action[vector])
        hopeful = above >= below[None, :]
        weights = jnp.where(jnp.any(hopeful, axis=0, keepdims=True), hopeful, True).astype(beliefs.dtype)
        other = jax.vmap(pick, in_axes=(0, 1))(uniform[0], weights)
        return jnp.where(uniform[1] < way.stray, other, guided)

    return actions


def _walk(
    chance: Chance,
    model: POMDP,
    plan: Plan,
    upper: Array,
    vectors: Vectors,
    way: Way,
    table: Table,
    marking: Array,
) -> Array:
    """Beliefs met [T, X, W + N].

    The W guided walkers never see the same after the same history: what they might see is drawn without replacement,
    by its probability given the actions and by how far apart the bounds are after it. So a few of them cover most of
    what matters near the start. The N others act at random and see what may come.
    """
    guide = choose(upper, vectors, way, table, marking)
    guided, others = chance.uniform.shape[2], chance.astray.shape[2]
    seeing = plan.table if isinstance(plan, BlockPlan) else jnp.swapaxes(points.rows_of(model), 1, 2)
    rows = jnp.swapaxes(seeing, 1, 2)

    def step(
        carry: tuple[Array, Array], now: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        (beliefs, mass), (uniform, noise, astray) = carry, now
        random = (astray[0] * model.num_actions).astype(jnp.int32)
        actions = jnp.concatenate([guide(uniform, beliefs[:, :guided]), random])
        predicted, chances = points.expect(model, rows, beliefs, actions)
        own = chances[:, :guided]
        worth = own
        if isinstance(plan, BlockPlan) and guided:
            hope = promise(plan, upper, vectors, table, marking, predicted[:, :guided], actions[:guided])
            worth = hope + ANYWHERE * own
        _, drawn = jax.lax.top_k((_log(worth) + mass[None, :] + noise).ravel(), guided)
        picked = jax.vmap(pick, in_axes=(0, 1))(astray[2], chances[:, guided:])
        seen = jnp.concatenate([(drawn // guided).astype(jnp.int32), picked])
        walker = jnp.concatenate([drawn % guided, guided + jnp.arange(others, dtype=drawn.dtype)])
        group = jnp.minimum(actions[walker], seeing.shape[0] - 1)
        after = predicted[:, walker] * seeing[group, seen].T
        total = jnp.sum(after, axis=0, keepdims=True)
        after = jnp.where(total > 0, after / jnp.where(total > 0, total, 1), beliefs)
        mass = (_log(own) + mass[None, :])[seen[:guided], walker[:guided]]
        return (after, mass), beliefs

    start = jnp.broadcast_to(model.initial[:, None], (model.num_states, guided + others))
    mass = jnp.where(jnp.arange(guided) == 0, 0, -jnp.inf).astype(model.dtype)
    return jax.lax.scan(step, (start, mass), (chance.uniform, chance.noise, chance.astray))[1]


def _log(chance: Array) -> Array:
    """log, with -inf for 0."""
    return jnp.where(chance > 0, jnp.log(jnp.where(chance > 0, chance, 1)), -jnp.inf)


def _gather(
    met: Array, kept: Array, vectors: Vectors, upper: Array, projection: Array
) -> tuple[Array, stage.Loop, Array, Array]:
    """All points [X, R + T W], the state before anything is joined, and the gap and mark of what was met [T, W]."""
    steps, num_states, walkers = met.shape
    beliefs = jnp.concatenate([kept, jnp.moveaxis(met, 0, 1).reshape(num_states, -1)], axis=1)
    value, vector = best(vectors, beliefs)
    new = beliefs[:, kept.shape[1] :]
    gap = jnp.max(upper @ new, axis=0) - value[kept.shape[1] :]
    loop = stage.loop_from(vectors, stage.Points(beliefs, value, vector))
    return beliefs, loop, gap.reshape(steps, walkers), (projection @ new).reshape(steps, walkers)


def _take(beliefs: Array, columns: Array) -> Array:
    return beliefs[:, columns]


def _pack(vectors: Vectors, source: Array, count: Array) -> Vectors:
    """The vectors at the first `count` of `source` [V], in that order."""
    used = jnp.arange(source.shape[0], dtype=jnp.int32) < count
    return Vectors(jnp.where(used[:, None], vectors.alpha[source], NEVER), vectors.action[source], count)


jit_walk = jit(_walk)
jit_gather = jit(_gather)
jit_take = jit(_take)
jit_join = jit(stage.join, donate_argnums=0)
jit_pack = jit(_pack)


def thin(loop: stage.Loop) -> stage.Loop:
    """Only the vectors that are best at some point; which these are is found on the host."""
    used, place = np.unique(np.asarray(loop.vector), return_inverse=True)
    source = np.resize(used, loop.vectors.alpha.shape[0]).astype(np.int32)
    vectors = jit_pack(loop.vectors, source, np.int32(len(used)))
    return loop._replace(vectors=vectors, vector=jax.device_put(place.astype(np.int32)))


def close(loop: stage.Loop, beliefs: Array, luck: float, room: int) -> tuple[Vectors, stage.Points]:
    """The useful vectors and an even sample of the points, `room` of them."""
    loop, total = thin(loop), beliefs.shape[1]
    stay = (int(luck * total) + np.arange(room) * (total // room)) % total
    value, vector = (jax.device_put(np.asarray(part)[stay]) for part in (loop.value, loop.vector))
    return loop.vectors, stage.Points(jit_take(beliefs, stay.astype(np.int32)), value, vector)


def worth(met: Met, first: int, tight: float) -> list[np.ndarray]:
    """The columns of beliefs to back up, in order and at most `BATCH` at a time; `first` is that of met[0, 0].

    Bounds within `tight` are as one. A batch holds beliefs of one step, so that a value travels along the whole path.
    The initial belief is always the last.
    """
    walkers = met.mark.shape[1]
    _, earliest = np.unique(np.round(met.mark.ravel() / MARKS), return_index=True)
    chosen = earliest[(met.gap.ravel()[earliest] > tight) & (earliest >= walkers)]
    chosen = np.append(np.sort(chosen)[::-1], 0)  # last step first
    groups = np.split(chosen, np.flatnonzero(np.diff(chosen // walkers)) + 1)
    return [first + group[at : at + BATCH] for group in groups for at in range(0, len(group), BATCH)]


def tour(
    chance: Chance,
    problem: Problem,
    upper: Array,
    vectors: Vectors,
    kept: Array,
    table: Table,
    way: Way,
    capacity: int,
) -> tuple[Vectors, stage.Points, Table, stage.StageInfo]:
    """One round: new vectors, the points kept [X, R], the upper bound at beliefs met and what was done.

    Where walkers meet few beliefs again and again, these are swept over several times, as long as it pays.
    """
    marking = above_table.projections(problem)
    met = jit_walk(chance, problem.model, problem.plan, upper, vectors, way, table, marking)
    beliefs, loop, gap, mark = jit_gather(met, kept, vectors, upper, marking[0])
    start = before = np.asarray(loop.value)
    tight = 2 * float(stage.rounding(start))
    gap = np.array(gap)
    guided = chance.uniform.shape[2]
    if isinstance(problem.plan, BlockPlan) and guided:
        below = start[kept.shape[1] :].reshape(gap.shape)[:, :guided]
        table, bound = above_table.tighten(problem, upper, table, met, below, tight / 2)
        gap[:, :guided] = bound - below
    batches = worth(Met(gap, np.asarray(mark)), kept.shape[1], tight)
    sweeps, full = 0, False
    while not full and sweeps * len(batches) < met.shape[0]:
        loop, full = _sweep(problem, beliefs, batches, loop, capacity)
        sweeps += 1
        before, last = np.asarray(loop.value), before
        if np.max(before - last) < tight / 16:  # as small as two numbers can differ
            break
    new, staying = close(loop, beliefs, chance.luck, kept.shape[1])
    backups = sweeps * sum(len(columns) for columns in batches)
    done = jax.device_put((np.max(before - start), np.int32(backups), np.asarray(full)))
    return new, staying, table, stage.StageInfo(*done)


def _sweep(
    problem: Problem, beliefs: Array, batches: list[np.ndarray], loop: stage.Loop, capacity: int
) -> tuple[stage.Loop, bool]:
    """Backups at the columns of each of `batches` in turn, and whether there was no room for more vectors."""
    least, full = int(loop.vectors.count), False
    for columns in batches:
        chosen = jit_take(beliefs, np.resize(columns, BATCH).astype(np.int32))
        alpha, action, _ = jit_backup(problem.model, problem.plan, chosen, loop.vectors)
        loop = jit_join(loop, alpha, action, beliefs)
        if int(loop.vectors.count) > least + 2 * TILE:
            loop = thin(loop)
            least = int(loop.vectors.count)
        loop, full = _with_room(loop, capacity)
        if full:
            break
    return loop, full


def _with_room(loop: stage.Loop, capacity: int) -> tuple[stage.Loop, bool]:
    """`loop` with room for another batch, and whether there is none to be had."""
    room = loop.vectors.alpha.shape[0]
    if int(loop.vectors.count) + BATCH <= room:
        return loop, False
    if room < capacity:
        return loop._replace(vectors=grow(loop.vectors, capacity)), False
    loop = thin(loop)
    return loop, int(loop.vectors.count) + BATCH > room
