"""Anytime solving: the same backups at better points.

Each round sends walkers from the initial belief through the model. Most follow the upper bound (where something may be
gained) or the current policy, and spread over the possible observations. Some act at random: an ad hoc agent follows a
mixture of policies while the true model may be another, and visits beliefs that no policy of this model would reach.
Then the visited beliefs are backed up in reverse, last step first, so that in a nearly deterministic model one round
carries a value from the goal back to the start. Vectors that are best at none of the points kept are dropped.

The first vectors are those of the blind policies, so the lower bound holds from the start and never falls at the
initial belief.

All of this is float32 and guided by a table of bounds that identifies beliefs by projections. What is reported is not:
each round is followed by one of `jatpo.solve.gap_search`, whose bounds are sound, and whose vectors join the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.model import POMDP
from jatpo.solve import backup, bounds, gap_search, rounds, upper_bound
from jatpo.solve.backup import Vectors, fill
from jatpo.solve.base import Room, Solver
from jatpo.solve.compiling import ahead, jit
from jatpo.solve.gap_search import Search, SearchState
from jatpo.solve.policy import Policy
from jatpo.solve.problem import BATCH, Problem, generator, key_words
from jatpo.solve.rounds import Guidance, Noise
from jatpo.solve.solution import Solution
from jatpo.solve.stage import Points
from jatpo.solve.stopping import Info, Status, Stop
from jatpo.solve.upper_bound import Table

jit_blind = jit(bounds.blind)
jit_revealed = jit(bounds.revealed)


class AnytimeState(NamedTuple):
    """A solve between two rounds."""

    vectors: Vectors
    points: Points
    table: Table  # upper bounds at visited beliefs
    words: np.ndarray  # the random key
    stages: int
    backups: int
    lower: float  # at the initial belief
    search: SearchState  # what bounds the optimum


@dataclass(frozen=True)
class Anytime(Solver):
    """Rounds of walks and backups, until the `Stop` is reached."""

    walkers: int = 64
    steps: int = 40  # of a walk
    keep: int = 1024  # points kept from round to round, to prune by
    off_policy: float = 0.125  # share of walkers that act at random
    exploration: float = 0.03  # share of random actions of the others
    capacity: int = 8192  # vectors at most, in whole tiles
    name: ClassVar[str] = "anytime"
    room: ClassVar[int] = backup.FIRST_ROOM
    table: ClassVar[int] = upper_bound.CAPACITY  # visited beliefs with an upper bound of their own at most

    def __post_init__(self) -> None:
        for name in ("walkers", "steps", "keep", "capacity"):
            if getattr(self, name) < 1:
                raise JatpoError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("off_policy", "exploration"):
            if not 0 <= getattr(self, name) <= 1:
                raise JatpoError(f"{name} must be in [0, 1], got {getattr(self, name)}")

    def reserve(self, num_states: int, num_actions: int, itemsize: int) -> Sequence[Room]:
        """Points that are kept, walks, vectors, and what a batch of backups expects under every action."""
        each = num_states * itemsize
        return (
            ("points to prune by", self.keep, each, "--set keep"),
            ("walkers, with the beliefs they visit", self.walkers, self.steps * each, "--set walkers"),
            ("alpha vectors, at first", min(self.room, self.capacity), each, "--set capacity"),
            ("a batch of backups", BATCH, (num_actions + 2) * each, ""),
        )

    def check(self, stop: Stop) -> None:
        """Refuse to run forever."""
        if not stop.given:
            raise JatpoError(
                "nothing would stop the anytime solver: give seconds, a gap or a number of stages"
            )

    def init(self, problem: Problem, key: Array) -> AnytimeState:
        """The blind policies, or q* where it is attained."""
        with ahead(*_programs(problem, self)):
            state = self._first(problem, key_words(key))
            _ = problem.upper_vectors
        return state

    def _first(self, problem: Problem, words: np.ndarray) -> AnytimeState:
        model = problem.model
        first = jit_revealed(model) if problem.reveals else jit_blind(model)
        first, initial = np.asarray(first), np.asarray(model.initial)
        room = min(self.room, self.capacity)
        vectors = fill(first, np.arange(model.num_actions), model.num_states, room)
        values = first.dot(initial)
        beliefs = np.repeat(initial[:, None], self.keep, axis=1)
        value = np.full(self.keep, values.max(), initial.dtype)
        vector = np.full(self.keep, values.argmax(), np.int32)
        points = Points(*jax.device_put((beliefs, value, vector)))
        table = upper_bound.empty(model.dtype, self.table)
        search = SearchState(problem.part.exact(), problem.part.num_observations)
        lower = max(problem.attained(float(values.max())), search.lower)
        return AnytimeState(vectors, points, table, words, 0, 0, lower, search)

    def step(self, problem: Problem, key: Array, state: AnytimeState) -> tuple[AnytimeState, Info]:
        """One round."""
        del key  # `state` has its words
        noise = draw(self, problem.model, generator(state.words, state.stages))
        share = 1.0 if state.stages == 0 else 0.5 if state.stages < 4 else 0.25
        guidance = _guidance(round(share * self.walkers), self.exploration, problem.model)
        vectors, points, table, info = rounds.play_round(
            noise, problem, state.vectors, state.points.beliefs, state.table, guidance, self.capacity
        )
        if info.full:
            return state, _info(state, Status.CAPACITY_REACHED)
        initial = np.asarray(problem.model.initial)
        own = problem.attained(float(np.max(np.asarray(vectors.alpha).dot(initial))))
        done = state.search.backups
        gap_search.advance(state.search, Search(gap=0.0), int(state.words[-1]))
        backups = state.backups + int(info.backups) + state.search.backups - done
        lower = max(own, state.search.lower)
        state = AnytimeState(
            vectors, points, table, state.words, state.stages + 1, backups, lower, state.search
        )
        return state, _info(state)

    def solution(self, problem: Problem, state: AnytimeState) -> Solution:
        """The vectors of both, over all states of the original model."""
        own, more = problem.policy(state.vectors), problem.policy_of(state.search.below)
        return Solution(
            policy=Policy(
                *jax.device_put(tuple(np.concatenate(parts) for parts in zip(own, more, strict=True)))
            ),
            lower=state.lower,
            upper=state.search.upper,
            mean_value=float(np.mean(np.asarray(state.points.value))),
        )

    def pack(self, state: AnytimeState) -> dict[str, np.ndarray]:
        """The vectors in use, the points and the table."""
        points = {name: np.asarray(part) for name, part in state.points._asdict().items()}
        table = {f"table_{name}": np.asarray(part) for name, part in state.table._asdict().items()}
        numbers = {name: np.asarray(getattr(state, name)) for name in NUMBERS}
        search = {f"search_{name}": part for name, part in state.search.to_arrays().items()}
        return backup.pack(state.vectors) | points | table | numbers | search

    def unpack(self, problem: Problem, key: Array, arrays: dict[str, np.ndarray]) -> AnytimeState:
        """The state that was packed into `arrays`."""
        with ahead(*_programs(problem, self)):
            _ = problem.upper_vectors
        points = Points(*jax.device_put(tuple(arrays[name] for name in Points._fields)))
        table = Table(*(np.asarray(arrays[f"table_{name}"]) for name in Table._fields))
        numbers = {name: arrays[name].item() for name in NUMBERS}
        kept = {
            name.removeprefix("search_"): part for name, part in arrays.items() if name.startswith("search_")
        }
        search = SearchState.from_arrays(problem.part.exact(), problem.part.num_observations, kept)
        vectors, words = backup.unpack(arrays), key_words(key)
        return AnytimeState(vectors, points, table, words, search=search, **numbers)


NUMBERS = ("stages", "backups", "lower")


def _info(state: AnytimeState, status: Status | None = None) -> Info:
    count = int(state.vectors.count)
    count += int(state.search.below.name.size)
    return Info(state.stages, state.backups, count, state.lower, state.search.upper, status)


def draw(settings: Anytime, model: POMDP, random: np.random.Generator) -> Noise:
    """The random numbers of a round."""
    others = round(settings.off_policy * settings.walkers)
    steps, guided = settings.steps, settings.walkers - others
    uniform = random.random((steps, 2, guided), model.dtype)
    gumbel = random.gumbel(size=(steps, model.num_observations, guided)).astype(model.dtype)
    free = random.random((steps, 3, others), model.dtype)
    uniform, gumbel, free = jax.device_put((uniform, gumbel, free))
    return Noise(uniform, gumbel, free, float(random.random(1, model.dtype)[0]))


def _guidance(optimists: int, exploration: float, model: POMDP) -> Guidance:
    return Guidance(*jax.device_put((np.int32(optimists), np.asarray(exploration, model.dtype))))


def _programs(problem: Problem, settings: Anytime) -> list[Callable[[], Any]]:
    """Calls that compile the kernels of a round, by running them on blank input."""
    model, plan = problem.model, problem.plan
    noise = draw(settings, model, np.random.default_rng(0))
    blank = np.zeros((model.num_actions, model.num_states), model.dtype)
    table, marking = upper_bound.empty(model.dtype, settings.table), upper_bound.projections(problem)
    room = min(settings.room, settings.capacity)
    vectors = fill(blank, np.arange(model.num_actions), model.num_states, room)

    def walking() -> None:
        rounds.jit_walk(noise, model, plan, blank, vectors, _guidance(0, 0, model), table, marking)

    def joining() -> None:
        visited = np.zeros((settings.steps, model.num_states, settings.walkers), model.dtype)
        kept = np.zeros((model.num_states, settings.keep), model.dtype)
        beliefs, loop, *_ = rounds.jit_gather(visited, kept, vectors, blank, marking[0])
        columns = rounds.table_of([], settings.steps, settings.walkers)
        loop, _ = rounds.jit_back_up(loop, model, plan, beliefs, columns, *[np.int32(0)] * 3)
        rounds.finish(loop, beliefs, 0.0, settings.keep)
        guided = noise.guided.shape[2]
        if guided and not plan.reveals:
            columns, *_ = upper_bound.jit_marks(marking, blank, visited, guided)
            upper_bound.successors(problem, blank, marking, columns, np.zeros(1, np.int32))

    return [walking, joining]
