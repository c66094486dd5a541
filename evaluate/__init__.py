"""Agents, rollouts and the statistics of experiments (docs/agents.md).

The names below are loaded on first use.
"""

from __future__ import annotations

import importlib

_HOME = {
    "agents": "agents",
    "Agent": "agents",
    "Context": "agents",
    "register": "agents",
    "load": "agents",
    "Player": "player",
    "agent": "player",
    "Scenario": "scenario",
    "Solved": "solved",
    "solve_library": "solved",
    "Trials": "trials",
    "run_chunks": "rollout",
    "Session": "session",
    "choose_agents": "agents.catalogue",
    "SolveOptions": "solved",
    "Store": "results_store",
    "compare": "trials",
    "Experiment": "experiment",
    "run": "experiment",
}


def __dir__() -> list[str]:
    return sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo.evaluate' has no attribute '{name}'")
    module = importlib.import_module(f"jatpo.evaluate.{_HOME[name]}")
    return module if name == _HOME[name] else getattr(module, name)
