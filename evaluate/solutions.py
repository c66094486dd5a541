"""What agents need solved before they can act, by name: "policies" (alpha vectors), "q" (of the MDPs),
"joint" (alpha vectors of the whole library as one problem), "action_values" (alpha vectors of every action).

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
from jatpo.evaluate import bayes
from jatpo.evaluate.action_values import ActionValues, action_values
from jatpo.evaluate.agent import Agent
from jatpo.files import UserLibrary
from jatpo.library import Library
from jatpo.mdp import value_iteration_library
from jatpo.solve import AnytimeSettings, PerseusSettings, Solution, default_directory, solve_library
from jatpo.solve.anytime import FOR_AGENTS
from jatpo.solve.policy import stack


@dataclass(frozen=True)
class SolveOptions:
    """How to solve: settings of the solver (None: Perseus as the library says), where solutions are kept."""

    settings: Any = None
    seed: int = 0
    directory: Path | None = None
    progress: Callable[..., None] | None = None
    note: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Request:
    """A library to solve, from a domain or from files, and the same models stacked."""

    target: UserLibrary
    library: Library
    options: SolveOptions


def in_seconds(seconds: float) -> AnytimeSettings:
    """The anytime solver for agents that follow several models' policies.

    Half of its walkers act at random: such an agent comes to beliefs that a model's own policy never leads to, and a
    policy that was not solved there may do the same useless thing for ever (`jatpo experiment off-policy`).
    """
    return AnytimeSettings(seconds=seconds, off_policy=FOR_AGENTS)


_jit_values = jax.jit(value_iteration_library)


def solve_policies(request: Request) -> Any:
    """The alpha vectors of every model, stacked [K, V, X]; policies that came with the library are kept."""
    given = request.target.policies
    found = solutions(request) if any(policy is None for policy in given) else []
    policies = [found[k].policy if policy is None else policy for k, policy in enumerate(given)]
    return stack(policies, request.library.num_states)


def solutions(request: Request) -> list[Solution]:
    """Every model's `Solution`, loaded where it has been solved before."""
    options, target = request.options, request.target
    own = target.settings
    settings = options.settings or PerseusSettings(
        beliefs=own.beliefs, stages=own.horizon, tolerance=own.tolerance
    )
    return solve_library(
        target.models,
        settings,
        seed=options.seed,
        directory=options.directory or default_directory(),
        progress=options.progress,
        labels=[f"{target.name} {label}" for label in target.labels],
        note=options.note,
    )


def solve_values(request: Request) -> Any:
    """q* of the MDP beneath every model [K, X, A]."""
    return _jit_values(request.library.models, 1e-4, 10_000).q


def solve_action_values(request: Request) -> ActionValues:
    """What every action is worth in every model [K, A, P, X], by one step of look-ahead on its policy's vectors."""
    return action_values(request.library, PROVIDERS["policies"](request), seed=request.options.seed)


PROVIDERS: dict[str, Callable[[Request], Any]] = {
    "policies": solve_policies,
    "q": solve_values,
    "joint": bayes.solve_joint,
    "action_values": solve_action_values,
}


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
