"""Solvers: Perseus as in the paper, graph search and an anytime solver with bounds, QMDP, value iteration; a protocol.

The names below are loaded on first use, so that small files are solved without jax.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jatpo.solve.anytime import Anytime
    from jatpo.solve.base import Solver
    from jatpo.solve.defaults import Choice, choose, choose_for, default_directory
    from jatpo.solve.driver import solve_models
    from jatpo.solve.graph import GraphSearch
    from jatpo.solve.perseus import Perseus
    from jatpo.solve.policy import Policy
    from jatpo.solve.problem import Problem
    from jatpo.solve.qmdp import QMDP, ValueIteration
    from jatpo.solve.solution import Solution, notes
    from jatpo.solve.solvers import SOLVERS
    from jatpo.solve.stopping import Info, Request, Status, Stop

_HOME = {
    "Anytime": "anytime",
    "Choice": "defaults",
    "GraphSearch": "graph",
    "Info": "stopping",
    "Perseus": "perseus",
    "Policy": "policy",
    "Problem": "problem",
    "QMDP": "qmdp",
    "Request": "stopping",
    "SOLVERS": "solvers",
    "Solution": "solution",
    "Solver": "base",
    "Status": "stopping",
    "Stop": "stopping",
    "ValueIteration": "qmdp",
    "choose": "defaults",
    "choose_for": "defaults",
    "default_directory": "defaults",
    "notes": "solution",
    "solve_models": "driver",
}

__all__ = [
    "QMDP",
    "SOLVERS",
    "Anytime",
    "Choice",
    "GraphSearch",
    "Info",
    "Perseus",
    "Policy",
    "Problem",
    "Request",
    "Solution",
    "Solver",
    "Status",
    "Stop",
    "ValueIteration",
    "choose",
    "choose_for",
    "default_directory",
    "notes",
    "solve_models",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo.solve' has no attribute '{name}'")
    return getattr(importlib.import_module(f"jatpo.solve.{_HOME[name]}"), name)
