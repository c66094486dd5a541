"""What agents need solved before they can act, by name: "policies" (alpha vectors), "q" (of the MDPs).

The only place that calls the solver. `PROVIDERS` may be given more names by modules that add agents with
other needs; a provider gets the models and the options and returns a pytree of arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jatpo.errors import unknown
from jatpo.evaluate.agent import Agent
from jatpo.library import Library
from jatpo.mdp import value_iteration_library
from jatpo.model import POMDP
from jatpo.solve.policy import stack


@dataclass(frozen=True)
class SolveOptions:
    """How to solve: settings of the solver (None: the paper's for the domain), where solutions are kept."""

    settings: Any = None
    seed: int = 0
    directory: Path | None = None
    progress: Callable[..., None] | None = None


@dataclass(frozen=True)
class Request:
    """A library to solve. `domain` tells the paper's settings; `labels` name the models in progress."""

    domain: str | None
    models: Sequence[POMDP]
    library: Library
    options: SolveOptions
    labels: Sequence[str] | None = None


_jit_values = jax.jit(value_iteration_library)


def solve_policies(request: Request) -> Any:
    """The alpha vectors of every model, stacked [K, V, X]."""
    policies = [solution.policy for solution in solutions(request)]
    return stack(policies, request.library.num_states)


def solutions(request: Request) -> list:
    """Every model's `Solution`, loaded where it has been solved before."""
    from jatpo import solve

    options = request.options
    settings = options.settings
    if settings is None:
        settings = solve.paper_settings(request.domain) if request.domain else solve.PerseusSettings()
    directory = options.directory or solve.default_directory()
    return solve.solve_library(
        list(request.models),
        settings,
        seed=options.seed,
        directory=directory,
        progress=options.progress,
        labels=request.labels,
    )


def solve_values(request: Request) -> Any:
    """q* of the MDP beneath every model [K, X, A]."""
    return _jit_values(request.library.models, 1e-4, 10_000).q


PROVIDERS: dict[str, Callable[[Request], Any]] = {"policies": solve_policies, "q": solve_values}


def solve_needs(request: Request, agents: Sequence[Agent]) -> dict[str, Any]:
    """All that the agents need, solved once."""
    names = dict.fromkeys(name for agent in agents for name in agent.needs)
    for name in names:
        if name not in PROVIDERS:
            raise unknown("solution", name, PROVIDERS)
    return {name: PROVIDERS[name](request) for name in names}


def digest(solved: dict[str, Any]) -> dict[str, str]:
    """A short digest of every solution, to tell results of different policies apart."""
    found = {}
    for name, tree in solved.items():
        state = hashlib.sha256()
        for leaf in jax.tree.leaves(tree):
            state.update(np.ascontiguousarray(leaf).tobytes())
        found[name] = state.hexdigest()[:16]
    return found
