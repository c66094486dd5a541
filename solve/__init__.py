"""Solvers: Perseus the paper's way, an anytime solver with bounds, QMDP and value iteration."""

from __future__ import annotations

from collections.abc import Sequence

from jax import Array

from jatpo.model import POMDP
from jatpo.solve.anytime import AnytimeSettings
from jatpo.solve.driver import Progress, default_directory, solve, solve_library
from jatpo.solve.exact import ExactSettings
from jatpo.solve.perseus import PerseusSettings
from jatpo.solve.policy import Policy
from jatpo.solve.solution import Solution

__all__ = [
    "AnytimeSettings",
    "ExactSettings",
    "PerseusSettings",
    "Policy",
    "Solution",
    "default_directory",
    "paper_settings",
    "perseus",
    "solve",
    "solve_library",
]


def perseus(
    models: Sequence[POMDP], settings: PerseusSettings, key: Array, progress: Progress | None = None
) -> list[Solution]:
    """Perseus on each of `models`: `solve` with the paper's kind of settings."""
    return solve(models, settings, key, progress)


def paper_settings(name: str) -> PerseusSettings:
    """The published settings of a domain: number of beliefs, horizon as number of stages, tolerance."""
    from jatpo.domains import get

    domain = get(name)
    return PerseusSettings(beliefs=domain.beliefs, stages=domain.horizon, tolerance=domain.tolerance)
