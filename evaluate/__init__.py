"""Agents, rollouts and the statistics of experiments (docs/agents.md).

The names below are loaded on first use; `jatpo.evaluate.prepare` finds and solves the models of a domain.
"""

from __future__ import annotations

import importlib

_HOME = {
    "Agent": "agent",
    "Knowledge": "agent",
    "lift": "agent",
    "register": "registry",
    "load": "registry",
    "Player": "player",
    "Task": "task",
    "make_task": "task",
    "Trials": "rollout",
    "run": "rollout",
    "run_chunks": "rollout",
    "Session": "prepare",
    "choose_agents": "prepare",
    "SolveOptions": "solutions",
    "Store": "store",
    "compare": "comparison",
    "play": "comparison",
}


def __dir__() -> list[str]:
    return sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo.evaluate' has no attribute '{name}'")
    return getattr(importlib.import_module(f"jatpo.evaluate.{_HOME[name]}"), name)
