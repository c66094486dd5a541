"""jatpo: ad hoc teamwork under partial observability, in JAX.

    library = jatpo.load("gridworld")
    solved = jatpo.solve_library(library, key=jax.random.key(0), stop=jatpo.Stop(seconds=10))
    trials = jatpo.rollout(jax.random.key(1), jatpo.agents.ATPO(), jatpo.Scenario(library), solved, trials=1000)

The names below are the public interface; everything else is private by convention. They are loaded on first use, so
that `import jatpo` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from jatpo.errors import JatpoError
from jatpo.version import __version__

if TYPE_CHECKING:
    from jatpo import beliefs, domains, environment, envs, filter, learn, mdp, storage
    from jatpo.evaluate import agents, experiments
    from jatpo.evaluate.agents.protocol import Agent
    from jatpo.evaluate.experiment import Config, Experiment, run
    from jatpo.evaluate.player import Player, agent
    from jatpo.evaluate.rollout import rollout
    from jatpo.evaluate.scenario import Scenario
    from jatpo.evaluate.solved import Solved, solve_library
    from jatpo.evaluate.trials import Trials, compare
    from jatpo.events import Event
    from jatpo.files.directories import save
    from jatpo.files.sources import load
    from jatpo.library import Library
    from jatpo.model import POMDP
    from jatpo.solve.anytime import Anytime
    from jatpo.solve.base import Solver
    from jatpo.solve.perseus import Perseus
    from jatpo.solve.policy import Policy
    from jatpo.solve.qmdp import QMDP, ValueIteration
    from jatpo.solve.solution import Solution
    from jatpo.solve.stopping import Status, Stop
    from jatpo.tables import Table

_HOME = {
    "Agent": "jatpo.evaluate.agents.protocol",
    "Anytime": "jatpo.solve.anytime",
    "Config": "jatpo.evaluate.experiment",
    "Event": "jatpo.events",
    "Experiment": "jatpo.evaluate.experiment",
    "Library": "jatpo.library",
    "POMDP": "jatpo.model",
    "Perseus": "jatpo.solve.perseus",
    "Player": "jatpo.evaluate.player",
    "Policy": "jatpo.solve.policy",
    "QMDP": "jatpo.solve.qmdp",
    "Scenario": "jatpo.evaluate.scenario",
    "Solution": "jatpo.solve.solution",
    "Solved": "jatpo.evaluate.solved",
    "Solver": "jatpo.solve.base",
    "Status": "jatpo.solve.stopping",
    "Stop": "jatpo.solve.stopping",
    "Table": "jatpo.tables",
    "Trials": "jatpo.evaluate.trials",
    "ValueIteration": "jatpo.solve.qmdp",
    "agent": "jatpo.evaluate.player",
    "compare": "jatpo.evaluate.trials",
    "load": "jatpo.files.sources",
    "rollout": "jatpo.evaluate.rollout",
    "run": "jatpo.evaluate.experiment",
    "save": "jatpo.files.directories",
    "solve_library": "jatpo.evaluate.solved",
}
_MODULES = {
    "agents": "jatpo.evaluate.agents",
    "experiments": "jatpo.evaluate.experiments",
    **{
        name: f"jatpo.{name}"
        for name in ("beliefs", "domains", "environment", "envs", "filter", "learn", "mdp", "storage")
    },
}

__all__ = [
    "POMDP",
    "QMDP",
    "Agent",
    "Anytime",
    "Config",
    "Event",
    "Experiment",
    "JatpoError",
    "Library",
    "Perseus",
    "Player",
    "Policy",
    "Scenario",
    "Solution",
    "Solved",
    "Solver",
    "Status",
    "Stop",
    "Table",
    "Trials",
    "ValueIteration",
    "__version__",
    "agent",
    "agents",
    "beliefs",
    "compare",
    "domains",
    "environment",
    "envs",
    "experiments",
    "filter",
    "learn",
    "load",
    "mdp",
    "rollout",
    "run",
    "save",
    "solve_library",
    "storage",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
