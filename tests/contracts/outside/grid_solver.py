"""A solver from outside the package: backups at the initial belief and at the corners of the simplex (Pineau 2003)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jatpo.solve import SOLVERS, Info, Policy, Solution, Solver, Status
from jatpo.solve.backup import fill, jit_backup


class GridState(NamedTuple):
    points: Any  # [X, B]
    alpha: Any  # [B, X]
    action: Any  # [B]
    stages: Any


@dataclass(frozen=True)
class Grid(Solver):
    tolerance: float = 1e-5
    name: ClassVar[str] = "grid"

    def init(self, problem, key) -> GridState:
        size, real = problem.model.num_states, len(problem.reachable)
        initial = np.asarray(problem.model.initial)
        points = np.concatenate([initial[:, None], np.eye(size, real, dtype=initial.dtype)], axis=1)
        alpha = np.full((real + 1, size), problem.floor, initial.dtype)
        return GridState(points, alpha, np.zeros(real + 1, np.int32), 0)

    def step(self, problem, key, state: GridState) -> tuple[GridState, Info]:
        points, old = np.asarray(state.points), np.asarray(state.alpha)
        vectors = fill(old, np.asarray(state.action), len(points))
        alpha, action, value = (
            np.asarray(part) for part in jit_backup(problem.model, problem.plan, points, vectors)
        )
        rise = value - (old.T * points).sum(axis=0)
        state = GridState(
            points,
            np.where(rise[:, None] > 0, alpha, old),
            np.where(rise > 0, action, state.action),
            int(state.stages) + 1,
        )
        status = Status.CONVERGED if rise.max() < self.tolerance else None
        backups, lower = state.stages * len(value), self.lower(problem, state)
        return state, Info(state.stages, backups, len(value), lower, problem.upper, status)

    def lower(self, problem, state: GridState) -> float:
        return float(np.max(np.asarray(state.alpha).dot(np.asarray(problem.model.initial))))

    def solution(self, problem, state: GridState) -> Solution:
        policy = Policy(problem.expand(np.asarray(state.alpha)), np.asarray(state.action))
        return Solution(policy, self.lower(problem, state), problem.upper)


SOLVERS.add(Grid.name, Grid)
