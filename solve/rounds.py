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
from jatpo.solve.backup import TILE, BlockPlan, Plan, Vectors, backup, grow
from jatpo.solve.compiling import jit
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


class RoundInfo(NamedTuple):
    """What a round did; `full` means that there was no room for more vectors."""

    backups: int
    full: bool


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


jit_walk = jit(_walk)
jit_gather = jit(_gather)
jit_take = jit(_take)


def thin(loop: stage.Loop) -> stage.Loop:
    """Only the vectors that are best at some point."""
    vectors, vector = stage.prune(loop.vectors, loop.vector)
    return loop._replace(vectors=vectors, vector=vector)


jit_thin = jit(thin)


def finish(loop: stage.Loop, beliefs: Array, offset: float, room: int) -> tuple[Vectors, stage.Points]:
    """The useful vectors and an even sample of the points, `room` of them."""
    loop, total = jit_thin(loop), beliefs.shape[1]
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
) -> tuple[Vectors, stage.Points, Table, RoundInfo]:
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
    columns = table_of(batches, visited.shape[0], visited.shape[2])
    sweeps, full = 0, False
    while not full and sweeps * len(batches) < visited.shape[0]:
        loop, full = sweep(problem, beliefs, columns, len(batches), loop, capacity)
        sweeps += 1
        before, last = np.asarray(loop.value), before
        if np.max(before - last) < tight / 16:  # as small as two numbers can differ
            break
    new, staying = finish(loop, beliefs, noise.offset, kept.shape[1])
    backups = sweeps * sum(len(columns) for columns in batches)
    return new, staying, table, RoundInfo(backups, full)


def table_of(batches: list[np.ndarray], steps: int, walkers: int) -> np.ndarray:
    """The batches as rows [N, BATCH], with room for as many as a round can have: no program's shape follows them."""
    table = np.zeros((steps * -(-walkers // BATCH) + 1, BATCH), np.int32)
    for row, columns in zip(table, batches, strict=False):
        row[:] = np.resize(columns, BATCH)
    return table


def sweep(
    problem: Problem, beliefs: Array, columns: np.ndarray, number: int, loop: stage.Loop, capacity: int
) -> tuple[stage.Loop, bool]:
    """Backups at the first `number` rows of `columns` in turn, and whether there was no room for more vectors.

    The host steps in only where vectors are to be dropped or the buffer has to grow.
    """
    at, full, least = 0, False, int(loop.vectors.count)
    while at < number and not full:
        numbers = (np.int32(each) for each in (at, number, least))
        loop, done = jit_back_up(loop, problem.model, problem.plan, beliefs, columns, *numbers)
        at = int(done)
        if int(loop.vectors.count) > least + 2 * TILE:
            loop = jit_thin(loop)
            least = int(loop.vectors.count)
        loop, full = _with_room(loop, capacity)
    return loop, full


def back_up(
    loop: stage.Loop,
    model: POMDP,
    plan: Plan,
    beliefs: Array,
    columns: Array,
    first: Array,
    number: Array,
    least: Array,
) -> tuple[stage.Loop, Array]:
    """Backups at the rows of `columns` [n, BATCH] from `first` on, and the row after the last one.

    They end after `number` rows, where two tiles of vectors have come to the `least`, or where the next batch might not
    fit.
    """
    room = loop.vectors.alpha.shape[0]

    def unfinished(carry: tuple[stage.Loop, Array]) -> Array:
        loop, at = carry
        count = loop.vectors.count
        return (at < number) & ((at == first) | ((count <= least + 2 * TILE) & (count + BATCH <= room)))

    def improve(carry: tuple[stage.Loop, Array]) -> tuple[stage.Loop, Array]:
        loop, at = carry
        alpha, action, _ = backup(model, plan, beliefs[:, columns[at]], loop.vectors)
        return stage.join(loop, alpha, action, beliefs), at + 1

    return jax.lax.while_loop(unfinished, improve, (loop, first))


jit_back_up = jit(back_up, donate_argnums=0)


def _with_room(loop: stage.Loop, capacity: int) -> tuple[stage.Loop, bool]:
    """`loop` with room for another batch, and whether there is none."""
    room = loop.vectors.alpha.shape[0]
    if int(loop.vectors.count) + BATCH <= room:
        return loop, False
    if room < capacity:
        return loop._replace(vectors=grow(loop.vectors, capacity)), False
    loop = jit_thin(loop)
    return loop, int(loop.vectors.count) + BATCH > room
