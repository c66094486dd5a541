"""Solvers: Perseus as in the paper, an anytime solver with bounds, QMDP, value iteration; a protocol for others."""

from __future__ import annotations

from jatpo.solve.anytime import Anytime
from jatpo.solve.base import Info, Solver, Status, Stop
from jatpo.solve.defaults import Choice, Request, choose, choose_for, default_directory
from jatpo.solve.driver import solve_models
from jatpo.solve.perseus import Perseus
from jatpo.solve.policy import Policy
from jatpo.solve.problem import Problem
from jatpo.solve.qmdp import QMDP, ValueIteration
from jatpo.solve.solution import Solution, notes
from jatpo.solve.solvers import SOLVERS

__all__ = [
    "QMDP",
    "SOLVERS",
    "Anytime",
    "Choice",
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
