"""One round of the anytime solver: walks through the model, then backups of the visited beliefs, last step first.

Beliefs are backed up where the gap of the bounds is still open, and each belief once, at the
earliest step at which it was visited. Vectors that are best at no point are dropped meanwhile, so that backups stay
cheap.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import filter
from jatpo.model import POMDP
from jatpo.solve import points, stage, upper_bound
from jatpo.solve.backup import TILE, BlockPlan, Plan, Vectors, grow, jit_backup
from jatpo.solve.compiling import jit
from jatpo.solve.policy import NEVER
from jatpo.solve.problem import BATCH, Problem
from jatpo.solve.upper_bound import Table
from jatpo.storage import pick

ANYWHERE = 1e-3  # walkers follow observations by the gap of the bounds, and a little all others
MARKS = 1e-5  # projections of beliefs that differ by less are the same


class Noise(NamedTuple):
    """All the random numbers of a round with W guided and N random walkers."""

    guided: Array  # [T, 2, W], uniform: to choose actions
    gumbel: Array  # [T, Z, W]: to choose observations
    random: Array  # [T, 3, N], uniform: for walkers that act at random
    offset: float  # uniform: which points are kept


class Guidance(NamedTuple):
    """What the guided walkers follow: how many of them the upper bound, and the share of exploring actions."""

    optimists: Array  # [] int32
    exploration: Array  # []


class Visited(NamedTuple):
    """The beliefs visited at T steps by W walkers: the gap of the bounds, and a number that identifies each."""

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


def choose(upper: Array, vectors: Vectors, guidance: Guidance, table: Table, marking: Array) -> points.Choose:
    """The first `optimists` walkers take the best action of the upper bound, the others that of the policy.

    An exploring action is one that may still turn out best: its upper bound is no less than the policy's value.
    """

    def actions(uniform: Array, beliefs: Array) -> Array:
        bound = upper @ beliefs  # [A, W]
        lower, vector = best(vectors, beliefs)
        place = upper_bound.find(table, marking @ beliefs)
        known = table.value[place] < jnp.inf
        greedy = jnp.where(known, table.action[place], jnp.argmax(bound, axis=0).astype(jnp.int32))
        optimistic = jnp.arange(beliefs.shape[1], dtype=jnp.int32) < guidance.optimists
        guided = jnp.where(optimistic, greedy, vectors.action[vector])
        possible = bound >= lower[None, :]
        weights = jnp.where(jnp.any(possible, axis=0, keepdims=True), possible, True).astype(beliefs.dtype)
        other = jax.vmap(pick, in_axes=(0, 1))(uniform[0], weights)
        return jnp.where(uniform[1] < guidance.exploration, other, guided)

    return actions


def _walk(
    noise: Noise,
    model: POMDP,
    plan: Plan,
    upper: Array,
    vectors: Vectors,
    guidance: Guidance,
    table: Table,
    marking: Array,
) -> Array:
    """Visited beliefs [T, X, W + N].

    No two of the W guided walkers have the same history: observations are drawn without replacement, by their
    probability given the actions and by the gap of the bounds after them. So a few walkers cover most of what matters
    near the start. The N others act at random and draw observations by their probability.
    """
    guide = choose(upper, vectors, guidance, table, marking)
    guided, others = noise.guided.shape[2], noise.random.shape[2]
    observing = plan.observation_table(model)  # [D, Z, X]
    rows = jnp.swapaxes(observing, 1, 2)

    def step(
        carry: tuple[Array, Array], now: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        (beliefs, mass), (uniform, gumbel, random) = carry, now
        free = (random[0] * model.num_actions).astype(jnp.int32)
        actions = jnp.concatenate([guide(uniform, beliefs[:, :guided]), free])
        predicted, evidence = points.expect(model, rows, beliefs, actions)
        own = evidence[:, :guided]
        weight = own
        if guided and not plan.reveals:
            gap = upper_bound.gap_by_observation(
                cast(BlockPlan, plan), upper, vectors, table, marking, predicted[:, :guided], actions[:guided]
            )
            weight = gap + ANYWHERE * own
        _, drawn = jax.lax.top_k((_log(weight) + mass[None, :] + gumbel).ravel(), guided)
        picked = jax.vmap(pick, in_axes=(0, 1))(random[2], evidence[:, guided:])
        seen = jnp.concatenate([(drawn // guided).astype(jnp.int32), picked])
        walker = jnp.concatenate([drawn % guided, guided + jnp.arange(others, dtype=drawn.dtype)])
        group = jnp.minimum(actions[walker], observing.shape[0] - 1)
        expected = predicted[:, walker]
        after, likelihood = filter.normalised(expected * observing[group, seen].T, expected)
        after = jnp.where(likelihood > 0, after, beliefs)  # a walker for which no observation is left waits
        mass = (_log(own) + mass[None, :])[seen[:guided], walker[:guided]]
        return (after, mass), beliefs

    start = jnp.broadcast_to(model.initial[:, None], (model.num_states, guided + others))
    mass = jnp.where(jnp.arange(guided) == 0, 0, -jnp.inf).astype(model.dtype)
    return jax.lax.scan(step, (start, mass), (noise.guided, noise.gumbel, noise.random))[1]


def _log(p: Array) -> Array:
    """log, with -inf for 0."""
    return jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1)), -jnp.inf)


def _gather(
    visited: Array, kept: Array, vectors: Vectors, upper: Array, projection: Array
) -> tuple[Array, stage.Loop, Array, Array]:
    """All points [X, R + T W], the state before anything is joined, and gap and mark of the visited ones [T, W]."""
    steps, num_states, walkers = visited.shape
    beliefs = jnp.concatenate([kept, jnp.moveaxis(visited, 0, 1).reshape(num_states, -1)], axis=1)
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


def finish(loop: stage.Loop, beliefs: Array, offset: float, room: int) -> tuple[Vectors, stage.Points]:
    """The useful vectors and an even sample of the points, `room` of them."""
    loop, total = thin(loop), beliefs.shape[1]
    stay = (int(offset * total) + np.arange(room) * (total // room)) % total
    value, vector = (jax.device_put(np.asarray(part)[stay]) for part in (loop.value, loop.vector))
    return loop.vectors, stage.Points(jit_take(beliefs, stay.astype(np.int32)), value, vector)


def columns_to_back_up(visited: Visited, first: int, tight: float) -> list[np.ndarray]:
    """The columns of beliefs to back up, in order and at most `BATCH` at a time; `first` is that of visited[0, 0].

    A gap of no more than `tight` counts as closed. A batch holds beliefs of one step, so that a value travels along the
    whole path. The initial belief is always the last.
    """
    walkers = visited.mark.shape[1]
    _, earliest = np.unique(np.round(visited.mark.ravel() / MARKS), return_index=True)
    chosen = earliest[(visited.gap.ravel()[earliest] > tight) & (earliest >= walkers)]
    chosen = np.append(np.sort(chosen)[::-1], 0)  # last step first
    groups = np.split(chosen, np.flatnonzero(np.diff(chosen // walkers)) + 1)
    return [first + group[at : at + BATCH] for group in groups for at in range(0, len(group), BATCH)]


def play_round(
    noise: Noise,
    problem: Problem,
    vectors: Vectors,
    kept: Array,
    table: Table,
    guidance: Guidance,
    capacity: int,
) -> tuple[Vectors, stage.Points, Table, stage.StageInfo]:
    """One round: new vectors, the points kept [X, R], the upper bound at visited beliefs, and a report.

    Where walkers visit few beliefs repeatedly, these are swept over several times, while values rise.
    """
    upper, marking = problem.upper_vectors, upper_bound.projections(problem)
    visited = jit_walk(noise, problem.model, problem.plan, upper, vectors, guidance, table, marking)
    beliefs, loop, gap, mark = jit_gather(visited, kept, vectors, upper, marking[0])
    start = before = np.asarray(loop.value)
    tight = 2 * float(stage.rounding(start))
    gap = np.array(gap)
    guided = noise.guided.shape[2]
    if guided and not problem.plan.reveals:
        lower = start[kept.shape[1] :].reshape(gap.shape)[:, :guided]
        table, bound = upper_bound.tighten(problem, upper, table, visited, lower, tight / 2)
        gap[:, :guided] = bound - lower
    batches = columns_to_back_up(Visited(gap, np.asarray(mark)), kept.shape[1], tight)
    sweeps, full = 0, False
    while not full and sweeps * len(batches) < visited.shape[0]:
        loop, full = _sweep(problem, beliefs, batches, loop, capacity)
        sweeps += 1
        before, last = np.asarray(loop.value), before
        if np.max(before - last) < tight / 16:  # as small as two numbers can differ
            break
    new, staying = finish(loop, beliefs, noise.offset, kept.shape[1])
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
    """`loop` with room for another batch, and whether there is none."""
    room = loop.vectors.alpha.shape[0]
    if int(loop.vectors.count) + BATCH <= room:
        return loop, False
    if room < capacity:
        return loop._replace(vectors=grow(loop.vectors, capacity)), False
    loop = thin(loop)
    return loop, int(loop.vectors.count) + BATCH > room
