"""Anytime solving: the same backups at better points.

Each round sends walkers from the initial belief through the model. Most follow the upper bound (they go where
something may be gained) or the current policy, and spread over what may be seen. Some act at random: an ad hoc
agent follows a mixture in a world that may be another's, and meets beliefs that no policy of this model would
reach. Then the beliefs met are backed up in reverse, last step first, so that in a nearly deterministic model one
round carries a value from the goal back to the start. Vectors that are best at none of the points kept are dropped.

The starting vectors are those of the blind policies, so the lower bound holds from the start and never falls at
the initial belief.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.model import POMDP
from jatpo.solve import bounds, points, stage
from jatpo.solve.backup import FIRST_ROOM, Vectors, fill, grow, jit_backup
from jatpo.solve.problem import Problem, generator
from jatpo.solve.run import Run
from jatpo.storage import pick

STILL_MOVING = 0.25  # the share of walkers that makes a step worth backing up


class Chance(NamedTuple):
    """All the random numbers of a round with W guided and N other walkers."""

    uniform: Array  # [T, 2, W]
    noise: Array  # [T, Z, W], Gumbel
    astray: Array  # [T, 3, N]
    luck: Array  # []


def choose(upper: Array, vectors: Vectors, optimists: Array, stray: Array) -> points.Choose:
    """The first `optimists` walkers take the best action of the upper bound, the others that of the policy.

    A walker strays from it to an action that may yet turn out best, its upper bound being no less than what the policy
    has already.
    """

    def actions(uniform: Array, beliefs: Array) -> Array:
        above = upper @ beliefs  # [A, W]
        below = vectors.alpha @ beliefs  # [V, W]
        best = vectors.action[jnp.argmax(below, axis=0)]
        optimistic = jnp.arange(beliefs.shape[1], dtype=jnp.int32) < optimists
        guided = jnp.where(optimistic, jnp.argmax(above, axis=0).astype(jnp.int32), best)
        hopeful = above >= jnp.max(below, axis=0, keepdims=True)
        weights = jnp.where(jnp.any(hopeful, axis=0, keepdims=True), hopeful, True).astype(beliefs.dtype)
        other = jax.vmap(pick, in_axes=(0, 1))(uniform[0], weights)
        return jnp.where(uniform[1] < stray, other, guided)

    return actions


def _walk(
    chance: Chance, model: POMDP, upper: Array, vectors: Vectors, optimists: Array, stray: Array
) -> tuple[Array, Array]:
    """Beliefs met [T, X, W + N] and the last step at which a good part of the walkers still moved []."""
    guide = choose(upper, vectors, optimists, stray)
    guided = points.fan_out(chance.uniform, chance.noise, model, guide)
    met = jnp.concatenate([guided, points.random_walk(chance.astray, model)], axis=2)
    moved = jnp.any(jnp.abs(met[1:] - met[:-1]) > 1e-6, axis=1)  # [T - 1, W]
    moving = jnp.mean(moved.astype(met.dtype), axis=1) > STILL_MOVING
    return met, jnp.max(jnp.where(moving, jnp.arange(1, met.shape[0], dtype=jnp.int32), 0), initial=0)


def _gather(met: Array, kept: Array, vectors: Vectors) -> tuple[Array, stage.Loop]:
    """All points [X, R + T W], and the state before anything is joined."""
    beliefs = jnp.concatenate([kept, jnp.moveaxis(met, 0, 1).reshape(met.shape[1], -1)], axis=1)
    return beliefs, stage.loop_from(vectors, stage.evaluate(vectors, beliefs))


def _close(loop: stage.Loop, beliefs: Array, luck: Array, room: int) -> tuple[Vectors, stage.Points]:
    """The useful vectors and an even sample of the points."""
    new, index = stage.prune(loop.vectors, loop.vector)
    total = beliefs.shape[1]
    offset = (luck * total).astype(jnp.int32)
    stay = (offset + jnp.arange(room, dtype=jnp.int32) * (total // room)) % total
    return new, stage.Points(beliefs[:, stay], loop.value[stay], index[stay])


jit_walk = jax.jit(_walk)
jit_gather = jax.jit(_gather)
jit_slice = jax.jit(jax.lax.dynamic_index_in_dim, static_argnames=("axis", "keepdims"))
jit_join = jax.jit(stage.join, donate_argnums=0)
jit_close = jax.jit(_close, static_argnames="room")
jit_blind = jax.jit(bounds.blind)
jit_revealed = jax.jit(bounds.revealed)


def tour(
    chance: Chance,
    problem: Problem,
    upper: Array,
    vectors: Vectors,
    kept: Array,
    optimists: int,
    stray: float,
) -> tuple[Vectors, stage.Points, stage.StageInfo]:
    """One round: new vectors, the points kept [X, R] and what was done."""
    model, plan = problem.model, problem.plan
    met, last = jit_walk(chance, model, upper, vectors, np.int32(optimists), np.asarray(stray, model.dtype))
    beliefs, loop = jit_gather(met, kept, vectors)
    before = np.asarray(loop.value)
    for t in range(int(last), -1, -1):
        alpha, action, _ = jit_backup(model, plan, jit_slice(met, t, keepdims=False), loop.vectors)
        loop = jit_join(loop, alpha, action, beliefs)
    change = np.max(np.asarray(loop.value) - before)
    new, staying = jit_close(loop, beliefs, chance.luck, room=kept.shape[1])
    return new, staying, stage.StageInfo(change, (int(last) + 1) * met.shape[2], loop.full)


@dataclass(frozen=True)
class AnytimeSettings:
    """Stops at whichever of `seconds`, `gap` and `stages` (rounds) comes first; 0 means no such limit."""

    seconds: float = 10.0
    gap: float = 0.01
    stages: int = 0
    walkers: int = 64
    steps: int = 40  # of a walk
    keep: int = 1024  # points kept from round to round, to prune by
    off_policy: float = 0.125  # share of walkers that act at random
    stray: float = 0.1  # share of random actions of the others
    capacity: int = 8192  # vectors at most, in whole tiles

    def __post_init__(self) -> None:
        if not (self.seconds > 0 or self.gap > 0 or self.stages > 0):
            raise JatpoError("nothing would stop the solver: give seconds, a gap or a number of stages")
        for name in ("walkers", "steps", "keep", "capacity"):
            if getattr(self, name) < 1:
                raise JatpoError(f"{name} is {getattr(self, name)}, expected at least 1")
        for name in ("off_policy", "stray"):
            if not 0 <= getattr(self, name) <= 1:
                raise JatpoError(f"{name} is {getattr(self, name)}, expected a share from 0 to 1")


def draw(settings: AnytimeSettings, model: POMDP, random: np.random.Generator) -> Chance:
    """The random numbers of a round."""
    others = round(settings.off_policy * settings.walkers)
    steps, guided = settings.steps, settings.walkers - others
    uniform = random.random((steps, 2, guided), model.dtype)
    noise = random.gumbel(size=(steps, model.num_observations, guided)).astype(model.dtype)
    astray = random.random((steps, 3, others), model.dtype)
    luck = random.random(1, model.dtype)[0]
    return Chance(*jax.device_put((uniform, noise, astray, luck)))


def begin(problem: Problem, settings: AnytimeSettings, key: Array) -> Run:
    """The run before its first round: the blind policies, or q* where it is attained."""
    del key
    started = time.perf_counter()
    model = problem.model
    first = jit_revealed(model) if problem.reveals else jit_blind(model)
    first, initial = np.asarray(first), np.asarray(model.initial)
    room = min(FIRST_ROOM, settings.capacity)
    vectors = fill(first, np.arange(model.num_actions), model.num_states, room)
    values = first @ initial
    beliefs = jnp.asarray(np.repeat(initial[:, None], settings.keep, axis=1))
    value = jnp.asarray(np.full(settings.keep, values.max(), initial.dtype))
    vector = jnp.asarray(np.full(settings.keep, values.argmax(), np.int32))
    seconds = time.perf_counter() - started
    return Run(vectors, beliefs, value, vector, 0, 0, seconds, np.inf, float(values.max()), "")


def warm_up(problem: Problem, settings: AnytimeSettings) -> threading.Thread:
    """Compile the kernels of a round in a thread of its own, by running them on blank input."""
    model = problem.model
    chance = draw(settings, model, np.random.default_rng(0))
    blank = np.zeros((model.num_actions, model.num_states), model.dtype)
    double = bool(jax.config.read("jax_enable_x64"))

    def compile_all() -> None:
        with jax.enable_x64(double):  # a thread does not inherit it
            compile_each()

    def compile_each() -> None:
        room = min(FIRST_ROOM, settings.capacity)
        vectors = fill(blank, np.arange(model.num_actions), model.num_states, room)
        met, _ = jit_walk(chance, model, blank, vectors, np.int32(0), np.asarray(0, model.dtype))
        kept = np.zeros((model.num_states, settings.keep), model.dtype)
        beliefs, loop = jit_gather(met, kept, vectors)
        batch = (settings.walkers, model.num_states)
        loop = jit_join(loop, np.zeros(batch, model.dtype), np.zeros(batch[:1], np.int32), beliefs)
        jit_close(loop, beliefs, chance.luck, room=settings.keep)

    thread = threading.Thread(target=compile_all, daemon=True)
    thread.start()
    return thread


def advance(
    problem: Problem, settings: AnytimeSettings, key: Array, run: Run, upper: Array, bound: float
) -> Run:
    """One round; `upper` [A, X] guides and `bound` is the best value anyone could have at the start."""
    started = time.perf_counter()
    chance = draw(settings, problem.model, generator(key, run.stages))
    share = 1.0 if run.stages == 0 else 0.5 if run.stages < 4 else 0.25
    optimists = round(share * settings.walkers)
    vectors = run.vectors
    while True:
        new, kept, info = tour(chance, problem, upper, vectors, run.beliefs, optimists, settings.stray)
        if not info.full:
            break
        if vectors.alpha.shape[0] >= settings.capacity:
            text = f"capacity of {settings.capacity} vectors reached: raise it to go on"
            return run._replace(stopped=text, seconds=run.seconds + time.perf_counter() - started)
        vectors = grow(vectors, settings.capacity)
    lower = float(np.max(np.asarray(new.alpha) @ np.asarray(problem.model.initial)))
    seconds = run.seconds + time.perf_counter() - started
    backups, change = run.backups + int(info.backups), float(info.change)
    points = (kept.beliefs, kept.value, kept.vector)
    run = Run(new, *points, run.stages + 1, backups, seconds, change, lower, "")
    return run._replace(stopped=_why(settings, run, bound))


def _why(settings: AnytimeSettings, run: Run, bound: float) -> str:
    """The reason to stop now, or nothing."""
    if settings.gap > 0 and bound - run.lower <= settings.gap:
        return f"gap below {settings.gap:g}"
    if settings.stages and run.stages >= settings.stages:
        return "all stages done"
    if settings.seconds > 0 and run.seconds >= settings.seconds:
        return f"{settings.seconds:g} s are over"
    return ""
