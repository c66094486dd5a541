"""Domains and libraries as environments for agents of other frameworks.

    make("gridworld")                          pure reset and step functions as in gymnax
    jatpo.envs.gymnasium.AdHocEnv("gridworld")       one agent, for Gymnasium; AdHocVectorEnv for many at once
    jatpo.envs.pettingzoo.TeamEnv("gridworld")       the agent and its teammate, for PettingZoo

The last two need the extras `gymnasium` and `pettingzoo`. The names below are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jatpo.envs import gymnasium, pettingzoo
    from jatpo.envs.functional import Discrete, Environment, Params, State, make

_HOME = dict.fromkeys(("Discrete", "Environment", "Params", "State", "make"), "functional")
_MODULES = ("gymnasium", "pettingzoo")

__all__ = ["Discrete", "Environment", "Params", "State", "gymnasium", "make", "pettingzoo"]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"jatpo.envs.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo.envs' has no attribute '{name}'")
    return getattr(importlib.import_module(f"jatpo.envs.{_HOME[name]}"), name)
