"""A solve under way: its state between two stages, and what makes a solution of it.

`begin` and `advance` belong to the solver; who calls them decides about progress and checkpoints, so that a run
that was stopped goes on as if nothing had happened.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from jatpo.solve.above import Table
from jatpo.solve.backup import Vectors
from jatpo.solve.policy import Policy
from jatpo.solve.problem import Problem
from jatpo.solve.solution import Solution


class Run(NamedTuple):
    """A solve between two stages. `stopped` is empty while it goes on."""

    vectors: Vectors
    beliefs: Array  # [X, B], the points
    value: Array  # [B]
    vector: Array  # [B] int32
    stages: int
    backups: int
    seconds: float
    change: float
    lower: float  # at the initial belief
    stopped: str
    upper: float = np.inf  # at the initial belief
    table: Table | None = None  # of upper bounds at beliefs met


def finish(problem: Problem, settings: Any, seed: int, run: Run, upper: float) -> Solution:
    """The solution of a finished run."""
    count = int(run.vectors.count)
    vectors = problem.expand(np.asarray(run.vectors.alpha)[:count])
    return Solution(
        policy=Policy(*jax.device_put((vectors, np.asarray(run.vectors.action)[:count]))),
        lower=run.lower,
        upper=max(upper, run.lower),
        mean_value=float(np.mean(np.asarray(run.value))),
        stages=run.stages,
        backups=run.backups,
        seconds=run.seconds,
        stopped=run.stopped,
        seed=seed,
        settings={"solver": type(settings).__name__, **dataclasses.asdict(settings)},
        model_hash=problem.model_hash,
    )
