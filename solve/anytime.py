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

import jax
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.model import POMDP
from jatpo.solve import above, bounds, tour
from jatpo.solve.backup import FIRST_ROOM, fill
from jatpo.solve.compiling import in_background, jit
from jatpo.solve.plan import BlockPlan
from jatpo.solve.problem import BATCH, Problem, generator
from jatpo.solve.run import Run
from jatpo.solve.tour import Chance, Way

FOR_AGENTS = 0.5  # `off_policy` for agents that may be led where a model's own policy would never come

jit_blind = jit(bounds.blind)
jit_revealed = jit(bounds.revealed)


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
    stray: float = 0.03  # share of random actions of the others
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
    uniform, noise, astray = jax.device_put((uniform, noise, astray))
    return Chance(uniform, noise, astray, float(random.random(1, model.dtype)[0]))


def begin(problem: Problem, settings: AnytimeSettings, key: Array | list[int]) -> Run:
    """The run before its first round: the blind policies, or q* where it is attained."""
    del key
    started = time.perf_counter()
    model = problem.model
    first = jit_revealed(model) if problem.reveals else jit_blind(model)
    first, initial = np.asarray(first), np.asarray(model.initial)
    room = min(FIRST_ROOM, settings.capacity)
    vectors = fill(first, np.arange(model.num_actions), model.num_states, room)
    values = first.dot(initial)
    beliefs = jax.device_put(np.repeat(initial[:, None], settings.keep, axis=1))
    value = jax.device_put(np.full(settings.keep, values.max(), initial.dtype))
    vector = jax.device_put(np.full(settings.keep, values.argmax(), np.int32))
    seconds = time.perf_counter() - started
    table = above.empty(model.dtype)
    return Run(vectors, beliefs, value, vector, 0, 0, seconds, np.inf, float(values.max()), "", table=table)


def warm_up(problem: Problem, settings: AnytimeSettings) -> list[threading.Thread]:
    """Compile the kernels of a round in threads of their own, by running them on blank input."""
    model, plan = problem.model, problem.plan
    chance = draw(settings, model, np.random.default_rng(0))
    blank = np.zeros((model.num_actions, model.num_states), model.dtype)
    table, marking = above.empty(model.dtype), above.projections(problem)
    room = min(FIRST_ROOM, settings.capacity)
    vectors = fill(blank, np.arange(model.num_actions), model.num_states, room)

    def walking() -> None:
        tour.jit_walk(chance, model, plan, blank, vectors, _way(0, 0, model), table, marking)

    def joining() -> None:
        met = np.zeros((settings.steps, model.num_states, settings.walkers), model.dtype)
        kept = np.zeros((model.num_states, settings.keep), model.dtype)
        beliefs, loop, *_ = tour.jit_gather(met, kept, vectors, blank, marking[0])
        tour.jit_take(beliefs, np.zeros(BATCH, np.int32))
        batch = (BATCH, model.num_states)
        loop = tour.jit_join(loop, np.zeros(batch, model.dtype), np.zeros(batch[:1], np.int32), beliefs)
        tour.close(loop, beliefs, 0.0, settings.keep)
        guided = chance.uniform.shape[2]
        if isinstance(plan, BlockPlan) and guided:
            columns, *_ = above.jit_marks(marking, blank, met, guided)
            above.look(problem, blank, marking, columns, np.zeros(1, np.int32))

    return [in_background(walking), in_background(joining)]


def advance(
    problem: Problem, settings: AnytimeSettings, key: Array | list[int], run: Run, upper: Array, bound: float
) -> Run:
    """One round; `upper` [A, X] guides and `bound` is the best value anyone could have at the start."""
    started = time.perf_counter()
    chance = draw(settings, problem.model, generator(key, run.stages))
    share = 1.0 if run.stages == 0 else 0.5 if run.stages < 4 else 0.25
    way = _way(round(share * settings.walkers), settings.stray, problem.model)
    assert run.table is not None  # `begin` made one
    new, kept, table, info = tour.tour(
        chance, problem, upper, run.vectors, run.beliefs, run.table, way, settings.capacity
    )
    if info.full:
        text = f"capacity of {settings.capacity} vectors reached: raise it to go on"
        return run._replace(stopped=text, seconds=run.seconds + time.perf_counter() - started)
    initial = np.asarray(problem.model.initial)
    lower = float(np.max(np.asarray(new.alpha).dot(initial)))
    seconds = run.seconds + time.perf_counter() - started
    backups, change = run.backups + int(info.backups), float(info.change)
    points = (kept.beliefs, kept.value, kept.vector)
    at_start = table.value[above.find(table, above.projections(problem).dot(initial), np)]
    bound = min(bound, run.upper, float(at_start))
    run = Run(new, *points, run.stages + 1, backups, seconds, change, lower, "", bound, table)
    return run._replace(stopped=_why(settings, run))


def _way(optimists: int, stray: float, model: POMDP) -> Way:
    return Way(*jax.device_put((np.int32(optimists), np.asarray(stray, model.dtype))))


def _why(settings: AnytimeSettings, run: Run) -> str:
    """The reason to stop now, or nothing."""
    if settings.gap > 0 and run.upper - run.lower <= settings.gap:
        return f"gap below {settings.gap:g}"
    if settings.stages and run.stages >= settings.stages:
        return "all stages done"
    if settings.seconds > 0 and run.seconds >= settings.seconds:
        return f"{settings.seconds:g} s are over"
    return ""
