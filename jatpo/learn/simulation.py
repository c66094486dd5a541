"""Histories of an agent in a world that is known: data for fits, tests and experiments."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import domains
from jatpo.errors import JatpoError
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.prepare import Prepared
from jatpo.evaluate.rollout import run
from jatpo.evaluate.task import Task
from jatpo.evaluate.world import final_states, joined
from jatpo.learn.histories import Histories
from jatpo.library import Library


def simulate(key: Array, agent: Agent, task: Task, horizon: int, count: int) -> Histories:
    """`count` episodes of `horizon` steps. `make_task(..., worlds=, weights=)` says what the true worlds are."""
    trials = run(key, agent, task, horizon, count, record=("actions", "observations"))
    actions, observations = (trials.records[name].astype(np.int32) for name in ("actions", "observations"))
    return Histories(actions, observations, np.ones(actions.shape, bool))


def changed(prepared: Prepared, model: int | None = None, noise: float | None = None) -> Task:
    """The task of a prepared library with a certain true model, or with true worlds of another noise."""
    task, count = prepared.task, len(prepared.models)
    if model is not None:
        if not 0 <= model < count:
            raise JatpoError(f"{prepared.name} has models 0 to {count - 1}, and model {model} was asked for")
        task = task._replace(weights=jnp.asarray(np.eye(count)[model], task.weights.dtype))
    if noise is not None:
        name, _, number = prepared.name.partition(":")
        if name not in domains.names() or "noise" not in domains.get(name).parameters:
            raise JatpoError(f"{prepared.name} has no parameter 'noise': leave --noise out")
        numbers = [int(number)] if number else range(count)
        worlds = [domains.make(name, k, prepared.rules, noise=noise) for k in numbers]
        truths = Library.from_models(worlds).models
        task = task._replace(world=joined(truths), over=final_states(truths))
    return task
