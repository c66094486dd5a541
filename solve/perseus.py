"""Perseus, the paper's way: randomly explored beliefs, stages that improve them all (Spaan & Vlassis 2005)."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.solve import backup, points, small, stage
from jatpo.solve.compiling import in_background, jit
from jatpo.solve.problem import Problem, generator, upper_vectors
from jatpo.solve.run import Run

GUIDED, ROAMING = 1 << 20, 1 << 21  # the numbers of the walks' random numbers, beyond all stages

jit_stage = jit(stage.stage, static_argnames="batch")


@dataclass(frozen=True)
class PerseusSettings:
    """Randomly explored belief points and a number of stages; the defaults are the paper's on gridworld."""

    beliefs: int = 5000
    stages: int = 50
    tolerance: float = 0.01
    steps: int = 0  # of a random walk; 0 means as many as stages
    batch: int = 64  # points backed up at once
    capacity: int = 8192  # vectors at most, in whole tiles

    def __post_init__(self) -> None:
        for name in ("beliefs", "stages", "batch", "capacity"):
            if getattr(self, name) < 1:
                raise JatpoError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.tolerance < 0:
            raise JatpoError(f"the tolerance is {self.tolerance}, expected 0 or more")


def explore(problem: Problem, settings: PerseusSettings, key: Array | list[int]) -> np.ndarray:
    """The belief points [X, B] of random walks; of a small model only its own states.

    Where they hardly come near a reward, the stages find little or nothing to carry back. Half as many points are then
    added from walks that the upper bound guides, and as many from walks that roam: an ad hoc agent that takes the model
    for another's comes to beliefs far from the start and far from this model's own way.
    """
    steps, count = settings.steps or settings.stages, settings.beliefs
    model, tiny = problem.model, problem.small
    walk = points.jit_random_walk if tiny is None else lambda uniform, _: small.random_walk(uniform, tiny)
    beliefs = points.explore(generator(key, 0), model, count, steps, walk)
    real = slice(len(problem.reachable))  # the others only pad the model
    if points.meets_reward(beliefs[real], np.asarray(model.reward)[real]):
        return beliefs
    upper, half = upper_vectors(problem), max(count // 2, 1)
    guided = points.explore(
        generator(key, GUIDED), model, half, steps, lambda *walk: points.jit_guided_walk(*walk, upper)
    )
    roaming = points.explore(generator(key, ROAMING), model, half, steps, points.jit_roaming_walk)
    own = slice(len(beliefs))
    return np.concatenate([beliefs, guided[own], roaming[own]], axis=1)


def begin(problem: Problem, settings: PerseusSettings, key: Array | list[int]) -> Run:
    """The run before its first stage: one vector below every value."""
    started = time.perf_counter()
    beliefs = explore(problem, settings, key)
    floor = np.asarray(problem.floor, problem.model.dtype)
    room = min(backup.FIRST_ROOM, settings.capacity)
    vectors = backup.fill(np.full((1, 1), floor), np.zeros(1), len(beliefs), room)
    count = beliefs.shape[1]
    beliefs, value, vector = jax.device_put((beliefs, np.full(count, floor), np.zeros(count, np.int32)))
    return Run(vectors, beliefs, value, vector, 0, 0, time.perf_counter() - started, np.inf, float(floor), "")


def warm_up(problem: Problem, settings: PerseusSettings, run: Run) -> list[threading.Thread]:
    """Compile a stage in a thread of its own, on points that nothing can be below."""
    value = jnp.full_like(run.value, -jnp.inf)
    blank = stage.Points(run.beliefs, value, run.vector)
    turn = np.zeros(value.shape, value.dtype)

    def compile_all() -> None:
        jit_stage(
            turn, problem.model, problem.plan, blank, run.vectors, np.asarray(False), batch=settings.batch
        )

    return [in_background(compile_all)]


def advance(problem: Problem, settings: PerseusSettings, key: Array | list[int], run: Run) -> Run:
    """One stage; sets `stopped` when it was the last.

    A change below the tolerance alone proves nothing, see `stage`: the next stage is then a thorough one.
    """
    started = time.perf_counter()
    turn = generator(key, run.stages + 1).random(run.value.shape, run.value.dtype)
    thorough = run.change < settings.tolerance
    vectors = run.vectors
    while True:
        new, after, info = _stage(problem, settings, turn, run, vectors, thorough)
        if not info.full:
            break
        if problem.small or vectors.alpha.shape[0] >= settings.capacity:
            text = f"capacity of {settings.capacity} vectors reached: raise it to go on"
            return run._replace(stopped=text, seconds=run.seconds + time.perf_counter() - started)
        vectors = backup.grow(vectors, settings.capacity)
    change, stages = float(info.change), run.stages + 1
    stopped = "all stages done" if stages >= settings.stages else ""
    if thorough and change < settings.tolerance:
        stopped = f"converged: no point rises by {settings.tolerance:g}"
    initial = np.asarray(problem.model.initial)[: new.alpha.shape[1]]
    lower = float(np.max(np.asarray(new.alpha).dot(initial)))
    seconds = run.seconds + time.perf_counter() - started
    backups = run.backups + int(info.backups)
    return Run(
        new, after.beliefs, after.value, after.vector, stages, backups, seconds, change, lower, stopped
    )


def _stage(
    problem: Problem,
    settings: PerseusSettings,
    turn: np.ndarray,
    run: Run,
    vectors: backup.Vectors,
    thorough: bool,
) -> tuple[backup.Vectors, stage.Points, stage.StageInfo]:
    """One stage, in NumPy where the model is small."""
    old, batch = stage.Points(run.beliefs, run.value, run.vector), settings.batch
    if problem.small:
        return small.stage(turn, problem.small, old, vectors, thorough, batch, settings.capacity)
    return jit_stage(turn, problem.model, problem.plan, old, vectors, np.asarray(thorough), batch=batch)
