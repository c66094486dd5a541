"""Histories of an agent in a world that is known: data for fits, tests and experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jax import Array

from jatpo import domains
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.rollout import rollout
from jatpo.evaluate.scenario import Scenario
from jatpo.learn.histories import Histories
from jatpo.library import Library


def simulate(
    key: Array, agent: Agent, scenario: Scenario, solved: Mapping[str, Any], horizon: int, count: int
) -> Histories:
    """`count` episodes of `horizon` steps; the scenario says what the true models are."""
    record = ("actions", "observations")
    trials = rollout(key, agent, scenario, solved, horizon, trials=count, record=record)
    actions, observations = (trials.records[name].astype(np.int32) for name in ("actions", "observations"))
    return Histories(actions, observations, np.ones(actions.shape, bool))


def changed(library: Library, model: int | None = None, noise: float | None = None) -> Scenario:
    """The scenario of a library with a certain true model, or with true models of another noise."""
    weights = None
    if model is not None:
        library.member(model)  # refuses a number that there is not
        weights = np.eye(library.num_models)[model]
    truths = None if noise is None else domains.with_overrides(library, noise=noise)
    return Scenario(library, truths, weights)
