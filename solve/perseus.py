"""Perseus with randomly explored beliefs and stages that improve them all (Spaan & Vlassis 2005)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.solve import backup, points, stage
from jatpo.solve.backup import Vectors
from jatpo.solve.base import Room, Solver
from jatpo.solve.compiling import ahead, jit
from jatpo.solve.problem import Problem, generator, key_words
from jatpo.solve.small import InNumPy
from jatpo.solve.solution import Solution
from jatpo.solve.stage import Points, StageInfo
from jatpo.solve.stopping import Info, Status

NUMBERS = ("stages", "backups", "change", "initial")
GUIDED, ROAMING = 1 << 20, 1 << 21  # the numbers of the walks' random numbers, beyond all stages

jit_stage = jit(stage.stage, static_argnames="batch")


class PerseusState(NamedTuple):
    """A solve between two stages."""

    vectors: Vectors
    points: Points
    words: np.ndarray  # the random key
    stages: int
    backups: int
    change: float  # largest rise of a value in the last stage
    initial: float  # what the vectors are worth at the initial belief


class Compiled(NamedTuple):
    """The programs of a problem, compiled; `InNumPy` has the same for small models."""

    problem: Problem

    def random_walk(self, uniform: np.ndarray) -> Any:
        """Beliefs [T, X, W] visited with actions at random."""
        return points.jit_random_walk(uniform, self.problem.model)

    def compile(self, state: PerseusState, batch: int) -> None:
        """Compile a stage, on points that need no backup, while the upper bound is computed."""
        value = jnp.full_like(state.points.value, -jnp.inf)
        blank = state.points._replace(value=value)
        turn = np.zeros(value.shape, value.dtype)
        model, plan = self.problem.model, self.problem.plan
        vectors, thorough = state.vectors, np.asarray(False)
        with ahead(lambda: jit_stage(turn, model, plan, blank, vectors, thorough, batch=batch)):
            _ = self.problem.upper_vectors
            _ = self.problem.upper

    def stage(
        self, turn: np.ndarray, old: Points, vectors: Vectors, thorough: bool, batch: int, capacity: int
    ) -> tuple[Vectors, Points, StageInfo]:
        """One stage; room for vectors is doubled up to `capacity` where it runs out."""
        model, plan, thoroughly = self.problem.model, self.problem.plan, np.asarray(thorough)
        while True:
            found = jit_stage(turn, model, plan, old, vectors, thoroughly, batch=batch)
            if not found[2].full or vectors.alpha.shape[0] >= capacity:
                return found
            vectors = backup.grow(vectors, capacity)


@dataclass(frozen=True)
class Perseus(Solver):
    """Randomly explored belief points; the defaults are the paper's on gridworld.

    Converged when a stage that draws all points raises none of them by `tolerance`.
    """

    beliefs: int = 5000
    tolerance: float = 0.01
    steps: int = 50  # of a random walk
    batch: int = 64  # points backed up at once
    capacity: int = 8192  # vectors at most, in whole tiles
    name: ClassVar[str] = "perseus"
    limits: ClassVar[tuple[str, ...]] = (
        "gap",
        "stages",
    )  # by the clock, a result would depend on the machine
    room: ClassVar[int] = backup.FIRST_ROOM
    compiled: ClassVar[bool] = False  # whether small models are compiled too

    def __post_init__(self) -> None:
        for name in ("beliefs", "steps", "batch", "capacity"):
            if getattr(self, name) < 1:
                raise JatpoError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.tolerance >= 0:
            raise JatpoError(f"tolerance must be at least 0, got {self.tolerance}")

    def reserve(self, num_states: int, num_actions: int, itemsize: int) -> Sequence[Room]:
        """Belief points, two sets of vectors, and what a batch of backups expects under every action."""
        each = num_states * itemsize
        return (
            ("belief points", self.beliefs, each, "--set beliefs"),
            (
                "alpha vectors, at first, old and new",
                min(self.room, self.capacity),
                2 * each,
                "--set capacity",
            ),
            ("a batch of backups", self.batch, (num_actions + 2) * each, "--set batch"),
        )

    def kernels(self, problem: Problem) -> Compiled | InNumPy:
        """NumPy where the model is small: a program takes longer to compile than such a model takes to solve."""
        return Compiled(problem) if self.compiled or problem.small is None else problem.small

    def init(self, problem: Problem, key: Array) -> PerseusState:
        """One vector, the floor of all values."""
        words = key_words(key)
        beliefs = explore(problem, self, words)
        floor = np.asarray(problem.floor, problem.model.dtype)
        room = min(self.room, self.capacity)
        vectors = backup.fill(np.full((1, 1), floor), np.zeros(1), len(beliefs), room)
        count = beliefs.shape[1]
        parts = jax.device_put((beliefs, np.full(count, floor), np.zeros(count, np.int32)))
        return self._ready(problem, PerseusState(vectors, Points(*parts), words, 0, 0, np.inf, problem.floor))

    def _ready(self, problem: Problem, state: PerseusState) -> PerseusState:
        self.kernels(problem).compile(state, self.batch)
        return state

    def step(self, problem: Problem, key: Array, state: PerseusState) -> tuple[PerseusState, Info]:
        """One stage.

        A change below the tolerance alone proves nothing, see `stage`: the next stage is then a thorough one.
        """
        del key  # `state` has its words
        kernels, old = self.kernels(problem), state.points
        turn = generator(state.words, state.stages + 1).random(old.value.shape, old.value.dtype)
        thorough = state.change < self.tolerance
        found = kernels.stage(turn, old, state.vectors, thorough, self.batch, self.capacity)
        vectors, new, info = found
        if info.full:
            return state, self._info(problem, state, Status.CAPACITY_REACHED)
        change, backups = float(info.change), state.backups + int(info.backups)
        status = Status.CONVERGED if thorough and change < self.tolerance else None
        state = PerseusState(
            vectors, new, state.words, state.stages + 1, backups, change, float(info.initial)
        )
        return state, self._info(problem, state, status)

    def _info(self, problem: Problem, state: PerseusState, status: Status | None) -> Info:
        count = int(state.vectors.count)
        lower = problem.attained(state.initial)
        return Info(state.stages, state.backups, count, lower, problem.upper, status)

    def solution(self, problem: Problem, state: PerseusState) -> Solution:
        """The vectors, over all states of the original model."""
        return Solution(
            policy=problem.policy(state.vectors),
            lower=problem.attained(state.initial),
            upper=problem.upper,
            mean_value=float(np.mean(np.asarray(state.points.value))),
        )

    def pack(self, state: PerseusState) -> dict[str, np.ndarray]:
        """All but the belief points, which the key gives again."""
        numbers = {name: np.asarray(getattr(state, name)) for name in NUMBERS}
        points = {"value": np.asarray(state.points.value), "vector": np.asarray(state.points.vector)}
        return backup.pack(state.vectors) | points | numbers

    def unpack(self, problem: Problem, key: Array, arrays: dict[str, np.ndarray]) -> PerseusState:
        """The state that was packed into `arrays`."""
        words = key_words(key)
        parts = jax.device_put((explore(problem, self, words), arrays["value"], arrays["vector"]))
        known = {"initial": np.asarray(problem.floor), **arrays}  # a state of an earlier version has none
        numbers = [known[name].item() for name in NUMBERS]
        return self._ready(problem, PerseusState(backup.unpack(arrays), Points(*parts), words, *numbers))


def explore(problem: Problem, settings: Perseus, words: np.ndarray) -> np.ndarray:
    """The belief points [X, B] of random walks; of a small model only its own states.

    Where they hardly reach a reward, the stages find little or nothing to propagate. Half as many points are then added
    from walks that the upper bound guides, and as many from walks that repeat actions: an ad hoc agent that mistakes
    the true model for another visits beliefs far from the start and far from those of this model's own policy.
    """
    model, steps, count = problem.model, settings.steps, settings.beliefs
    kernels = settings.kernels(problem)
    beliefs = points.explore(
        generator(words, 0), model, count, steps, lambda uniform, _: kernels.random_walk(uniform)
    )
    real = slice(len(problem.reachable))  # the others only pad the model
    if points.meets_reward(beliefs[real], np.asarray(model.reward)[real]):
        return beliefs
    upper, half = problem.upper_vectors, max(count // 2, 1)
    guided = points.explore(
        generator(words, GUIDED), model, half, steps, lambda *walk: points.jit_guided_walk(*walk, upper)
    )
    roaming = points.explore(generator(words, ROAMING), model, half, steps, points.jit_roaming_walk)
    own = slice(len(beliefs))
    return np.concatenate([beliefs, guided[own], roaming[own]], axis=1)
