"""Does it hold up? The rules and the Bayes-optimal agent with a wrong library, and with libraries of 2 to 32 models.

    left out      the true model is missing from the library
    noise x f     the world's noise is f times what the library assumes
    prior 1:10    the prior gives one model ten times the weight of any other, and it is never the true one

The Bayes-optimal agent keeps the vectors that were solved for the library as it was assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jatpo.evaluate import beyond, misspecified
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.prepare import Prepared, Session
from jatpo.evaluate.task import Task

WRONG = 10.0
PRIOR = f"prior 1:{WRONG:g}"
SIZES = (2, 4, 8, 16, 32)

Row = dict[str, Any]


def scenarios(prepared: Prepared, factors: Sequence[float]) -> dict[str, Task]:
    """The task of every scenario that makes sense in the domain, by name; the right library first."""
    found = misspecified.scenarios(prepared, factors)
    if len(prepared.models) > 1:
        found[PRIOR] = wrong_prior(prepared.task)
    return found


def wrong_prior(task: Task, factor: float = WRONG) -> Task:
    """The task with a prior that favours model 0 by `factor`, and true models drawn from all others alike."""
    count = task.prior.shape[0]
    odds = np.where(np.arange(count) == 0, factor, 1.0)
    others = np.arange(count) > 0
    dtype = task.prior.dtype
    prior, weights = odds / odds.sum(), others / others.sum()
    return task._replace(prior=jnp.asarray(prior, dtype), weights=jnp.asarray(weights, dtype))


def stress(
    prepared: Prepared, agents: Sequence[Agent], trials: int, session: Session, factors: Sequence[float]
) -> list[Row]:
    """One row for each scenario and agent."""
    rows: list[Row] = []
    tasks = scenarios(prepared, factors)
    session.expect(agents, prepared.task.library, len(tasks))
    for scenario, task in tasks.items():
        name = scenario.replace(" ", "-").replace(":", "-")
        part = f"stress/{prepared.rules}/{prepared.part}/{name}"
        session.open_part(part, prepared, scenario=scenario)
        found, _ = beyond.play(part, prepared, task, agents, trials, session)
        label = {"domain": prepared.name, "rules": prepared.rules, "scenario": scenario}
        rows += [{**label, **row} for row in beyond.compare(found)]
    return rows


def sizes(
    prepared: Prepared, agents: Sequence[Agent], wanted: Sequence[int], trials: int, session: Session
) -> list[Row]:
    """One row for each size of the library and agent; libraries are drawn for each trial from the whole pool."""
    rows: list[Row] = []
    session.expect(agents, prepared.task.library, len(wanted))
    for size in wanted:
        part = f"sizes/{prepared.rules}/{prepared.part}/{size:02d}"
        session.open_part(part, prepared, size=size)
        task = prepared.task._replace(size=jnp.int32(size))
        found, _ = beyond.play(part, prepared, task, agents, trials, session)
        label = {"domain": prepared.name, "rules": prepared.rules, "size": size}
        rows += [{**label, **row} for row in beyond.compare(found)]
    return rows
